"""Gaussian mixture base density, fitted by a variational Bayesian mixture.

With responsibilities r_k(x) and component scores s_k(x) = −P_k (x − μ_k),

    s = ∇log q0 = Σ_k r_k s_k       ∇²log q0 = A − s sᵀ,   A = ∇²q0/q0 = Σ_k r_k (s_k s_kᵀ − P_k)

and for a covariance C the bend Σ_ij C_ij ∂_i∂_j s = T − 2 A C s − tr(CA) s + 2 (sᵀCs) s with
T = Σ_k r_k [(s_kᵀ C s_k − tr C P_k) s_k − 2 P_k C s_k], the third derivatives of q0 over q0.

A single Gaussian is the mixture of one component. `Components` has the formulas for NumPy's arrays
and for compiled code.

| symbol | name           | shape     |
|--------|----------------|-----------|
| π_k    | weights        | (k,)      |
| μ_k    | means          | (k, d)    |
| Σ_k    | covariances    | (k, d, d) |
| P_k    | precisions     | (k, d, d) |
| L_k    | roots          | (k, d, d), L_kᵀL_k = P_k |
| c_k    | log_heights    | (k,), log π_k + log|L_k| − (d/2) log 2π |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.arrays import namespace, outer_products, special
from kexpfam.logarithms import log_sum_exp
from kexpfam.symmetric import upper_half
from kexpfam.unlocked import inverted_triangles

__all__ = [
    "BaseDerivatives",
    "Components",
    "GaussianMixtureDensity",
    "Polynomials",
    "padded_size",
]

# Numbers of each row's components that are worked on together.
_CACHED = 1 << 16


class Polynomials(NamedTuple):
    """Components' log densities as polynomials: c_k + (P_k μ_k)ᵀx − ½ xᵀP_k x, weights and all.

    Arrays are NumPy's or JAX's; of P_k there is the upper half, read line by line. With the
    products of a row's columns at hand, all components are one matrix product.
    """

    constants: Float[Any, " k"]
    pulls: Float[Any, "k d"]
    halves: Float[Any, "k p"]

    @classmethod
    def of(
        cls,
        log_weights: Float[Any, " k"],
        means: Float[Any, "k d"],
        precisions: Float[Any, "k d d"],
        log_determinants: Float[Any, " k"],
    ) -> Polynomials:
        """From the logarithms of weights and of the precisions' determinants."""
        n_columns = means.shape[1]
        pulls = namespace(precisions).einsum("kij,kj->ki", precisions, means)
        constants = log_weights + log_determinants / 2 - n_columns / 2 * np.log(2 * np.pi)
        constants = constants - (pulls * means).sum(axis=1) / 2
        return cls(constants, pulls, upper_half(precisions))


class BaseDerivatives(NamedTuple):
    """∇log q0, ∇²log q0 and the bend at rows; the Hessian may be one for all."""

    gradient: Float[Any, "n d"]
    hessian: Float[Any, "*n d d"]
    bend: Float[Any, "n d"]


class Components(NamedTuple):
    """The components of a mixture, in arrays of NumPy's or JAX's: a pytree."""

    log_heights: Float[Any, " k"]
    means: Float[Any, "k d"]
    roots: Float[Any, "k d d"]
    precisions: Float[Any, "k d d"]

    @classmethod
    def padded(cls, mixture: GaussianMixtureDensity) -> Components:
        """With empty components up to one of few sizes, so that few shapes are compiled."""
        empty = padded_size(len(mixture.means)) - len(mixture.means)
        log_heights, means, *matrices = mixture.components
        return cls(
            np.pad(log_heights, (0, empty), constant_values=-np.inf),
            np.pad(means, ((0, empty), (0, 0))),
            *(np.pad(matrix, ((0, empty), (0, 0), (0, 0))) for matrix in matrices),
        )

    def squared_distances(self, rows: Float[Any, "n d"]) -> Float[Any, "n k"]:
        """(x − μ_k)ᵀP_k(x − μ_k)."""
        return (self._turned(self.roots, rows) ** 2).sum(axis=2)

    def logs(self, rows: Float[Any, "n d"]) -> Float[Any, "n k"]:
        """log π_k N(x; μ_k, Σ_k)."""
        return self.log_heights - self.squared_distances(rows) / 2

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Any, " n"]:
        """log q0."""
        logs = self.logs(rows)
        return special(logs).logsumexp(logs, axis=1)

    def gradient(self, rows: Float[Any, "n d"]) -> Float[Any, "n d"]:
        """∇log q0."""
        shares, scores = self._shares_and_scores(rows)
        return (shares[:, :, None] * scores).sum(axis=1)

    def derivatives(
        self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]
    ) -> BaseDerivatives:
        """∇log q0, ∇²log q0 and the bend."""
        count, n_columns = self.means.shape
        numpy, precisions = namespace(rows, self.roots), self.precisions
        if count == 1:
            gradient = (self.means[0] - rows) @ precisions[0]
            return BaseDerivatives(gradient, -precisions[0], numpy.zeros_like(rows))
        shares, scores = self._shares_and_scores(rows)
        gradient, second = self._first_and_second(shares, scores)
        turned = (scores.reshape(-1, n_columns) @ covariance).reshape(scores.shape)
        trace = numpy.einsum("ij,kji->k", covariance, precisions)
        excess = shares * ((turned * scores).sum(axis=2) - trace)
        third = (excess[:, :, None] * scores).sum(axis=1)
        stacked = (shares[:, :, None] * turned).reshape(len(rows), -1)
        third = third - 2 * stacked @ precisions.reshape(-1, n_columns)
        slope = gradient @ covariance
        third = third - 2 * (second * slope[:, None, :]).sum(axis=2)
        square = (gradient * slope).sum(axis=1, keepdims=True)
        bend = third + (2 * square - excess.sum(axis=1, keepdims=True)) * gradient
        hessian = second - gradient[:, :, None] * gradient[:, None, :]
        return BaseDerivatives(gradient, hessian, bend)

    def hessian(self, rows: Float[Any, "n d"]) -> Float[Any, "n d d"]:
        """∇²log q0."""
        gradient, second = self._first_and_second(*self._shares_and_scores(rows))
        return second - gradient[:, :, None] * gradient[:, None, :]

    def _first_and_second(
        self, shares: Float[Any, "n k"], scores: Float[Any, "n k d"]
    ) -> tuple[Float[Any, "n d"], Float[Any, "n d d"]]:
        """∇q0/q0 and ∇²q0/q0."""
        weighted = shares[:, :, None] * scores
        second = outer_products(weighted, scores)
        precisions = self.precisions.reshape(len(self.means), -1)
        return weighted.sum(axis=1), second - (shares @ precisions).reshape(second.shape)

    def _shares_and_scores(
        self, rows: Float[Any, "n d"]
    ) -> tuple[Float[Any, "n k"], Float[Any, "n k d"]]:
        """r_k and s_k."""
        logs = self.logs(rows)
        total = special(logs).logsumexp(logs, axis=1, keepdims=True)
        return namespace(logs).exp(logs - total), self._turned(-self.precisions, rows)

    def _turned(
        self, matrices: Float[Any, "k d d"], rows: Float[Any, "n d"]
    ) -> Float[Any, "n k d"]:
        """M_k (x − μ_k) for all components by one matrix product."""
        count, n_columns = self.means.shape
        # Near the means, so that no digits are lost where all of them are far from zero.
        origin = self.means[0]
        offsets = namespace(matrices).einsum("kij,kj->ki", matrices, self.means - origin)
        products = (rows - origin) @ matrices.reshape(-1, n_columns).T
        return products.reshape(-1, count, n_columns) - offsets


@dataclass(frozen=True)
class GaussianMixtureDensity:
    """A mixture of Gaussians with full covariances."""

    weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    covariances: Float[np.ndarray, "k d d"]

    @cached_property
    def components(self) -> Components:
        roots = inverted_triangles(np.linalg.cholesky(self.covariances))
        log_volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        with np.errstate(divide="ignore"):
            log_heights = np.log(self.weights) + log_volumes
        constant = self.means.shape[1] / 2 * np.log(2 * np.pi)
        precisions = roots.swapaxes(1, 2) @ roots
        return Components(log_heights - constant, self.means, roots, precisions)

    @cached_property
    def precisions(self) -> Float[np.ndarray, "k d d"]:
        return self.components.precisions

    def _in_blocks(
        self, function: Callable[[np.ndarray], np.ndarray], rows: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n ..."]:
        """Some rows at a time: what lies between, (n, k, d) numbers and more, fits the cache."""
        size = max(8, _CACHED // (self.means.size * max(1, self.means.shape[1] // 4)))
        starts = range(0, max(len(rows), 1), size)
        return np.concatenate([function(rows[start : start + size]) for start in starts])

    def component_log_densities(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """log π_k N(x; μ_k, Σ_k)."""
        return self._in_blocks(self.components.logs, rows)

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return self._in_blocks(self.components.log_density, rows)

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return self._in_blocks(self.components.gradient, rows)

    def hessian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "*n d d"]:
        if len(self.weights) == 1:
            return -self.precisions[0]
        return self._in_blocks(self.components.hessian, rows)

    def bend(
        self, rows: Float[np.ndarray, "n d"], covariance: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, "n d"]:
        return self._in_blocks(
            lambda part: self.components.derivatives(part, covariance).bend, rows
        )

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        chosen = generator.choice(len(self.weights), n_samples, p=self.weights)
        normal = generator.standard_normal((n_samples, self.means.shape[1]))
        draws = np.empty_like(normal)
        for k, factor in enumerate(np.linalg.cholesky(self.covariances)):
            draws[chosen == k] = normal[chosen == k] @ factor.T + self.means[k]
        return draws

    def widened(self, factor: float) -> GaussianMixtureDensity:
        """The same mixture with every component's standard deviations multiplied by `factor`."""
        return GaussianMixtureDensity(self.weights, self.means, factor**2 * self.covariances)

    def widened_log_densities(
        self, rows: Float[np.ndarray, "n d"], factors: Sequence[float]
    ) -> Float[np.ndarray, "n f"]:
        """Log densities of widened copies: their distances differ by the factor alone."""
        heights = self.components.log_heights[:, None]

        def of_some(part: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b f"]:
            # A line for each component: few numbers are added up faster across lines than along.
            halves = np.ascontiguousarray(self.components.squared_distances(part).T) / 2
            each = [log_sum_exp(heights - halves / factor**2, axis=0) for factor in factors]
            return np.stack(each, axis=1)

        return self._in_blocks(of_some, rows) - rows.shape[1] * np.log(factors)

    def box(
        self, n_deviations: float = 9.0
    ) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Corners of a box that holds the density's mass to double precision."""
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        reach = n_deviations * deviations
        return (self.means - reach).min(axis=0), (self.means + reach).max(axis=0)


def padded_size(count: int) -> int:
    """The next power of two, or 5/8 or 6/8 of it: ten components, the most by default, are ten."""
    power = 1 << (count - 1).bit_length()
    if power <= 8:
        return power
    return next(eighths * power // 8 for eighths in (5, 6, 8) if eighths * power >= 8 * count)
