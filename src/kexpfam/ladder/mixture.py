"""The base density of every level: a Gaussian mixture with the level's noise added.

A mixture stays one under Gaussian noise: Σ_k + σ²I. With Σ_k = U_k diag(v_k) U_kᵀ found once,
every level's precision is U_k diag(1/(v_k + σ²)) U_kᵀ, and with responsibilities r_k, component
scores s_k and s = Σ_k r_k s_k,

    ∇log q_σ = s        Δlog q_σ = Σ_k r_k (|s_k|² − Σ_i 1/(v_ki + σ²)) − |s|².

| symbol | name        | shape     |
|--------|-------------|-----------|
| π_k    | weights     | (k,)      |
| μ_k    | means       | (k, d)    |
| v_k    | variances   | (k, d)    |
| U_k    | axes        | (k, d, d) |
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

__all__ = ["BaseSearch", "SmoothedMixture", "choose_mixture"]


@register_dataclass
@dataclass(frozen=True)
class SmoothedMixture:
    """A Gaussian mixture that knows itself at every noise level."""

    log_weights: Float[Any, " k"]
    means: Float[Any, "k d"]
    variances: Float[Any, "k d"]
    axes: Float[Any, "k d d"]

    def _parts(self, rows: Float[Any, "n d"], noise_scale: Any) -> tuple[Array, Array, Array]:
        """Per component: log densities (n, k), scores along its axes (n, k, d), variances."""
        variances = self.variances + noise_scale**2
        turned = jnp.einsum("nkd,kde->nke", rows[:, None] - self.means, self.axes)
        scores = -turned / variances
        squares = (turned**2 / variances).sum(axis=2)
        constant = self.log_weights - jnp.log(2 * jnp.pi * variances).sum(axis=1) / 2
        return constant - squares / 2, scores, variances

    def log_density(self, rows: Float[Any, "n d"], noise_scale: Any) -> Float[Array, " n"]:
        """log q_σ."""
        return logsumexp(self._parts(rows, noise_scale)[0], axis=1)

    def gradient(self, rows: Float[Any, "n d"], noise_scale: Any) -> Float[Array, "n d"]:
        """∇log q_σ."""
        logs, scores, _ = self._parts(rows, noise_scale)
        shares = jnp.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return jnp.einsum("nke,kde->nd", shares[:, :, None] * scores, self.axes)

    def gradient_and_laplacian(
        self, rows: Float[Any, "n d"], noise_scale: Any
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """∇log q_σ and Δlog q_σ."""
        logs, scores, variances = self._parts(rows, noise_scale)
        shares = jnp.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        gradient = jnp.einsum("nke,kde->nd", shares[:, :, None] * scores, self.axes)
        curvature = (scores**2).sum(axis=2) - (1 / variances).sum(axis=1)
        return gradient, (shares * curvature).sum(axis=1) - (gradient**2).sum(axis=1)

    def curvature(
        self,
        rows: Float[Any, "n d"],
        noise_scale: Any,
        axes: Float[Any, "d e"],
        metric: Float[Any, "n e"],
    ) -> Float[Array, " n"]:
        """Σ_e metric_e a_eᵀ ∇²log q_σ a_e, for the columns a_e of `axes`."""
        logs, scores, variances = self._parts(rows, noise_scale)
        shares = jnp.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        turned = jnp.einsum("kdf,de->kfe", self.axes, axes)
        along = jnp.einsum("nkf,kfe->nke", scores, turned)
        precisions = (turned**2 / variances[:, :, None]).sum(axis=1)
        second = jnp.einsum("nk,nke->ne", shares, along**2 - precisions)
        return (metric * (second - jnp.einsum("nk,nke->ne", shares, along) ** 2)).sum(axis=1)

    def sample(
        self, n_samples: int, noise_scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        """Draws of q_σ."""
        weights = np.exp(np.asarray(self.log_weights))
        chosen = generator.choice(len(weights), n_samples, p=weights / weights.sum())
        deviations = np.sqrt(np.asarray(self.variances) + noise_scale**2)[chosen]
        normals = generator.standard_normal(deviations.shape) * deviations
        turned = np.einsum("ne,nde->nd", normals, np.asarray(self.axes)[chosen])
        return turned + np.asarray(self.means)[chosen]


class BaseSearch(NamedTuple):
    """A mixture and how it was chosen."""

    n_components: int
    regularization: float
    held_out: float


_SIZES = (1, 2, 3, 5, 8, 12, 20)
_REGULARIZATIONS = (1e-3, 1e-2, 1e-1)
# Rows a component needs, for each column, before it is worth trying.
_ROWS_PER_COLUMN = 2


def choose_mixture(
    train: Float[np.ndarray, "n d"], held_out: Float[np.ndarray, "k d"], seed: int
) -> BaseSearch:
    """Size and regularisation with the best held-out likelihood."""
    best = BaseSearch(1, _REGULARIZATIONS[0], -np.inf)
    for size in _SIZES:
        if size > 1 and len(train) < size * max(20, _ROWS_PER_COLUMN * train.shape[1]):
            break
        scores = []
        for regularization in _REGULARIZATIONS:
            score = float(_fitted(train, size, regularization, seed).score(held_out))
            scores.append(score)
            if score > best.held_out:
                best = BaseSearch(size, regularization, score)
        # Sizes far beyond the best one only cost time.
        if size > 3 and max(scores) < best.held_out - 0.5:
            break
    return best


def fit_mixture(rows: Float[np.ndarray, "n d"], search: BaseSearch, seed: int) -> SmoothedMixture:
    """The chosen mixture on all rows."""
    mixture = _fitted(rows, search.n_components, search.regularization, seed)
    variances, axes = np.linalg.eigh(mixture.covariances_)
    return SmoothedMixture(np.log(mixture.weights_), mixture.means_, variances, axes)


def _fitted(rows: np.ndarray, size: int, regularization: float, seed: int) -> GaussianMixture:
    mixture = GaussianMixture(size, reg_covar=regularization, random_state=seed, max_iter=200)
    with warnings.catch_warnings():
        # A mixture that is still improving is a fine base density.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(rows)
