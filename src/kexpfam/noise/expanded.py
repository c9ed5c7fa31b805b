"""Noise that is expanded to second order in its scale, for any basis with four derivatives.

As in the paper's appendix, derived anew: for any function g of a row,

    E g(x + ε) = g(x) + (σ²/2) Σ_jk C_jk ∂_j∂_k g(x) + O(σ⁴),

applied to g = ∇φ∇φᵀ and g = Δφ + ∇φ·∇log q0. With C = LLᵀ, D_r the derivative along column r of L,
B = Σ_r D_r², G = ∇φ:

    H₂ = mean (BG)Gᵀ + G(BG)ᵀ + 2 Σ_r (D_rG)(D_rG)ᵀ
    h₂ = mean BΔφ + (BG)·s0 + 2 Σ_r (D_rG)·(D_rs0) + G·(Bs0)

One pass serves all scales. H + (σ²/2)H₂ need not be positive for large σ.

| symbol | name              | shape        |
|--------|-------------------|--------------|
| H, h   | quadratic, linear | (m, m), (m,) |
| H₂, h₂ | quadratic_bend, linear_bend | (m, m), (m,) |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.data.blocks import Block
from kexpfam.noise.distributions import GaussianNoise, Noise, curvature
from kexpfam.noise.drawn import TreatedNoise, check_distribution
from kexpfam.quadratic import QuadraticSystem, twice_along

__all__ = ["TaylorMoments", "TaylorNoise"]


class TaylorMoments(NamedTuple):
    """Weighted sums of H and h without noise, and of their second-order changes with it."""

    weight: Float[Any, ""]
    quadratic: Float[Any, "m m"]
    linear: Float[Any, " m"]
    quadratic_bend: Float[Any, "m m"]
    linear_bend: Float[Any, " m"]


@register_dataclass
@dataclass(frozen=True)
class TaylorNoise(TreatedNoise):
    """Noise averaged to second order in its scale; only its covariance matters.

    Parameters
    ----------
    distribution : Noise, default=GaussianNoise()
        The distribution whose covariance is taken.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, TaylorNoise
    >>> model = KernelExponentialFamily(basis="nystrom", noise=TaylorNoise())
    """

    distribution: Noise = field(default_factory=GaussianNoise)
    enters: ClassVar[Literal["in closed form", "drawn", "expanded"]] = "expanded"

    def checked_for(self, basis: Any) -> Noise:
        check_distribution(self.distribution)
        if basis.n_derivatives < 4:
            raise ValueError(
                "Taylor denoising needs functions with four derivatives; those of "
                f"{type(basis).__name__} have {basis.n_derivatives:g}. Use MonteCarloNoise, or a "
                "smoother kernel or degree."
            )
        return self

    def moments_follow_scale(self, basis: Any) -> bool:
        return False

    def moments(self, basis: Any, block: Block, noise_scale: Any) -> TaylorMoments:
        n_rows, n_columns = block.rows.shape
        roots = _root(self.distribution, n_columns).T
        hessian = jnp.broadcast_to(block.base_hessian, (n_rows, n_columns, n_columns))
        weights = jnp.asarray(block.weights)

        def one_column(sums: TaylorMoments, column: Any) -> Any:
            axis, base_slope, base_bend, base_curvature = column

            def slope_and_bend(rows: Array) -> Any:
                return twice_along(basis.features, rows, axis)[1:]

            def one_direction(partial: Any, root: Array) -> Any:
                """Sums over the columns of L: BG, BΔφ's part, Σ(D_rG)(D_rG)ᵀ, Σ(D_rG)(D_rs0)."""
                _, (first, _), (second, fourth) = twice_along(slope_and_bend, block.rows, root)
                squares = (first * weights[:, None]).T @ first
                mixed = (weights * (base_curvature @ root)) @ first
                change = second, fourth, squares, mixed
                return jax.tree.map(jnp.add, partial, change), None

            slope, curvature = slope_and_bend(jnp.asarray(block.rows))
            count = slope.shape[1]
            start = (
                jnp.zeros_like(slope), jnp.zeros_like(slope),
                jnp.zeros((count, count)), jnp.zeros(count),
            )  # fmt: skip
            (bent, fourth, squares, mixed), _ = jax.lax.scan(one_direction, start, roots)
            weighted = slope * weights[:, None]
            crossed = weighted.T @ bent
            return TaylorMoments(
                sums.weight,
                sums.quadratic + weighted.T @ slope,
                sums.linear + weights @ curvature + (weights * base_slope) @ slope,
                sums.quadratic_bend + crossed + crossed.T + 2 * squares,
                sums.linear_bend + weights @ fourth + (weights * base_slope) @ bent
                + 2 * mixed + (weights * base_bend) @ slope,
            ), None  # fmt: skip

        count = jax.eval_shape(basis.features, block.rows).shape[1]
        square, vector = jnp.zeros((count, count)), jnp.zeros(count)
        start = TaylorMoments(weights.sum(), square, vector, square, vector)
        columns = (
            jnp.eye(n_columns),
            jnp.asarray(block.base_gradient).T,
            jnp.asarray(block.base_bend).T,
            hessian.transpose(1, 0, 2),
        )
        return jax.lax.scan(one_column, start, columns)[0]

    def system(self, basis: Any, moments: TaylorMoments, noise_scale: Any) -> QuadraticSystem:
        half = noise_scale**2 / 2
        return QuadraticSystem(
            (moments.quadratic + half * moments.quadratic_bend) / moments.weight,
            (moments.linear + half * moments.linear_bend) / moments.weight,
        )


def _root(distribution: Noise, n_columns: int) -> Float[Array, "d d"]:
    """L with LLᵀ the distribution's covariance at scale one, differentiably."""
    return jnp.linalg.cholesky(-curvature(distribution, jnp.zeros(n_columns)))
