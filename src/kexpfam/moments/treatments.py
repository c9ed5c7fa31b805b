"""Two other ways to average over the noise, for any basis; oracles of the closed form.

*Monte-Carlo* (the paper's f_K): plain score matching on K noisy copies x_a + σu_ak of every row.
The directions u are the row's own: which of a bank of draws it gets follows from a hash of its
content, so that weights, order, blocks and machines change nothing, and all noise scales share
them. For tuning, the sums of a block at σ' near σ move rows to x + (σ' − σ)u and the base's
gradient with its Hessian, which has the right value and derivative at σ' = σ.

*Taylor* (the paper's appendix, rederived): for any function g of a row,

    E g(x + ε) = g(x) + (σ²/2) Σ_jk C_jk ∂_j∂_k g(x) + O(σ⁴),

applied to g = ∇φ∇φᵀ and g = Δφ + ∇φ·∇log q0. With C = LLᵀ, D_r the derivative along column r of L,
B = Σ_r D_r², G = ∇φ:

    H₂ = mean (BG)Gᵀ + G(BG)ᵀ + 2 Σ_r (D_rG)(D_rG)ᵀ
    h₂ = mean BΔφ + (BG)·s0 + 2 Σ_r (D_rG)·(D_rs0) + G·(Bs0)

One pass serves all scales. H + (σ²/2)H₂ need not be positive for large σ.

| symbol | name             | shape  |
|--------|------------------|--------|
| H, h   | quadratic, linear | (m, m), (m,) |
| H₂, h₂ | quadratic_bend, linear_bend | (m, m), (m,) |
| u      | directions       | (n, d) |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.choices import whole
from kexpfam.data.blocks import Block
from kexpfam.data.sketch import row_keys, uniform_numbers
from kexpfam.features import QuadraticSystem
from kexpfam.features.basis import twice_along
from kexpfam.noise import GaussianNoise, Noise, NoNoise

__all__ = ["MonteCarloNoise", "TaylorMoments", "TaylorNoise"]

_BANK = 1 << 16


class _OfLaw(Noise):
    """A treatment of a law: as a law it is that one."""

    law: Noise

    def characteristic(self, frequencies: Float[Array, "q d"], scale: Any) -> Float[Array, " q"]:
        return self.law.characteristic(frequencies, scale)

    def sample(
        self, n_samples: int, n_columns: int, scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        return self.law.sample(n_samples, n_columns, scale, generator)


def _check_law(law: Any) -> None:
    if not isinstance(law, Noise):
        raise ValueError(f"law must be an object like GaussianNoise(); got {law!r}.")


@register_dataclass
@dataclass(frozen=True)
class MonteCarloNoise(_OfLaw):
    """Noise that is drawn: every row counts as `n_draws` noisy copies of itself.

    Parameters
    ----------
    law : Noise, default=GaussianNoise()
        The law to draw from.
    n_draws : int, default=8
        Copies of each row, K.
    seed : int, default=0
        Of the draws.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, LaplaceNoise, MonteCarloNoise, NystromFeatures
    >>> model = KernelExponentialFamily(
    ...     basis=NystromFeatures(functions="derivatives"), noise=MonteCarloNoise(LaplaceNoise())
    ... )
    """

    law: Noise = field(default_factory=GaussianNoise)
    # Compiled code sees these as numbers that it does not use: no copy of it for each.
    n_draws: Any = 8
    seed: Any = 0

    def settled_for(self, basis: Any) -> Noise:
        whole("n_draws", self.n_draws)
        _check_law(self.law)
        NoNoise().settled_for(basis)
        return self

    @cached_property
    def _banks(self) -> dict[int, Float[np.ndarray, "n d"]]:
        return {}

    def copies(
        self, rows: Float[np.ndarray, "n d"], noise_scale: float
    ) -> Iterator[tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"] | None]]:
        if noise_scale == 0:
            yield rows, None
            return
        n_columns = rows.shape[1]
        if n_columns not in self._banks:
            generator = np.random.default_rng(self.seed)
            self._banks[n_columns] = self.law.sample(_BANK, n_columns, 1.0, generator)
        keys = row_keys(rows, self.seed)
        for number in range(self.n_draws):
            places = (uniform_numbers(keys, number + 1) * _BANK).astype(np.int64)
            directions = self._banks[n_columns][places]
            yield rows + noise_scale * directions, directions

    def moments_follow_scale(self, basis: Any) -> bool:
        return True

    def moments(self, basis: Any, block: Block, noise_scale: Any) -> Any:
        if block.directions is not None:
            shifts = (noise_scale - block.noise_scale) * block.directions
            hessian = jnp.broadcast_to(block.base_hessian, (*shifts.shape, shifts.shape[1]))
            slope = block.base_gradient + jnp.einsum("nij,nj->ni", hessian, shifts)
            block = block._replace(rows=block.rows + shifts, base_gradient=slope)
        return basis.moments(block, NoNoise(), 0.0)

    def system(self, basis: Any, moments: Any, noise_scale: Any) -> Any:
        return basis.system(moments, NoNoise(), 0.0)


class TaylorMoments(NamedTuple):
    """Weighted sums of H and h without noise, and of their second-order changes with it."""

    weight: Float[Any, ""]
    quadratic: Float[Any, "m m"]
    linear: Float[Any, " m"]
    quadratic_bend: Float[Any, "m m"]
    linear_bend: Float[Any, " m"]


@register_dataclass
@dataclass(frozen=True)
class TaylorNoise(_OfLaw):
    """Noise averaged to second order in its scale; only its covariance matters.

    Parameters
    ----------
    law : Noise, default=GaussianNoise()
        The law whose covariance is taken.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, TaylorNoise
    >>> model = KernelExponentialFamily(basis="nystrom", noise=TaylorNoise())
    """

    law: Noise = field(default_factory=GaussianNoise)
    basis_sums_suffice: ClassVar[bool] = False

    def settled_for(self, basis: Any) -> Noise:
        _check_law(self.law)
        if basis.n_derivatives < 4:
            raise ValueError(
                "Taylor denoising needs functions with four derivatives; those of "
                f"{type(basis).__name__} have {basis.n_derivatives:g}. Take MonteCarloNoise, or a "
                "smoother kernel or degree."
            )
        return self

    def moments_follow_scale(self, basis: Any) -> bool:
        return False

    def moments(self, basis: Any, block: Block, noise_scale: Any) -> TaylorMoments:
        n_rows, n_columns = block.rows.shape
        roots = _root(self.law, n_columns).T
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


def _root(law: Noise, n_columns: int) -> Float[Array, "d d"]:
    """L with LLᵀ the law's covariance at scale one, differentiably."""
    curvature = jax.hessian(lambda w: law.characteristic(w[None], 1.0)[0])
    return jnp.linalg.cholesky(-curvature(jnp.zeros(n_columns)))
