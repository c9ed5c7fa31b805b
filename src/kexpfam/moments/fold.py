"""One pass: rows → blocks → moments, summed per cross-validation fold.

Cost, for n rows and m features of a Fourier basis: n·m² multiply-adds for the products and n·m
trigonometric values, against n·d numbers read. Only one block's features (m × 8192) exist at
a time, and one m × m record per fold is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base import BaseDensity
from kexpfam.data.blocks import LARGEST_BLOCK, Block, iterate_blocks
from kexpfam.features import Basis
from kexpfam.moments.arithmetic import total_moments
from kexpfam.precision import compiled

__all__ = ["block_moments", "collect_moments"]


@compiled
def block_moments(basis: Any, block: Block) -> Any:
    """The moments of one block of rows."""
    return basis.moments(block)


def collect_moments(
    basis: Basis,
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    base: BaseDensity,
    covariance: Float[np.ndarray, "d d"],
    folds: Int[np.ndarray, " n"] | None = None,
    block_size: int = LARGEST_BLOCK,
) -> dict[int, Any]:
    """Moments by fold number, for folds with any weight (all rows are fold 0 by default).

    `covariance` is the noise's at scale one.
    """
    folds = np.zeros(len(rows), int) if folds is None else folds
    collected = {}
    for number in np.unique(folds[weights > 0]):
        members = np.flatnonzero((folds == number) & (weights > 0))
        blocks = iterate_blocks(rows[members], weights[members], base, covariance, block_size)
        collected[int(number)] = total_moments(block_moments(basis, block) for block in blocks)
    return collected
