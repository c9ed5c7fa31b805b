"""One pass over the rows for every noise level.

Levels are joined by stretches, and the loss is looked at in two *nodes* of each: at the lower level
and halfway up (in log σ). The products of cosines and sines do not depend on the noise; the base's
part does, since q_σ is another mixture at every node. With noisy copies y = x ± σu of a row,

    b_σ = Σ_a E ∇φ(x_a + ε)·∇log q_σ(x_a + ε) ≈ Σ_a mean over copies of ∇φ(y)·∇log q_σ(y),

which is unbiased; the directions u follow from each row's content (see
`kexpfam.noise.drawn`), so that sums do not depend on order or blocks. Since it is an average
over draws, its terms are computed in single precision (sums are in double): the rounding, 1e-5 of a
score's size, is far below the noise, and it takes half the time.

The copies and ∇log q_σ there depend on the base but not on the basis: a *prepared* block serves
many bases.

| symbol        | name       | shape        |
|---------------|------------|--------------|
| Σ t tᵀ        | gram       | (2q, 2q)     |
| Σ t           | total      | (2q,)        |
| b_σ           | base_terms | (s, 2q), for s nodes |
| y             | points     | (s, c, n, d) |
| ∇log q_σ(y)   | pulls      | (s, c, n, d) |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kexpfam.base.smoothed import MixtureScore, SmoothedMixture
from kexpfam.data.blocks import block_size_for, padded
from kexpfam.features import FourierBasis, FourierMoments
from kexpfam.features.products import upper_products
from kexpfam.features.trigonometry import cosine_and_sine
from kexpfam.moments.arithmetic import add_moments
from kexpfam.moments.fold import Summation
from kexpfam.noise import GaussianNoise
from kexpfam.noise.drawn import MonteCarloNoise
from kexpfam.precision import compiled, is_accelerated
from kexpfam.quadratic import QuadraticSystem

__all__ = [
    "LevelMoments",
    "LevelSummation",
    "PreparedBlock",
    "node_scales",
    "node_system",
    "prepared_blocks",
    "sum_moments",
]


# Blocks of two sizes: few rows need not pay for many. Many are what fills an accelerator.
_BLOCK, _ACCELERATOR_BLOCK = 512, 1 << 14


def node_scales(noise_scales: Float[np.ndarray, " l"]) -> Float[np.ndarray, " s"]:
    """Every level but the highest, each followed by the middle of the stretch above it."""
    middles = np.sqrt(noise_scales[:-1] * noise_scales[1:])
    return np.stack([noise_scales[:-1], middles], axis=1).ravel()


class LevelMoments(NamedTuple):
    """Weighted sums over rows for all nodes. They add and scale."""

    weight: Float[Any, ""]
    gram: Float[Any, "t t"]
    total: Float[Any, " t"]
    base_terms: Float[Any, "s t"]


class PreparedBlock(NamedTuple):
    """Rows and weights, padded, with noisy copies at all nodes and the base's score there."""

    rows: Float[Any, "n d"]
    weights: Float[Any, " n"]
    points: Float[Any, "s c n d"]
    pulls: Float[Any, "s c n d"]


@dataclass(frozen=True)
class LevelSummation(Summation):
    """Moments of all nodes, in one pass."""

    basis: FourierBasis
    base: SmoothedMixture
    nodes: Float[np.ndarray, " s"]
    n_directions: int = 2
    block_size: int = field(
        default_factory=lambda: _ACCELERATOR_BLOCK if is_accelerated() else _BLOCK
    )

    @cached_property
    def _scores(self) -> MixtureScore:
        return node_scores(self.base, self.nodes)

    @cached_property
    def _noise(self) -> MonteCarloNoise:
        return MonteCarloNoise(GaussianNoise(), n_draws=self.n_directions)

    def content(self) -> list[Any]:
        return [self.basis, self.base, self.nodes, self.n_directions, self.block_size]

    def added(
        self, sums: Any, rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], size: int
    ) -> Any:
        block = prepared_block(self._scores, self.nodes, rows, weights, self._noise, size)
        return _with_block(sums, self.basis, block)


@compiled(on_device=True, tuned=False)
def node_scores(base: SmoothedMixture, nodes: Any) -> MixtureScore:
    """The base density at every node in single precision, once for all blocks."""
    scores = jax.lax.map(base.at, jnp.asarray(nodes))
    # Cast here: a cast inside `_copies` would be fused with the products there and slow them down.
    return MixtureScore(*(part.astype("float32") for part in scores))


def prepared_block(
    scores: MixtureScore,
    nodes: Float[np.ndarray, " s"],
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    noise: MonteCarloNoise,
    size: int,
) -> PreparedBlock:
    """A block of `size` rows, the last of which may be padding."""
    directions = [padded(moved - rows, size) for moved, _ in noise.copies(rows, 1.0)]
    moves = np.stack([sign * moved for moved in directions for sign in (1.0, -1.0)])
    whole = padded(rows, size)
    points, pulls = _copies(scores, nodes, whole, moves)
    return PreparedBlock(whole, padded(weights, size), points, pulls)


def prepared_blocks(
    base: SmoothedMixture,
    nodes: Float[np.ndarray, " s"],
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    n_directions: int = 2,
) -> Iterator[PreparedBlock]:
    """Blocks of rows, one after the other, for bases that are tried on them."""
    noise = MonteCarloNoise(GaussianNoise(), n_draws=n_directions)
    scores = node_scores(base, nodes)
    size = block_size_for(len(rows), _BLOCK)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        yield prepared_block(scores, nodes, rows[part], weights[part], noise, size)


def _exact_products() -> Any:
    """Accelerators would multiply float32 in a shorter format unless told."""
    return jax.default_matmul_precision("highest")


# What is made here is read by `_added` alone: on an accelerator it stays there.
@compiled(on_device=True, tuned=False)
def _copies(scores: MixtureScore, nodes: Any, rows: Any, moves: Any) -> Any:
    """Noisy copies of rows at every node, and the base's scores there."""

    def at_node(inputs: Any) -> Any:
        score, node = inputs

        def one(move: Any) -> Any:
            points = (rows + node * move).astype("float32")
            return points, score.gradient(points)

        return jax.lax.map(one, jnp.asarray(moves))

    with _exact_products():
        return jax.lax.map(at_node, (scores, jnp.asarray(nodes)))


def sum_moments(basis: FourierBasis, blocks: Iterable[PreparedBlock]) -> LevelMoments:
    """Sums over all rows."""
    sums: Any = None
    for block in blocks:
        sums = _with_block(sums, basis, block)
    return LevelMoments(*map(np.asarray, sums))


def _with_block(
    sums: LevelMoments | None, basis: FourierBasis, block: PreparedBlock
) -> LevelMoments:
    """Sums with a block's added. The first is added to nothing: one program serves all."""
    if sums is None:
        count, n_nodes = basis.n_features, len(block.points)
        sums = LevelMoments(
            np.zeros(()), np.zeros((count, count)), np.zeros(count), np.zeros((n_nodes, count))
        )
    return _added(sums, basis, block)


@compiled(on_device=True, donated=("sums",), tuned=False)
def _added(sums: LevelMoments, basis: FourierBasis, block: PreparedBlock) -> LevelMoments:
    with _exact_products():
        return add_moments(sums, _block_moments(basis, block))


def _block_moments(basis: FourierBasis, block: PreparedBlock) -> LevelMoments:
    frequencies = jnp.asarray(basis.frequencies)
    # Weights may be larger than single precision knows: they are measured by a block's largest.
    unit = jnp.maximum(jnp.asarray(block.weights).max(), 1e-300)
    single, shares = frequencies.astype("float32"), (block.weights / unit).astype("float32")

    def base_term(copy: Any) -> Any:
        """Cosines get −sin θ w·s, sines cos θ w·s."""
        points, pulls = copy
        angles, pull = single @ points.T, (single @ pulls.T) * shares
        cosines, sines = cosine_and_sine(angles)
        return jnp.concatenate([-sines * pull, cosines * pull]).sum(axis=1, dtype="float64")

    def at_node(copies: Any) -> Any:
        return jax.lax.map(base_term, copies).mean(axis=0)

    angles = frequencies @ block.rows.T
    roots = jnp.sqrt(block.weights)
    lines = jnp.concatenate(cosine_and_sine(angles)) * roots
    terms = jax.lax.map(at_node, (block.points, block.pulls))
    return LevelMoments(
        weight=block.weights.sum(),
        gram=upper_products(lines),
        total=lines @ roots,
        base_terms=terms * unit * jnp.tile(basis.amplitudes, 2),
    )


def node_system(
    basis: FourierBasis, moments: LevelMoments, node: Any, base_term: Any
) -> QuadraticSystem:
    """H and h at one node, from the sums."""
    nothing = jnp.zeros((len(moments.total), basis.frequencies.shape[1]))
    sums = FourierMoments(moments.weight, moments.gram, moments.total, nothing, nothing, nothing)
    system = basis.system(sums, GaussianNoise(), node)
    return QuadraticSystem(system.quadratic, system.linear + base_term / moments.weight)
