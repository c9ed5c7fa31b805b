"""Uniform base density on the box of the training rows.

log q0 = −Σ_j log(high_j − low_j) inside, −∞ outside; its gradient is zero. The volume is
that of the rows' box, so the normalized density *assumes* that the data's support is this
box: rows outside it have density zero. `margin` widens the box on each side by that
fraction of its width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Float

from kexpfam.arrays import namespace
from kexpfam.base.density import require_rows
from kexpfam.base.mixture import BaseDerivatives
from kexpfam.data.sketch import Sketch

__all__ = ["BoxDensity", "UniformBase"]


@register_dataclass
@dataclass(frozen=True)
class BoxDensity:
    """The uniform density on a box, also inside compiled code."""

    low: Float[Any, " d"]
    high: Float[Any, " d"]

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Any, " n"]:
        numpy = namespace(rows, self.low)
        inside = ((rows >= self.low) & (rows <= self.high)).all(axis=1)
        return numpy.where(inside, -numpy.log(self.high - self.low).sum(), -numpy.inf)

    def derivatives(
        self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]
    ) -> BaseDerivatives:
        """All zero."""
        numpy = namespace(rows)
        zeros = numpy.zeros_like(rows)
        return BaseDerivatives(zeros, numpy.zeros_like(covariance), zeros)

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return np.zeros_like(rows)

    def hessian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
        return np.zeros((rows.shape[1], rows.shape[1]))

    def bend(
        self, rows: Float[np.ndarray, "n d"], covariance: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, "n d"]:
        return np.zeros_like(rows)

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        return generator.uniform(self.low, self.high, (n_samples, len(self.low)))

    def widened(self, factor: float) -> BoxDensity:
        """The box itself: the model has no mass outside."""
        return self

    def box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Corners of a box that holds the density's mass."""
        return self.low, self.high


@dataclass(frozen=True)
class UniformBase:
    """The uniform density on the training rows' box.

    Parameters
    ----------
    margin : float, default=0.0
        By how much the box is widened on each side, as a share of its width.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, UniformBase
    >>> model = KernelExponentialFamily(base=UniformBase(margin=0.05))
    """

    margin: float = 0.0

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> BoxDensity:
        """Fit to the box of all rows."""
        require_rows(len(sketch.rows), 2, "A uniform base density", "Add rows.")
        widen = self.margin * (sketch.high - sketch.low)
        return BoxDensity(sketch.low - widen, sketch.high + widen)
