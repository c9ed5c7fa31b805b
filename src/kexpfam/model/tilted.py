"""A fitted density: log p(x) = f(z) + log q0(z) − log Z − Σ_j log scale_j, z standardized.

| symbol    | name           | shape |
|-----------|----------------|-------|
| β         | coefficients   | (m,)  |
| log Z     | log_normalizer | ()    |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from kexpfam.base import (
    BaseDensity,
    BoxDensity,
    GaussianMixtureDensity,
    RescaledDensity,
    draw_defensively,
)
from kexpfam.data.blocks import LARGEST_BLOCK
from kexpfam.data.standardize import Standardizer
from kexpfam.features import Basis
from kexpfam.features.at_rows import gradient_at, laplacian_at, values_at
from kexpfam.model.density import RealDensity
from kexpfam.model.surprise import (
    ColumnGrids,
    grids_of_mixture,
    grids_on_box,
    with_columns,
)
from kexpfam.model.traced import LogDensity, LogDensityFunction, jax_base
from kexpfam.sampling import sample_density

__all__ = ["TiltedDensity"]


def _bounded(
    function: Callable[[np.ndarray], np.ndarray], rows: Float[np.ndarray, "n d"]
) -> np.ndarray:
    """A function of rows, block by block, so that memory stays bounded."""
    pieces = [
        function(rows[start : start + LARGEST_BLOCK])
        for start in range(0, len(rows), LARGEST_BLOCK)
    ]
    return np.concatenate(pieces)


@dataclass(frozen=True)
class TiltedDensity(RealDensity):
    """Everything that is needed to evaluate the model, and nothing of the training rows."""

    basis: Basis
    coefficients: Float[np.ndarray, " m"]
    base: BaseDensity
    standardizer: Standardizer
    log_normalizer: float

    @property
    def has_tilt(self) -> bool:
        """Whether it differs from its base density."""
        return bool(np.any(self.coefficients))

    def untilted(self) -> TiltedDensity:
        """The base density alone."""
        return replace(self, coefficients=np.zeros_like(self.coefficients), log_normalizer=0.0)

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Draws by Markov chains; of the base density alone, directly."""
        if self.has_tilt:
            return sample_density(self, n_samples, generator).rows(n_samples)
        return self.standardizer.backward(self.base.sample(n_samples, generator))

    def draws_log_density(
        self, n_draws: int, generator: np.random.Generator
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """log p at draws of the base density, and the shares that make them draws of the model."""
        draws = draw_defensively(self.base, n_draws, generator)
        log_shares = draws.log_proportions + self.tilt(draws.rows)
        logs = self.log_density(self.standardizer.backward(draws.rows))
        return logs, np.exp(log_shares - logsumexp(log_shares))

    def support_box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]] | None:
        """The box of a uniform base density."""
        if not isinstance(self.base, BoxDensity):
            return None
        corners = np.stack([self.base.low, self.base.high])
        low, high = self.standardizer.backward(corners)
        return low, high

    def tilt(self, standardized: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """f at standardized rows: the log of the model over its base, up to log Z."""
        return values_at(self.basis, self.coefficients, standardized)

    def standardized_function(self) -> LogDensity:
        """f(z) + log q0(z) as a JAX function of one standardized row: log p up to a constant."""
        return LogDensity(self.basis, self.coefficients, jax_base(self.base))

    def jax_function(self) -> LogDensityFunction:
        units = self.standardizer
        in_user_units = RescaledDensity(self.standardized_function(), units.center, units.scale)
        return LogDensityFunction(in_user_units, np.float64(self.log_normalizer), units.center)

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """log p, normalized."""
        shift = self.log_normalizer + self.standardizer.log_volume

        def of_block(rows: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
            standardized = self.standardizer.forward(rows)
            return self.tilt(standardized) + self.base.log_density(standardized) - shift

        return _bounded(of_block, rows)

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """∇log p."""

        def of_block(rows: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b d"]:
            standardized = self.standardizer.forward(rows)
            tilt = gradient_at(self.basis, self.coefficients, standardized)
            return (tilt + self.base.gradient(standardized)) / self.standardizer.scale

        return _bounded(of_block, rows)

    def laplacian(
        self, rows: Float[np.ndarray, "n d"], metric: Float[np.ndarray, " d"] | None = None
    ) -> Float[np.ndarray, " n"]:
        """Σ_j metric_j ∂²log p/∂x_j²; with no metric, the Laplacian."""
        squared = self.standardizer.scale**-2.0
        inner = squared if metric is None else metric * squared

        def of_block(rows: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
            standardized = self.standardizer.forward(rows)
            tilt = laplacian_at(self.basis, self.coefficients, standardized, inner)
            curvature = np.diagonal(self.base.hessian(standardized), axis1=-2, axis2=-1)
            return tilt + curvature @ inner

        return _bounded(of_block, rows)

    def score_matching_losses(
        self, rows: Float[np.ndarray, "n d"], metric: Float[np.ndarray, " d"] | None = None
    ) -> Float[np.ndarray, " n"]:
        """Σ_j metric_j (∂²_j log p + ½ (∂_j log p)²) at each row; no metric counts all alike."""
        metric = np.ones(rows.shape[1]) if metric is None else metric
        return self.laplacian(rows, metric) + self.gradient(rows) ** 2 @ metric / 2

    def column_grids(self, rows: Float[np.ndarray, "n d"]) -> ColumnGrids:
        standardized = self.standardizer.forward(rows)
        mixed = isinstance(self.base, GaussianMixtureDensity)
        if isinstance(self.base, GaussianMixtureDensity):
            grids = grids_of_mixture(self.base, standardized)
        else:
            grids = grids_on_box(standardized, *self.base.box())

        def missing(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
            """What the grids do not know of yet."""
            return self.tilt(rows) + (0.0 if mixed else self.base.log_density(rows))

        if mixed and not self.has_tilt:
            return grids
        moved = missing(with_columns(standardized, grids.nodes))
        own = np.broadcast_to(missing(standardized)[:, None], rows.shape)
        return grids.tilted(moved.reshape(grids.nodes.shape), own)

    def from_columns(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return self.standardizer.backward(values)
