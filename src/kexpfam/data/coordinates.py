"""Coordinates in which a table looks most like a standard normal: marginals, then whitening.

Every column goes through its monotone map t (see `kexpfam.data.marginals`), and the result is
whitened: t(x) − shift = A z with AAᵀ the covariance. Isotropic noise in z is noise shaped like the
data. With ℓ = log dt/dx of a column,

    log p(x) = log p(z) + Σ_j ℓ_j − log |det A|
    ∂_j log p(x) = t_j' (A⁻ᵀ ∇_z log p)_j + ℓ_j'.

| symbol | name         | shape  |
|--------|--------------|--------|
| A      | root         | (d, d) |
| A⁻¹    | inverse_root | (d, d) |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.data.marginals import MarginalKind, Marginals, fit_marginals
from kexpfam.data.standardize import Standardizer

__all__ = [
    "FEW_ROWS_PER_COLUMN",
    "Coordinates",
    "fit_coordinates",
    "root_of",
    "shrunk_covariance",
    "whitening",
]

# Directions in which the rows vary less than this, relative to the widest, are treated as noise of
# that size: they would otherwise be blown up without limit.
_THINNEST = 1e-6
# With fewer, covariances are shrunk.
FEW_ROWS_PER_COLUMN = 20


@dataclass(frozen=True)
class Coordinates:
    """The map between the user's rows and whitened ones."""

    marginals: Marginals
    shift: Float[np.ndarray, " d"]
    root: Float[np.ndarray, "d d"]

    @cached_property
    def inverse_root(self) -> Float[np.ndarray, "d d"]:
        return np.linalg.inv(self.root)

    def forward(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """z of x."""
        return self.mapped(rows) @ self.inverse_root.T

    def mapped(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Az: columns after their monotone maps, about their means."""
        return self.marginals.forward(rows) - self.shift

    def backward(self, whitened: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """x of z."""
        return self.marginals.backward(whitened @ self.root.T + self.shift)

    def forward_and_volume(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """z of x, and log |dz/dx| there: the maps, which take a while, are evaluated once."""
        values = self.marginals.forward(rows)
        slopes = self.marginals.log_slopes(rows, values)
        volume = slopes.sum(axis=1) + float(np.linalg.slogdet(self.inverse_root)[1])
        return (values - self.shift) @ self.inverse_root.T, volume

    def log_jacobian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """log |dz/dx| at rows of x."""
        return self.forward_and_volume(rows)[1]

    def slopes(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """dt/dx of every column."""
        return np.exp(self.marginals.curve(rows).log_slopes)

    def pulled_back(
        self, rows: Float[np.ndarray, "n d"], score: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        """∇_x of log p(z(x)) + log |dz/dx|, from the score in z."""
        curve = self.marginals.curve(rows)
        return np.exp(curve.log_slopes) * (score @ self.inverse_root) + curve.first

    def pulled_back_laplacian(
        self,
        rows: Float[np.ndarray, "n d"],
        score: Float[np.ndarray, "n d"],
        curvature: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, " n"]:
        """Δ_x of the same, from the score in z and Σ_j t'_j² of ∇² along the columns of A⁻¹."""
        curve = self.marginals.curve(rows)
        turned = np.exp(curve.log_slopes) * (score @ self.inverse_root)
        return curvature + (curve.first * turned + curve.second).sum(axis=1)


def shrunk_covariance(
    covariance: Float[np.ndarray, "d d"], count: float
) -> Float[np.ndarray, "d d"]:
    """Toward equal variances, by what suits Gaussian rows best (Chen, Wiesel & Hero 2009)."""
    size = len(covariance)
    square, trace = float((covariance**2).sum()), float(np.trace(covariance))
    spread = (count + 1 - 2 / size) * (square - trace**2 / size)
    share = 1.0 if spread <= 0 else min(1.0, ((1 - 2 / size) * square + trace**2) / spread)
    return (1 - share) * covariance + share * trace / size * np.eye(size)


def fit_coordinates(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    held: Bool[np.ndarray, " n"],
    standardizer: Standardizer,
    kind: MarginalKind,
) -> Coordinates:
    """Marginal maps, then the covariance's root."""
    marginals = fit_marginals(rows, weights, held, standardizer, kind)
    return Coordinates(marginals, *whitening(marginals.forward(rows), weights, held))


def whitening(
    values: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], held: Bool[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """The mean, and a root A of the covariance AAᵀ, shrunk where rows are few."""
    few = len(values) < FEW_ROWS_PER_COLUMN * values.shape[1]
    if few and not held.all():
        # Rows that judge must not be whitened by themselves.
        values, weights = values[~held], weights[~held]
    shares = weights / weights.sum()
    shift = shares @ values
    centered = values - shift
    covariance = (centered * shares[:, None]).T @ centered
    if few:
        covariance = shrunk_covariance(covariance, float(1 / (shares**2).sum()))
    return shift, root_of(covariance)


def root_of(covariance: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """A root A of the covariance AAᵀ, along its axes."""
    variances, axes = np.linalg.eigh(covariance)
    # Their signs are anybody's choice, and must not hang on rounding.
    axes *= np.where(np.sqrt(np.arange(2, len(axes) + 2)) @ axes < 0, -1.0, 1.0)
    # Rows that are all equal have the unit one.
    least = _THINNEST**2 * variances.max() or 1.0
    variances = np.maximum(variances, least)
    return axes * np.sqrt(variances)
