"""A density read in other units: that of center + scale·X where X has the given density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Float

from kexpfam.arrays import namespace

__all__ = ["RescaledDensity"]


@register_dataclass
@dataclass(frozen=True)
class RescaledDensity:
    """The density of y = center + scale·x, column by column, for x distributed as `density`.

    Inside compiled code where `density` is fit for it.
    """

    density: Any
    center: Float[Any, " d"]
    scale: Float[Any, " d"]

    def _inner(self, rows: Float[Any, "n d"]) -> Float[Any, "n d"]:
        return (rows - self.center) / self.scale

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Any, " n"]:
        volume = namespace(self.scale).log(self.scale).sum()
        return self.density.log_density(self._inner(rows)) - volume

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return self.density.gradient(self._inner(rows)) / self.scale

    def hessian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "*n d d"]:
        return self.density.hessian(self._inner(rows)) / np.outer(self.scale, self.scale)

    def bend(
        self, rows: Float[np.ndarray, "n d"], covariance: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, "n d"]:
        inner = covariance / np.outer(self.scale, self.scale)
        return self.density.bend(self._inner(rows), inner) / self.scale

    def derivatives(self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]) -> Any:
        """All of them, where the inner density gives them together."""
        squares = self.scale[:, None] * self.scale
        inner = self.density.derivatives(self._inner(rows), covariance / squares)
        return inner._replace(
            gradient=inner.gradient / self.scale,
            hessian=inner.hessian / squares,
            bend=inner.bend / self.scale,
        )

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        return self.density.sample(n_samples, generator) * self.scale + self.center

    def widened(self, factor: float) -> RescaledDensity:
        """The wider copy of the inner density, in these units."""
        return RescaledDensity(self.density.widened(factor), self.center, self.scale)

    def box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Corners of a box that holds the density's mass."""
        low, high = self.density.box()
        return low * self.scale + self.center, high * self.scale + self.center
