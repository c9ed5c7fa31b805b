"""What is summed over rows for Fourier features, and which columns their lines are multiplied with.

All sums but the products are one product of the lines t√a with a few columns: ones, the base
density's score and bend, and, where the score is not affine, half of its symmetric derivative J.

| symbol       | name           | shape    |
|--------------|----------------|----------|
| Σ a          | weight         | ()       |
| Σ a t tᵀ     | gram           | (2q, 2q), its upper half |
| Σ a t        | total          | (2q,)    |
| Σ a t s0ᵀ    | base_cross     | (2q, d)  |
| Σ a t (J w)ᵀ | base_curvature | (2q, d)  |
| Σ a t bendᵀ  | base_bend      | (2q, d)  |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kexpfam.data.blocks import Block
from kexpfam.symmetric import half_places

__all__ = ["FourierMoments", "FourierParts", "base_columns", "base_sums"]


class FourierMoments(NamedTuple):
    """Weighted sums over rows of t = [cos θ, sin θ] and its products. They add and scale."""

    weight: Float[Any, ""]
    gram: Float[Any, "t t"]
    total: Float[Any, " t"]
    base_cross: Float[Any, "t d"]
    base_curvature: Float[Any, "t d"]
    base_bend: Float[Any, "t d"]


class FourierParts(NamedTuple):
    """What a block of rows adds, before the products: t√a in lines, and all other sums."""

    lines: Float[Any, "t n"]
    others: FourierMoments


def base_columns(
    block: Block, roots: Float[Any, " n"], multiple_of: int = 1
) -> Float[Array, "n c"]:
    """Ones, score, bend and, where it varies, half of J at each row, times roots of weights.

    Zeros are appended up to a multiple of this many columns.
    """
    n_rows, n_columns = block.rows.shape
    columns: list[Any] = [jnp.ones((n_rows, 1)), block.base_gradient, block.base_bend]
    if block.base_hessian.ndim == 3:
        one, other = np.triu_indices(n_columns)
        columns.append(block.base_hessian[:, one, other])
    missing = -sum(column.shape[1] for column in columns) % multiple_of
    columns.append(jnp.zeros((n_rows, missing)))
    return jnp.concatenate(columns, axis=1) * roots[:, None]


def base_sums(
    block: Block, frequencies: Float[Any, "q d"], sums: Float[Any, "t c"]
) -> FourierMoments:
    """All sums but the products, from those of lines times `base_columns`."""
    n_columns = block.rows.shape[1]
    twice = jnp.concatenate([frequencies, frequencies])
    total, slopes, bends, curvatures = jnp.split(
        sums, [1, 1 + n_columns, 1 + 2 * n_columns], axis=1
    )
    if block.base_hessian.ndim == 3:
        curvature = jnp.einsum("tij,tj->ti", curvatures[:, half_places(n_columns)], twice)
    else:
        curvature = total * (twice @ block.base_hessian)
    return FourierMoments(
        weight=block.weights.sum(),
        gram=jnp.zeros((0, 0)),
        total=total[:, 0],
        base_cross=slopes,
        base_curvature=curvature,
        base_bend=bends,
    )
