"""One pass: rows → blocks → moments, summed per cross-validation fold.

Cost, for n rows and m features of a Fourier basis: n·m² multiply-adds for the products and n·m
trigonometric values, against n·d numbers read. Only one block's features (m × 8192) exist at
a time, and one m × m record per fold is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base import BaseDensity
from kexpfam.data.blocks import LARGEST_BLOCK, Block, iterate_blocks
from kexpfam.features import Basis
from kexpfam.moments.arithmetic import total_moments
from kexpfam.noise import Noise
from kexpfam.precision import compiled

__all__ = ["MomentSource", "block_moments"]


@compiled
def block_moments(basis: Any, block: Block, noise: Noise, noise_scale: Any) -> Any:
    """The moments of one block of rows."""
    return noise.moments(basis, block, noise_scale)


@dataclass(frozen=True)
class MomentSource:
    """Moments by fold at any noise scale: one pass for all of them, where the basis allows it.

    Folds without weight are left out; without `folds` all rows are fold 0.
    """

    basis: Basis
    noise: Noise
    rows: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    base: BaseDensity
    folds: Int[np.ndarray, " n"] | None = None
    block_size: int = LARGEST_BLOCK

    def at(self, noise_scale: float) -> dict[int, Any]:
        """Moments by fold number, fit for a system at this noise scale."""
        if self.noise.moments_follow_scale(self.basis):
            return self._pass(noise_scale)
        return self._for_every_scale

    @cached_property
    def _for_every_scale(self) -> dict[int, Any]:
        return self._pass(0.0)

    def _pass(self, noise_scale: float) -> dict[int, Any]:
        folds = np.zeros(len(self.rows), int) if self.folds is None else self.folds
        collected = {}
        for number in np.unique(folds[self.weights > 0]):
            members = np.flatnonzero((folds == number) & (self.weights > 0))
            blocks = iterate_blocks(
                self.rows[members],
                self.weights[members],
                self.base,
                self.noise,
                noise_scale,
                self.block_size,
            )
            collected[int(number)] = total_moments(
                block_moments(self.basis, block, self.noise, noise_scale) for block in blocks
            )
        return collected
