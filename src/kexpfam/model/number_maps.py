"""Numbers of a table in the coordinates of its mixture, and back.

    x  →  scores, where a column has heaps (`kexpfam.data.heaps`)  →  monotone maps  →  t

| name    | shape  | meaning                                                     |
|---------|--------|-------------------------------------------------------------|
| numbers | (n, m) | in the order of the chain; NaN where missing, and it stays  |
| mapped  | (n, m) | t                                                           |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.heaps import Heaps
from kexpfam.data.marginals import Marginals

__all__ = ["NumberMaps", "scored"]


def scored(
    numbers: Float[np.ndarray, "n m"], heaps: tuple[Heaps | None, ...]
) -> Float[np.ndarray, "n m"]:
    """Numbers with those of columns that have heaps as their scores."""
    found = numbers.copy()
    for place, own in _found(heaps):
        found[:, place] = own.forward(numbers[:, place])
    return found


def _found(heaps: tuple[Heaps | None, ...]) -> Iterator[tuple[int, Heaps]]:
    return ((place, own) for place, own in enumerate(heaps) if own is not None)


class NumberMaps(NamedTuple):
    """The maps of some numbers."""

    heaps: tuple[Heaps | None, ...]
    marginals: Marginals

    def column(self, number: int) -> NumberMaps:
        """The map of one number."""
        return NumberMaps(self.heaps[number : number + 1], self.marginals.column(number))

    def scored(self, numbers: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """What the monotone maps are maps of: in the middle of its column where it is missing."""
        center = self.marginals.standardizer.center
        return np.where(np.isnan(numbers), center, scored(numbers, self.heaps))

    def forward(self, numbers: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """t of x."""
        return np.where(np.isnan(numbers), np.nan, self.marginals.forward(self.scored(numbers)))

    def backward(self, mapped: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """x of t."""
        gone = np.isnan(mapped)
        found = self.marginals.backward(np.where(gone, 0.0, mapped))
        for place, own in _found(self.heaps):
            found[:, place] = own.backward(found[:, place])
        return np.where(gone, np.nan, found)

    def plain(self, numbers: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Numbers, only standardized."""
        found = self.marginals.standardizer.forward(numbers)
        for place, own in _found(self.heaps):
            found[:, place] = own.standardized(numbers[:, place])
        return found

    def log_slopes(
        self, numbers: Float[np.ndarray, "n m"], mapped: Float[np.ndarray, "n m"]
    ) -> Float[np.ndarray, "n m"]:
        """log dt/dx where t is known; of heaps, of what a cell is made wider by."""
        logs = self.marginals.log_slopes(self.scored(numbers), mapped)
        for place, own in _found(self.heaps):
            logs[:, place] += own.log_widths(numbers[:, place])
        return logs
