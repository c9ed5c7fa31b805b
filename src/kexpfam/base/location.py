"""Where the target lies given the inputs, and how far from there: a Gaussian process.

    μ(x) = k(x, P) α          v(x) = k(x, x) − |k(x, P) R|²

with the rows themselves as points P (exact, up to a few thousand rows), α = K⁻¹y, RRᵀ = K⁻¹ and
K = k(P, P) + diag(noise); or with fewer points (Nyström), where the sums over rows
B = Σ k(P, x_i) k(x_i, P) / noise_i and c = Σ k(P, x_i) y_i / noise_i are all that is kept, and

    α = (k(P, P) + B)⁻¹ c          RRᵀ = k(P, P)⁻¹ − (k(P, P) + B)⁻¹.

Residuals that the rest of the model is fitted to must be out of sample. Leaving one row out is
closed form in both cases (Rasmussen and Williams 2006, section 5.4.2):

    exact      y_i − μ₋ᵢ = α_i / (K⁻¹)_ii,            v₋ᵢ = 1/(K⁻¹)_ii − noise_i
    Nyström    y_i − μ₋ᵢ = (y_i − μ_i) / (1 − h_i),   v₋ᵢ = noise_i h_i/(1 − h_i) + k_ii − |ψ_i|²

where h_i = k(x_i, P)(k(P, P) + B)⁻¹k(P, x_i)/noise_i, and k_ii − |ψ_i|² is the variance that the
points cannot see.

| symbol  | name         | shape                                             |
|---------|--------------|---------------------------------------------------|
| P       | points       | (p, d)                                            |
| α       | coefficients | (p,)                                              |
| R       | root         | (p, r)                                            |
| noise_i | noises       | (n,), of every row                                |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, eigh, lapack, solve_triangular

from kexpfam.base.covariance import Covariance

__all__ = ["LeftOut", "Location", "fit_exact", "fit_points"]

# Added to the unit scale of k(P, P), so that its Cholesky factor exists.
_JITTER = 1e-8
# Directions that the rows have told less about than this share of the prior are left out of R. What
# they explain at a row is of the order of the noise times the square of it, divided by the rows.
_LEAST_TOLD = 0.1
# Rows at a time: few enough that a block of kernel values stays in the processor's cache.
_BLOCK = 256


class LeftOut(NamedTuple):
    """The prediction of every row by all others: its mean, and the variance of that mean."""

    mean: Float[np.ndarray, " n"]
    variance: Float[np.ndarray, " n"]


class Location(NamedTuple):
    """μ and v, without the noise."""

    covariance: Covariance
    points: Float[np.ndarray, "p d"]
    coefficients: Float[np.ndarray, " p"]
    root: Float[np.ndarray, "p r"]

    def predict(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """μ and v at rows."""
        mean, told = np.empty(len(rows)), np.empty(len(rows))
        for part in _parts(len(rows)):
            sections = self.covariance.between(rows[part], self.points)
            mean[part] = sections @ self.coefficients
            told[part] = ((sections @ self.root) ** 2).sum(axis=1)
        return mean, np.maximum(self.covariance.prior_variance(rows) - told, 0.0)


def fit_exact(
    covariance: Covariance,
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    noises: Float[np.ndarray, " n"],
) -> tuple[Location, LeftOut]:
    """With all rows as points."""
    matrix = covariance.between(rows, rows)
    matrix[np.diag_indices_from(matrix)] += noises + _JITTER
    factor = cholesky(matrix, lower=True, overwrite_a=True)
    root = lapack.dtrtri(factor, lower=True)[0].T
    coefficients = root @ (targets @ root)
    precision = (root**2).sum(axis=1)
    left_out = LeftOut(targets - coefficients / precision, np.maximum(1 / precision - noises, 0.0))
    return Location(covariance, rows, coefficients, root), left_out


def fit_points(
    covariance: Covariance,
    points: Float[np.ndarray, "p d"],
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    noises: Float[np.ndarray, " n"],
    n_left_out: int | None = None,
) -> tuple[Location, LeftOut]:
    """With fewer points than rows, from sums over the rows; some of them are left out in turn."""
    gram = covariance.between(points, points)
    gram[np.diag_indices_from(gram)] += _JITTER * (covariance.smooth + 1.0)
    factor = cholesky(gram, lower=True)
    products, pulls = np.zeros_like(gram), np.zeros(len(points))
    for part in _parts(len(rows)):
        weighed = covariance.between(points, rows[part]) / np.sqrt(noises[part])
        products += weighed @ weighed.T
        pulls += weighed @ (targets[part] / np.sqrt(noises[part]))
    # In coordinates where k(P, P) is the identity, and then where the rows' products are diagonal.
    inner = solve_triangular(factor, solve_triangular(factor, products, lower=True).T, lower=True)
    told, directions = eigh((inner + inner.T) / 2, overwrite_a=True)
    told = np.maximum(told, 0.0)
    whitening = solve_triangular(factor.T, directions, lower=False)
    coefficients = whitening @ ((pulls @ whitening) / (1 + told))
    shares = told / (1 + told)
    kept = shares > _LEAST_TOLD
    root = np.ascontiguousarray(whitening[:, kept] * np.sqrt(shares[kept]))
    location = Location(covariance, points, coefficients, root)
    some = slice(0, n_left_out)
    left_out = _left_out(location, whitening, told, rows[some], targets[some], noises[some])
    return location, left_out


def _left_out(
    location: Location,
    whitening: Float[np.ndarray, "p p"],
    told: Float[np.ndarray, " p"],
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    noises: Float[np.ndarray, " n"],
) -> LeftOut:
    covariance = location.covariance
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    for part in _parts(len(rows)):
        sections = covariance.between(rows[part], location.points)
        squares = (sections @ whitening) ** 2
        leverage = np.minimum((squares / (1 + told)).sum(axis=1) / noises[part], 1 - 1e-9)
        residuals = targets[part] - sections @ location.coefficients
        mean[part] = targets[part] - residuals / (1 - leverage)
        unseen = np.maximum(covariance.prior_variance(rows[part]) - squares.sum(axis=1), 0.0)
        variance[part] = noises[part] * leverage / (1 - leverage) + unseen
    return LeftOut(mean, variance)


def _parts(n_rows: int) -> Iterator[slice]:
    return (slice(first, first + _BLOCK) for first in range(0, n_rows, _BLOCK))
