"""Gaussian mixture base density, fitted by a variational Bayesian mixture.

With responsibilities r_k(x) and component scores s_k(x) = −P_k (x − μ_k),

    s = ∇log q0 = Σ_k r_k s_k       ∇²log q0 = A − s sᵀ,   A = ∇²q0/q0 = Σ_k r_k (s_k s_kᵀ − P_k)

and for a covariance C the bend Σ_ij C_ij ∂_i∂_j s = T − 2 A C s − tr(CA) s + 2 (sᵀCs) s with
T = Σ_k r_k [(s_kᵀ C s_k − tr C P_k) s_k − 2 P_k C s_k], the third derivatives of q0 over q0.

A single Gaussian is the mixture of one component.

| symbol | name           | shape     |
|--------|----------------|-----------|
| π_k    | weights        | (k,)      |
| μ_k    | means          | (k, d)    |
| Σ_k    | covariances    | (k, d, d) |
| P_k    | precisions     | (k, d, d) |
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from kexpfam.base.density import require_rows
from kexpfam.choices import whole
from kexpfam.data.sketch import Sketch, repeated_rows
from kexpfam.logarithms import log_sum_exp

__all__ = ["GaussianMixtureDensity", "MixtureBase", "padded_size"]

# Rows times components that a processor keeps at hand, for a hundred components.
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class GaussianMixtureDensity:
    """A mixture of Gaussians with full covariances."""

    weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    covariances: Float[np.ndarray, "k d d"]

    @cached_property
    def _roots(self) -> Float[np.ndarray, "k d d"]:
        """Inverse Cholesky factors: P_k = root_kᵀ root_k."""
        return np.linalg.inv(np.linalg.cholesky(self.covariances))

    @cached_property
    def precisions(self) -> Float[np.ndarray, "k d d"]:
        return self._roots.transpose(0, 2, 1) @ self._roots

    def component_log_densities(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """log π_k N(x; μ_k, Σ_k)."""
        return self._constants - self._squared_distances(rows) / 2

    @cached_property
    def _constants(self) -> Float[np.ndarray, " k"]:
        log_roots = np.log(np.diagonal(self._roots, axis1=1, axis2=2)).sum(axis=1)
        n_columns = self.means.shape[1]
        return np.asarray(log_roots - n_columns / 2 * np.log(2 * np.pi) + np.log(self.weights))

    def _squared_distances(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """(x − μ_k)ᵀP_k(x − μ_k), one component at a time: (n, k, d) numbers overflow the cache."""
        squares = np.empty((len(rows), len(self.weights)))
        for k, (mean, root) in enumerate(zip(self.means, self._roots, strict=True)):
            whitened = (rows - mean) @ root.T
            squares[:, k] = np.einsum("ne,ne->n", whitened, whitened)
        return squares

    def _scores(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k d"]]:
        logs = self.component_log_densities(rows)
        responsibilities = np.exp(logs - log_sum_exp(logs, axis=1, keepdims=True))
        shifts = rows[:, None] - self.means
        return responsibilities, -np.einsum("kij,nkj->nki", self.precisions, shifts, optimize=True)

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return log_sum_exp(self.component_log_densities(rows), axis=1)

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        responsibilities, scores = self._scores(rows)
        return np.einsum("nk,nki->ni", responsibilities, scores)

    def hessian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "*n d d"]:
        if len(self.weights) == 1:
            return -self.precisions[0]
        responsibilities, scores = self._scores(rows)
        gradient = np.einsum("nk,nki->ni", responsibilities, scores)
        second = np.einsum("nk,nki,nkj->nij", responsibilities, scores, scores, optimize=True)
        precision = np.einsum("nk,kij->nij", responsibilities, self.precisions)
        return second - precision - gradient[:, :, None] * gradient[:, None, :]

    def bend(
        self, rows: Float[np.ndarray, "n d"], covariance: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, "n d"]:
        if len(self.weights) == 1:
            return np.zeros_like(rows)
        responsibilities, scores = self._scores(rows)
        gradient = np.einsum("nk,nki->ni", responsibilities, scores)
        turned = scores @ covariance
        excess = (turned * scores).sum(axis=2) - np.trace(covariance @ self.precisions, 0, 1, 2)
        bent = excess[:, :, None] * scores
        bent -= 2 * np.einsum("kij,nkj->nki", self.precisions, turned, optimize=True)
        third = np.einsum("nk,nki->ni", responsibilities, bent)
        slope = gradient @ covariance
        along = np.einsum("nki,ni->nk", scores, slope)
        second = np.einsum("nk,nki->ni", responsibilities * along, scores)
        second -= np.einsum(
            "nk,kij,nj->ni", responsibilities, self.precisions, slope, optimize=True
        )
        trace = (responsibilities * excess).sum(axis=1, keepdims=True)
        square = (gradient * slope).sum(axis=1, keepdims=True)
        return third - 2 * second - trace * gradient + 2 * square * gradient

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        chosen = generator.choice(len(self.weights), n_samples, p=self.weights)
        normal = generator.standard_normal((n_samples, self.means.shape[1]))
        draws = np.empty_like(normal)
        for k, factor in enumerate(np.linalg.cholesky(self.covariances)):
            draws[chosen == k] = normal[chosen == k] @ factor.T + self.means[k]
        return draws

    def widened(self, factor: float) -> GaussianMixtureDensity:
        """The same mixture with every component's deviations multiplied by `factor`."""
        return GaussianMixtureDensity(self.weights, self.means, factor**2 * self.covariances)

    def widened_log_densities(
        self, rows: Float[np.ndarray, "n d"], factors: Sequence[float]
    ) -> Float[np.ndarray, "n f"]:
        """Log densities of widened copies: their distances differ by the factor alone."""
        logs = np.empty((len(rows), len(factors)))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            piece = slice(start, start + _ROWS_AT_ONCE)
            squares = self._squared_distances(rows[piece])
            for column, factor in enumerate(factors):
                terms = self._constants - squares / (2 * factor**2)
                logs[piece, column] = log_sum_exp(terms, axis=1)
        return logs - rows.shape[1] * np.log(factors)

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


@dataclass(frozen=True)
class MixtureBase:
    """A mixture of Gaussians by scikit-learn's `BayesianGaussianMixture`.

    Parameters
    ----------
    n_components : int or None, default=None
        The largest number of components; the Bayesian fit empties those it does not need.
        None takes one per 20 rows, up to ten.
    regularization : float, default=1e-6
        Added to the diagonal of every covariance, in standardized units.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, MixtureBase
    >>> model = KernelExponentialFamily(base=MixtureBase(n_components=5))
    """

    n_components: int | None = None
    regularization: float = 1e-6

    def __post_init__(self) -> None:
        if self.n_components is not None:
            whole("n_components", self.n_components, otherwise="None")
        if not (isinstance(self.regularization, numbers.Real) and self.regularization >= 0):
            raise ValueError(f"regularization must be a number ≥ 0; got {self.regularization!r}.")

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> GaussianMixtureDensity:
        """Fit to the sketch, rows repeated in proportion to their weights."""
        found = len(sketch.rows)
        n_components = self.n_components or int(np.clip(found // 20, 1, 10))
        require_rows(
            found,
            max(2, n_components),
            f"A mixture base density of {n_components} components",
            "Lower its n_components or take base='gaussian'.",
        )
        mixture = BayesianGaussianMixture(
            n_components=n_components,
            reg_covar=self.regularization,
            max_iter=500,
            random_state=int(generator.integers(2**31)),
        )
        with warnings.catch_warnings():
            # A mixture that is still improving is a fine base density.
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(repeated_rows(sketch))
        # Components that the fit has emptied cost time in every later evaluation.
        kept = mixture.weights_ > 1e-4 / n_components
        weights = mixture.weights_[kept] / mixture.weights_[kept].sum()
        return GaussianMixtureDensity(weights, mixture.means_[kept], mixture.covariances_[kept])
