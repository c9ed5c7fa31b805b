"""The base density of every level: a Gaussian mixture with the level's noise added.

A mixture stays one under Gaussian noise: Σ_k + σ²I. With Σ_k = U_k diag(v_k) U_kᵀ found once,
every level's precision is U_k diag(1/(v_k + σ²)) U_kᵀ, and with responsibilities r_k and component
scores s_k,

    ∇log q_σ = s = Σ_k r_k s_k        ∇²log q_σ = Σ_k r_k (s_k s_kᵀ − P_k) − s sᵀ.

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

from kexpfam.base.mixture import GaussianMixtureDensity, padded_size
from kexpfam.symmetric import half_places, upper_half

__all__ = ["MixtureScore", "SmoothedMixture", "smoothed_mixture"]

# Rows have unit variance here: components wider than this stand for rows far out.
_FURTHEST_DRAWN = 10.0


def _quadratic_forms(halves: Float[Any, "k p"], rows: Float[Any, "n d"]) -> Float[Array, "n k"]:
    """xᵀP_k x for all rows and components by one matrix product, from upper halves of P_k."""
    one, other = np.triu_indices(rows.shape[1])
    # A product x_i x_j stands for x_j x_i, too.
    counts = np.where(one == other, 1.0, 2.0).astype(rows.dtype)
    return (halves @ (counts[:, None] * rows.T[one] * rows.T[other])).T


class MixtureScore(NamedTuple):
    """A mixture at one noise level: components as polynomials c_k + (P_kμ_k)ᵀx − ½ xᵀP_kx."""

    constants: Float[Any, " k"]
    pulls: Float[Any, "k d"]
    halves: Float[Any, "k p"]

    def logs(self, rows: Float[Any, "n d"]) -> Float[Array, "n k"]:
        """Log densities of the components, with their weights."""
        squares = _quadratic_forms(self.halves, rows)
        return self.constants + rows @ self.pulls.T - squares / 2

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        """log q_σ."""
        return logsumexp(self.logs(rows), axis=1)

    def gradient(self, rows: Float[Any, "n d"]) -> Float[Array, "n d"]:
        """∇log q_σ."""
        return self.mean_score(jax.nn.softmax(self.logs(rows), axis=1), rows)

    def mean_score(self, shares: Float[Any, "n k"], rows: Float[Any, "n d"]) -> Float[Array, "n d"]:
        """Σ_k r_k P_k(μ_k − x)."""
        # P_k is symmetric: half of it is averaged, then unfolded.
        mean = (shares @ self.halves)[:, half_places(rows.shape[1])]
        return shares @ self.pulls - jnp.einsum("ndf,nf->nd", mean, rows)


@register_dataclass
@dataclass(frozen=True)
class SmoothedMixture:
    """A Gaussian mixture that knows itself at every noise level."""

    log_weights: Float[Any, " k"]
    means: Float[Any, "k d"]
    variances: Float[Any, "k d"]
    axes: Float[Any, "k d d"]

    def _precisions(self, noise_scale: Any) -> Float[Array, "k d d"]:
        inverses = 1 / (self.variances + noise_scale**2)
        return jnp.einsum("kde,ke,kfe->kdf", self.axes, inverses, self.axes)

    def at(self, noise_scale: Any) -> MixtureScore:
        """What the score at one level needs, for many blocks of rows.

        Several levels are found one after the other: `jax.lax.map`, not `jax.vmap`, which would
        write and read all their matrices at once.
        """
        axes = jnp.asarray(self.axes)
        inverses = 1 / (self.variances + noise_scale**2)
        halves = upper_half((axes * inverses[:, None, :]) @ axes.swapaxes(1, 2))
        along = jnp.einsum("kde,kd->ke", axes, self.means)
        pulls = jnp.einsum("kde,ke->kd", axes, inverses * along)
        constants = self.log_weights + jnp.log(inverses).sum(axis=1) / 2
        constants = constants - self.means.shape[1] / 2 * np.log(2 * np.pi)
        constants = constants - (inverses * along**2).sum(axis=1) / 2
        return MixtureScore(constants, pulls, halves)

    def log_density(self, rows: Float[Any, "n d"], noise_scale: Any) -> Float[Array, " n"]:
        """log q_σ."""
        return self.at(noise_scale).log_density(rows)

    def gradient(self, rows: Float[Any, "n d"], noise_scale: Any) -> Float[Array, "n d"]:
        """∇log q_σ."""
        return self.at(noise_scale).gradient(rows)

    def second_derivatives(
        self, rows: Float[Any, "n d"], noise_scale: Any, axes: Float[Any, "d e"]
    ) -> Float[Array, "n e"]:
        """a_eᵀ ∇²log q_σ a_e, for the columns a_e of `axes`."""
        precisions = self._precisions(noise_scale)
        shares = jax.nn.softmax(self.at(noise_scale).logs(rows), axis=1)
        turned = jnp.einsum("kdf,de->kfe", precisions, axes)
        along = jnp.einsum("kfe,kf->ke", turned, self.means) - jnp.einsum(
            "nf,kfe->nke", rows, turned
        )
        own = jnp.einsum("de,kde->ke", axes, turned)
        second = jnp.einsum("nk,nke->ne", shares, along**2 - own)
        return second - jnp.einsum("nk,nke->ne", shares, along) ** 2

    def sample(
        self, n_samples: int, noise_scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        """Draws of q_σ, except from the components for rows far out."""
        narrowest = np.asarray(self.variances).min(axis=1)
        weights = np.exp(np.asarray(self.log_weights)) * (narrowest < _FURTHEST_DRAWN**2)
        chosen = generator.choice(len(weights), n_samples, p=weights / weights.sum())
        deviations = np.sqrt(np.asarray(self.variances) + noise_scale**2)[chosen]
        normals = generator.standard_normal(deviations.shape) * deviations
        turned = np.einsum("ne,nde->nd", normals, np.asarray(self.axes)[chosen])
        return turned + np.asarray(self.means)[chosen]


def smoothed_mixture(mixture: GaussianMixtureDensity) -> SmoothedMixture:
    """The mixture with its covariances taken apart, once for all levels.

    Padded with empty components to one of few sizes, so that few shapes are compiled.
    """
    variances, axes = np.linalg.eigh(mixture.covariances)
    count, n_columns = mixture.means.shape
    empty = padded_size(count) - count
    return SmoothedMixture(
        np.pad(np.log(mixture.weights), (0, empty), constant_values=-np.inf),
        np.pad(mixture.means, ((0, empty), (0, 0))),
        np.pad(variances, ((0, empty), (0, 0)), constant_values=1.0),
        np.concatenate([axes, np.broadcast_to(np.eye(n_columns), (empty, n_columns, n_columns))]),
    )
