"""log Z by quadrature, for one and two columns.

Composite Gauss–Legendre rules on a box that holds the base density's mass: spectrally accurate
for the smooth integrand exp(f) q0, and exact at the edges of a uniform q0. The panels are
doubled until two successive values agree; their difference is the error reported.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from kexpfam.choices import whole
from kexpfam.model import TiltedDensity
from kexpfam.model.health import NormalizerEstimate

__all__ = ["QuadratureNormalizer"]

_NODES = 8


@dataclass(frozen=True)
class QuadratureNormalizer:
    """Quadrature, for one or two columns.

    Parameters
    ----------
    tolerance : float, default=1e-6
        Two successive values of log Z that differ by less end the search.
    first_panels, most_panels : int, default=12, 96
        Panels per column, at first and at most.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, QuadratureNormalizer
    >>> model = KernelExponentialFamily(normalizer=QuadratureNormalizer(tolerance=1e-8))
    """

    tolerance: float = 1e-6
    first_panels: int = 12
    most_panels: int = 96

    def __post_init__(self) -> None:
        if not (isinstance(self.tolerance, numbers.Real) and self.tolerance >= 0):
            raise ValueError(f"tolerance must be a number ≥ 0; got {self.tolerance!r}.")
        whole("first_panels", self.first_panels)
        whole("most_panels", self.most_panels)

    def estimate(
        self, density: TiltedDensity, generator: np.random.Generator
    ) -> NormalizerEstimate:
        """log Z of a density whose own `log_normalizer` is not used."""
        n_columns = len(density.standardizer.center)
        if n_columns > 2:
            raise ValueError(
                f"normalizer='quadrature' works for one or two columns; got {n_columns}. Use "
                "normalizer='importance'."
            )
        low, high = density.base.box()
        panels, error = self.first_panels, np.inf
        value = _integral(density, low, high, panels)
        while error > self.tolerance and panels < self.most_panels:
            panels *= 2
            finer = _integral(density, low, high, panels)
            value, error = finer, abs(finer - value)
        return NormalizerEstimate(value, error, float("nan"), float("nan"))


def _integral(
    density: TiltedDensity,
    low: Float[np.ndarray, " d"],
    high: Float[np.ndarray, " d"],
    panels: int,
) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    left = np.arange(panels)[:, None] / panels
    unit = (left + (nodes + 1) / (2 * panels)).ravel()
    log_unit_weights = np.tile(np.log(weights / (2 * panels)), panels)
    axes = [a + (b - a) * unit for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    mesh = np.meshgrid(*[log_unit_weights] * len(axes), indexing="ij")
    log_weights = np.sum(mesh, axis=0).ravel() + np.log(high - low).sum()
    base = density.base.log_density(grid)
    heavy = base > base.max() - 745  # exp underflows to zero beyond
    values = density.tilt(grid[heavy]) + base[heavy] + log_weights[heavy]
    return float(logsumexp(values))
