"""Criteria on held-out rows, relative to the base density (lower is better).

    score matching   mean[Δf + ½|∇f|² + ∇f·∇log q0]      noise-free, no normalizer needed
    likelihood       log Z of f, from draws of q0, − mean f

Both are zero for f = 0, that is for the base density itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from kexpfam.base import BaseDraws
from kexpfam.data.blocks import Block

__all__ = ["CRITERIA"]


def score_matching(
    basis: Any, coefficients: Float[Any, " m"], block: Block, draws: BaseDraws
) -> Float[Array, ""]:
    """The noise-free score matching loss on the block, less the base density's."""
    gradient = basis.gradient(coefficients, block.rows)
    laplacian = basis.laplacian(coefficients, block.rows, jnp.ones(block.rows.shape[1]))
    losses = laplacian + (gradient * (gradient / 2 + block.base_gradient)).sum(axis=1)
    return block.weights @ losses / block.weights.sum()


def likelihood(
    basis: Any, coefficients: Float[Any, " m"], block: Block, draws: BaseDraws
) -> Float[Array, ""]:
    """The mean negative log-likelihood on the block, less the base density's."""
    normalizer = logsumexp(basis.values(coefficients, draws.rows) + draws.log_proportions)
    values = basis.values(coefficients, block.rows)
    return normalizer - block.weights @ values / block.weights.sum()


CRITERIA: dict[str, Callable[..., Any]] = {
    "score_matching": score_matching,
    "likelihood": likelihood,
}
