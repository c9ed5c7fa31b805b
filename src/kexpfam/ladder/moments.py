"""One pass over the rows for every noise level.

The products of cosines and sines do not depend on the noise; the base's part does, since
q_σ is another mixture at every level. With noisy copies y = x ± σu of a row,

    b_σ = Σ_a E ∇φ(x_a + ε)·∇log q_σ(x_a + ε) ≈ Σ_a mean over copies of ∇φ(y)·∇log q_σ(y),

which is unbiased; the directions u follow from each row's content (see
`kexpfam.moments.treatments`), so that sums do not depend on order or blocks.

| symbol | name       | shape    |
|--------|------------|----------|
| Σ t tᵀ | gram       | (2q, 2q) |
| Σ t    | total      | (2q,)    |
| b_σ    | base_terms | (l, 2q)  |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kexpfam.data.blocks import LARGEST_BLOCK, block_size_for, padded
from kexpfam.features import FourierBasis, FourierMoments, QuadraticSystem
from kexpfam.ladder.mixture import SmoothedMixture
from kexpfam.moments import MonteCarloNoise, total_moments
from kexpfam.noise import GaussianNoise
from kexpfam.precision import compiled

__all__ = ["LadderMoments", "ladder_moments", "level_system"]

_N_DIRECTIONS = 2


class LadderMoments(NamedTuple):
    """Weighted sums over rows for all levels. They add and scale."""

    weight: Float[Any, ""]
    gram: Float[Any, "t t"]
    total: Float[Any, " t"]
    base_terms: Float[Any, "l t"]


@compiled
def _block_moments(
    basis: FourierBasis, base: SmoothedMixture, levels: Any, rows: Any, weights: Any, moves: Any
) -> LadderMoments:
    frequencies, amplitudes = basis.frequencies, basis.amplitudes

    def trigonometry(points: Any) -> tuple[Any, Any]:
        angles = frequencies @ points.T
        return jnp.cos(angles), jnp.sin(angles)

    def base_term(noise_scale: Any) -> Any:
        """Mean over the copies: cosines get −sin θ w·s, sines cos θ w·s."""

        def one(move: Any) -> Any:
            points = rows + noise_scale * move
            cos, sin = trigonometry(points)
            pull = frequencies @ base.gradient(points, noise_scale).T
            return jnp.concatenate([-(sin * pull) @ weights, (cos * pull) @ weights])

        return jax.lax.map(one, moves).mean(axis=0)

    stacked = jnp.concatenate(trigonometry(rows))
    weighted = stacked * weights
    return LadderMoments(
        weight=weights.sum(),
        gram=weighted @ stacked.T,
        total=weighted.sum(axis=1),
        base_terms=jax.lax.map(base_term, levels) * jnp.tile(amplitudes, 2),
    )


def ladder_moments(
    basis: FourierBasis,
    base: SmoothedMixture,
    levels: Float[np.ndarray, " l"],
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
) -> LadderMoments:
    """Sums over all rows, block by block."""
    noise = MonteCarloNoise(GaussianNoise(), n_draws=_N_DIRECTIONS)
    size = block_size_for(len(rows), LARGEST_BLOCK // 4)
    parts = []
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        directions = [padded(moved - piece, size) for moved, _ in noise.copies(piece, 1.0)]
        moves = np.stack([sign * moved for moved in directions for sign in (1.0, -1.0)])
        share = padded(weights[start : start + size], size)
        parts.append(_block_moments(basis, base, levels, padded(piece, size), share, moves))
    return total_moments(parts)


@compiled
def level_system(
    basis: FourierBasis, moments: LadderMoments, level: Any, base_term: Any
) -> QuadraticSystem:
    """H and h at one level, from the sums."""
    nothing = jnp.zeros((len(moments.total), basis.frequencies.shape[1]))
    sums = FourierMoments(
        moments.weight, moments.gram, moments.total, nothing, nothing, nothing, nothing
    )
    system = basis.system(sums, GaussianNoise(), level)
    return QuadraticSystem(system.quadratic, system.linear + base_term / moments.weight)
