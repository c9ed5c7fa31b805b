"""The base density of every level: a Gaussian mixture with the level's noise added.

A mixture stays one under Gaussian noise: Σ_k + σ²I. With Σ_k = U_k diag(v_k) U_kᵀ found once,
every level's precision is U_k diag(1/(v_k + σ²)) U_kᵀ, and with responsibilities r_k, component
scores s_k and s = Σ_k r_k s_k,

    ∇log q_σ = s        Δlog q_σ = Σ_k r_k (|s_k|² − Σ_i 1/(v_ki + σ²)) − |s|².

The quadratic forms of all components are one matrix product with the products x_i x_j (i ≤ j) of a
row's columns, and Σ_k r_k s_k one with the precisions: nothing of size n·k·d is made.

| symbol | name        | shape     |
|--------|-------------|-----------|
| π_k    | weights     | (k,)      |
| μ_k    | means       | (k, d)    |
| v_k    | variances   | (k, d)    |
| U_k    | axes        | (k, d, d) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.base import GaussianMixtureDensity

__all__ = ["MixtureScore", "SmoothedMixture", "smoothed_mixture"]


class MixtureScore(NamedTuple):
    """A mixture at one noise level, by the upper halves of its precisions."""

    constants: Float[Any, " k"]
    pulls: Float[Any, "k d"]
    halves: Float[Any, "k p"]

    def gradient(self, rows: Float[Any, "n d"]) -> Float[Array, "n d"]:
        """∇log q_σ."""
        one, other = np.triu_indices(rows.shape[1])
        products = rows.T[one] * rows.T[other]
        # Both x_i x_j and x_j x_i stand in the form.
        forms = np.where(one == other, 0.5, 1.0) * self.halves
        logs = self.constants + rows @ self.pulls.T - (forms @ products).T
        return self.mean_score(jax.nn.softmax(logs, axis=1), rows)

    def mean_score(self, shares: Float[Any, "n k"], rows: Float[Any, "n d"]) -> Float[Array, "n d"]:
        """Σ_k r_k P_k(μ_k − x)."""
        count, n_columns = rows.shape
        one, other = np.triu_indices(n_columns)
        places = np.zeros((n_columns, n_columns), int)
        places[one, other] = places[other, one] = np.arange(len(one))
        # P_k is symmetric: half of it is averaged, then unfolded.
        mean = (shares @ self.halves)[:, places.ravel()].reshape(count, n_columns, n_columns)
        return shares @ self.pulls - jnp.einsum("ndf,nf->nd", mean, rows)


@register_dataclass
@dataclass(frozen=True)
class SmoothedMixture:
    """A Gaussian mixture that knows itself at every noise level."""

    log_weights: Float[Any, " k"]
    means: Float[Any, "k d"]
    variances: Float[Any, "k d"]
    axes: Float[Any, "k d d"]

    def _forms(self, noise_scale: Any) -> tuple[Array, Array, Array]:
        """Precisions P_k, P_kμ_k, and log π_k N(·) without its quadratic and linear parts."""
        variances = self.variances + noise_scale**2
        precisions = jnp.einsum("kde,ke,kfe->kdf", self.axes, 1 / variances, self.axes)
        pulls = jnp.einsum("kdf,kf->kd", precisions, self.means)
        constant = self.log_weights - jnp.log(2 * jnp.pi * variances).sum(axis=1) / 2
        return precisions, pulls, constant - (pulls * self.means).sum(axis=1) / 2

    def _logs(self, rows: Any, noise_scale: Any) -> tuple[Array, Array, Array]:
        """Components' log densities (n, k), precisions, and products of columns (n, p)."""
        one, other = np.triu_indices(rows.shape[1])
        precisions, pulls, constant = self._forms(noise_scale)
        products = rows.T[one] * rows.T[other]
        # Both x_i x_j and x_j x_i stand in the form.
        forms = np.where(one == other, 0.5, 1.0) * precisions[:, one, other]
        return constant + rows @ pulls.T - (forms @ products).T, precisions, products

    def at(self, noise_scale: Any) -> MixtureScore:
        """What the score at one level needs, for many blocks of rows."""
        one, other = np.triu_indices(self.means.shape[1])
        precisions, pulls, constant = self._forms(noise_scale)
        return MixtureScore(constant, pulls, precisions[:, one, other])

    def log_density(self, rows: Float[Any, "n d"], noise_scale: Any) -> Float[Array, " n"]:
        """log q_σ."""
        return logsumexp(self._logs(rows, noise_scale)[0], axis=1)

    def gradient(self, rows: Float[Any, "n d"], noise_scale: Any) -> Float[Array, "n d"]:
        """∇log q_σ."""
        return self.at(noise_scale).gradient(rows)

    def gradient_and_laplacian(
        self, rows: Float[Any, "n d"], noise_scale: Any
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """∇log q_σ and Δlog q_σ."""
        one, other = np.triu_indices(rows.shape[1])
        logs, precisions, products = self._logs(rows, noise_scale)
        shares = jax.nn.softmax(logs, axis=1)
        gradient = self.at(noise_scale).mean_score(shares, rows)
        # |s_k|² is the quadratic form of P_k².
        squares = jnp.einsum("kde,kef->kdf", precisions, precisions)
        pulls = jnp.einsum("kdf,kf->kd", squares, self.means)
        forms = np.where(one == other, 1.0, 2.0) * squares[:, one, other]
        lengths = (forms @ products).T - 2 * rows @ pulls.T + (pulls * self.means).sum(axis=1)
        curvature = lengths - jnp.trace(precisions, axis1=1, axis2=2)
        return gradient, (shares * curvature).sum(axis=1) - (gradient**2).sum(axis=1)

    def curvature(
        self,
        rows: Float[Any, "n d"],
        noise_scale: Any,
        axes: Float[Any, "d e"],
        metric: Float[Any, "n e"],
    ) -> Float[Array, " n"]:
        """Σ_e metric_e a_eᵀ ∇²log q_σ a_e, for the columns a_e of `axes`."""
        logs, precisions, _ = self._logs(rows, noise_scale)
        shares = jax.nn.softmax(logs, axis=1)
        turned = jnp.einsum("kdf,de->kfe", precisions, axes)
        along = jnp.einsum("kfe,kf->ke", turned, self.means) - jnp.einsum(
            "nf,kfe->nke", rows, turned
        )
        own = jnp.einsum("de,kde->ke", axes, turned)
        second = jnp.einsum("nk,nke->ne", shares, along**2 - own)
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


def smoothed_mixture(mixture: GaussianMixtureDensity) -> SmoothedMixture:
    """The mixture with its covariances taken apart, once for all levels."""
    variances, axes = np.linalg.eigh(mixture.covariances)
    return SmoothedMixture(np.log(mixture.weights), mixture.means, variances, axes)
