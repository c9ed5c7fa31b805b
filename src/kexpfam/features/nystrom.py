"""Nyström basis: sections k(·, z_j) of the RBF kernel at inducing points, with analytic noise.

The "lite" basis of Sutherland et al. (2018), and the paper's Nyström appendix with its sign
corrected: f = Σ_j β_j k(·, z_j), penalised by its RKHS norm, R = k(Z, Z). For Gaussian noise of
variance s_i² in column i all expectations are Gaussian integrals. With p_j = x − z_j,

    A_i = 1/(1 + 2s_i²/ℓ_i²)      E_j = exp(−½ Σ_i A_i p_ji²/ℓ_i²)       P_j = A p_j/ℓ²
    H_jl = mean C_jl E_j E_l [¼|P_j + P_l|² + Σ_i s_i²A_i/ℓ_i⁴ − ¼ Σ_i (z_ji − z_li)²/ℓ_i⁴]
    C_jl = Π_i √A_i · exp(−¼ Σ_i (1 − A_i)(z_ji − z_li)²/ℓ_i²)

    B_i = 1/(1 + s_i²/ℓ_i²)       G_j = Π_i √B_i · exp(−½ Σ_i B_i p_ji²/ℓ_i²)
    h_j = mean G_j Σ_i [B_i²p_ji²/ℓ_i⁴ − B_i/ℓ_i²
                        − (B_i p_ji (ŝ_i + Σ_k J_ik (B_k − 1) p_jk) + J_ii s_i² B_i)/ℓ_i²]

where ŝ and J are the base's gradient (with its bend) and Hessian at the row. Without noise
A = B = 1. Unlike Fourier moments these sums depend on the noise: one pass for each scale.

| symbol | name         | shape  |
|--------|--------------|--------|
| z_j    | points       | (m, d) |
| ℓ      | length_scale | (d,)   |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float
from sklearn.cluster import kmeans_plusplus

from kexpfam.data.blocks import Block
from kexpfam.data.sketch import Sketch
from kexpfam.features.basis import DirectMoments, QuadraticSystem
from kexpfam.features.spectra import RadialBasis, Spectrum
from kexpfam.noise import GaussianNoise, Noise

__all__ = ["NystromBasis", "NystromFeatures"]

# The Gram matrix of close points is singular in float64; this much is added to its diagonal.
_JITTER = 1e-7


@register_dataclass
@dataclass(frozen=True)
class NystromBasis:
    """Sections of the RBF kernel at `points`."""

    points: Float[Any, "m d"]
    length_scale: Float[Any, " d"]
    moments_follow_noise: ClassVar[bool] = True

    @property
    def n_features(self) -> int:
        return len(self.points)

    def rescaled(self, length_scale: Any) -> NystromBasis:
        return replace(self, length_scale=self.length_scale * length_scale)

    def penalty_matrix(self) -> Float[Array, "m m"]:
        squares = _squared_distances(self.points, self.points, self.length_scale**-2.0)
        return jnp.exp(-squares / 2) + _JITTER * jnp.eye(len(self.points))

    # -- evaluation -----------------------------------------------------------------------

    def _sections(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        return jnp.exp(-_squared_distances(rows, self.points, self.length_scale**-2.0) / 2)

    def values(self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        return self._sections(rows) @ coefficients

    def gradient(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]
    ) -> Float[Array, "n d"]:
        weighted = self._sections(rows) * coefficients
        pulled = weighted @ self.points - weighted.sum(axis=1, keepdims=True) * rows
        return pulled / self.length_scale**2

    def laplacian(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"], metric: Float[Any, " d"]
    ) -> Float[Array, " n"]:
        squares = _squared_distances(rows, self.points, metric * self.length_scale**-4.0)
        trace = (metric * self.length_scale**-2.0).sum()
        return (self._sections(rows) * (squares - trace)) @ coefficients

    # -- the sums over rows ---------------------------------------------------------------

    def moments(self, block: Block, noise: Noise, noise_scale: Any) -> DirectMoments:
        variances = noise_scale**2 * _unit_variances(noise, block.rows.shape[1])
        return DirectMoments(
            weight=block.weights.sum(),
            quadratic=self._quadratic(block, variances),
            linear=block.weights @ self._linear(block, variances, noise_scale),
        )

    def _quadratic(self, block: Block, variances: Float[Array, " d"]) -> Float[Array, "m m"]:
        squared = self.length_scale**2
        shrunk = 1 / (1 + 2 * variances / squared)
        envelope = jnp.exp(-_squared_distances(block.rows, self.points, shrunk / squared) / 2)
        rows, points = block.rows * shrunk / squared, self.points * shrunk / squared
        crossed = rows @ points.T
        lengths = (rows**2).sum(axis=1, keepdims=True)
        # ¼|P_j|² + ¼|u|² − ½u·v_j with u, v the scaled row and point; j and l are symmetrised.
        halves = (2 * lengths - 4 * crossed + (points**2).sum(axis=1)) / 4
        weighted = envelope * block.weights[:, None]
        mixed = (weighted * halves).T @ envelope
        gaps = (self.points, self.points)
        constant = (variances * shrunk / squared**2).sum() + points @ points.T / 2
        constant -= _squared_distances(*gaps, squared**-2.0) / 4
        damping = _squared_distances(*gaps, (1 - shrunk) / squared) / 4
        scale = jnp.sqrt(shrunk).prod() * jnp.exp(-damping)
        return scale * (mixed + mixed.T + constant * (weighted.T @ envelope))

    def _linear(
        self, block: Block, variances: Float[Array, " d"], noise_scale: Any
    ) -> Float[Array, "n m"]:
        squared = self.length_scale**2
        shrunk = 1 / (1 + variances / squared)
        shifts = block.rows[:, None] - self.points
        envelope = jnp.exp(-((shifts**2) @ (shrunk / squared)) / 2) * jnp.sqrt(shrunk).prod()
        own = (shifts**2) @ (shrunk / squared) ** 2 - (shrunk / squared).sum()
        hessian = jnp.broadcast_to(block.base_hessian, (len(block.rows), *(len(squared),) * 2))
        slope = (block.base_gradient + noise_scale**2 / 2 * block.base_bend)[:, None]
        slope = slope + (shifts * (shrunk - 1)) @ hessian
        pull = ((shifts * slope) @ (shrunk / squared)) + (
            jnp.diagonal(hessian, axis1=1, axis2=2) @ (variances * shrunk / squared)
        )[:, None]
        return envelope * (own - pull)

    # -- the quadratic objective ----------------------------------------------------------

    def system(self, moments: DirectMoments, noise: Noise, noise_scale: Any) -> QuadraticSystem:
        return QuadraticSystem(moments.quadratic / moments.weight, moments.linear / moments.weight)


def _squared_distances(
    first: Float[Any, "n d"], second: Float[Any, "m d"], weights: Float[Any, " d"]
) -> Float[Array, "n m"]:
    """Σ_i weights_i (first_ai − second_ji)², from one matrix product."""
    products = (first * weights) @ second.T
    lengths = (first**2 @ weights)[:, None] + second**2 @ weights
    return jnp.maximum(lengths - 2 * products, 0.0)


def _unit_variances(noise: Noise, n_columns: int) -> Float[Array, " d"]:
    """The variances of Gaussian noise at scale one; other laws have no closed form here."""
    covariance: Any = getattr(noise, "covariance", None)
    if not isinstance(noise, GaussianNoise) or np.ndim(covariance) == 2:
        raise ValueError(
            "A Nyström basis averages Gaussian noise with a variance per column in closed form; "
            f"got {noise!r}. Take noise='gaussian' or noise=None, or basis='fourier', which takes "
            "any symmetric law."
        )
    return jnp.ones(n_columns) if covariance is None else jnp.asarray(covariance)


@dataclass(frozen=True)
class NystromFeatures:
    """How to choose inducing points.

    Parameters
    ----------
    selection : {"random", "kmeans++"}
        Rows drawn at random, or spread out by the seeding of k-means.

    Notes
    -----
    Distinct rows serve as points; where there are fewer than asked for, all of them do.
    """

    selection: str = "random"

    def __post_init__(self) -> None:
        if self.selection not in ("random", "kmeans++"):
            raise ValueError(f"selection must be 'random' or 'kmeans++'; got {self.selection!r}.")

    def build(
        self,
        n_components: int,
        sketch: Sketch,
        spectrum: Spectrum,
        generator: np.random.Generator,
    ) -> NystromBasis:
        """Choose points for unit length-scales."""
        if not isinstance(spectrum, RadialBasis):
            raise ValueError(f"basis='nystrom' works with kernel='rbf'; got {spectrum!r}.")
        # The sketch is in the order of a hash: its first rows are a random sample.
        points = sketch.rows[:n_components]
        if self.selection == "kmeans++" and n_components < len(sketch.rows):
            seed = int(generator.integers(2**31))
            points, _ = kmeans_plusplus(
                sketch.rows, n_components, sample_weight=sketch.weights, random_state=seed
            )
        return NystromBasis(points, np.ones(points.shape[1]))
