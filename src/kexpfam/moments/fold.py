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
from kexpfam.noise import Noise
from kexpfam.precision import compiled

__all__ = ["MomentSource", "block_moments", "collect_moments"]


@compiled
def block_moments(basis: Any, block: Block, noise: Noise, noise_scale: Any) -> Any:
    """The moments of one block of rows."""
    return basis.moments(block, noise, noise_scale)


def collect_moments(
    basis: Basis,
    noise: Noise,
    noise_scale: float,
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    base: BaseDensity,
    folds: Int[np.ndarray, " n"] | None = None,
    block_size: int = LARGEST_BLOCK,
) -> dict[int, Any]:
    """Moments by fold number, for folds with any weight (all rows are fold 0 by default)."""
    covariance = noise.covariance_shape(rows.shape[1])
    folds = np.zeros(len(rows), int) if folds is None else folds
    collected = {}
    for number in np.unique(folds[weights > 0]):
        members = np.flatnonzero((folds == number) & (weights > 0))
        blocks = iterate_blocks(rows[members], weights[members], base, covariance, block_size)
        collected[int(number)] = total_moments(
            block_moments(basis, block, noise, noise_scale) for block in blocks
        )
    return collected


class MomentSource:
    """Moments by fold at any noise scale: one pass for all of them, where the basis allows it."""

    def __init__(
        self,
        basis: Basis,
        noise: Noise,
        rows: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, " n"],
        base: BaseDensity,
        folds: Int[np.ndarray, " n"] | None = None,
    ) -> None:
        self._arguments = (rows, weights, base, folds)
        self._basis, self._noise = basis, noise
        self._kept = None if basis.moments_follow_noise else self._collected(0.0)

    def at(self, noise_scale: float) -> dict[int, Any]:
        """Moments by fold number, fit for a system at this noise scale."""
        return self._collected(noise_scale) if self._kept is None else self._kept

    def _collected(self, noise_scale: float) -> dict[int, Any]:
        return collect_moments(self._basis, self._noise, noise_scale, *self._arguments)
