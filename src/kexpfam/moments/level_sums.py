"""The sums for all noise levels over rows, by part: held out in turn, or fitted to.

A row goes to a fold by its key (see `kexpfam.data.sketch`). Of the folds one or two judge the
penalties, each a part of its own; all others are one part. Parts are sums, so rows can be added to
them and taken away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.data.coordinates import Coordinates
from kexpfam.data.rows import Chunk, RowSource
from kexpfam.data.sketch import NumberedFolds, Sketching
from kexpfam.data.ties import spread_ties
from kexpfam.moments.arithmetic import scale_moments
from kexpfam.moments.checkpoint import CheckpointedWalk
from kexpfam.moments.levels import LevelMoments, LevelSummation

__all__ = [
    "LevelSums",
    "LevelView",
    "fold_parts",
    "n_directions",
    "n_held_out",
]

# Fewer rows than this: more folds are held out in turn and more noisy copies are drawn.
_FEW_ROWS = 5000


def n_held_out(n_rows: int) -> int:
    """How many of the folds are held out in turn: more where rows are few and one fold is noisy."""
    return 2 if n_rows < _FEW_ROWS else 1


def n_directions(n_rows: int) -> int:
    """Noisy copies of each row, in pairs."""
    return 2 if n_rows < _FEW_ROWS else 1


def fold_parts(
    numbers: Int[np.ndarray, " k"], n_folds: int, n_held_out: int
) -> Int[np.ndarray, " f"]:
    """The part that each fold goes to: one of those held out in turn, or all others together."""
    parts = np.zeros(n_folds, int)
    for place, number in enumerate(np.unique(numbers)):
        parts[number] = min(place, n_held_out)
    return parts


@dataclass(frozen=True)
class LevelView:
    """A function of chunks: rows spread over their ties and whitened, with their part."""

    sketching: Sketching
    gaps: Float[np.ndarray, " d"]
    coordinates: Coordinates
    folds: NumberedFolds
    parts: Int[np.ndarray, " f"]

    def __call__(self, chunk: Chunk) -> Chunk:
        keys = self.sketching.keys(chunk.rows)
        rows = spread_ties(chunk.rows, keys, self.gaps)
        labels = self.parts[self.folds.numbers(keys)]
        return Chunk(self.coordinates.forward(rows), chunk.weights, labels)


class LevelSums(NamedTuple):
    """Moments by part, with all that is needed to add more rows to them.

    The first `n_held_out` parts judge penalties, the others are fitted to.
    """

    parts: dict[int, LevelMoments]
    summation: LevelSummation
    view: Callable[[Chunk], Chunk]
    n_held_out: int

    def added(
        self, source: RowSource, sign: float, walk: CheckpointedWalk | None = None
    ) -> LevelSums:
        """Sums with the rows of a source added, or taken away."""
        seen = source.mapped(self.view)
        if walk is None:
            more = seen.total(self.summation, self.summation.combine, "moments")
        else:
            more = walk.total(seen, self.summation)
        return self.joined({number: scale_moments(one, sign) for number, one in more.items()})

    def emptied(self) -> LevelSums:
        """The same sums, over no rows."""
        return self._replace(parts={n: scale_moments(one, 0.0) for n, one in self.parts.items()})

    def joined(self, parts: dict[int, LevelMoments]) -> LevelSums:
        """Sums with others of the same kind added."""
        return self._replace(parts=self.summation.combine(self.parts, parts))

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return sum(float(part.weight) for part in self.parts.values())
