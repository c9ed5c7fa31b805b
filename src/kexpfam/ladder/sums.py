"""The sums of a ladder over rows, by part: held out in turn, or fitted to.

A row goes to a fold by its key (see `kexpfam.data.sketch`). Of the five folds one or two judge the
penalties, each a part of its own; all others are one part. Parts are sums, so rows can be added to
them and taken away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from kexpfam.data.coordinates import Coordinates
from kexpfam.data.rows import Chunk, RowSource
from kexpfam.data.sketch import Folds, Sketch, Sketching, split_folds
from kexpfam.data.ties import spread_ties
from kexpfam.ladder.levels import Levels, no_levels, solve_levels
from kexpfam.ladder.moments import LadderMoments, LadderSummation
from kexpfam.moments import CheckpointedWalk, scale_moments
from kexpfam.progress import Progress

__all__ = [
    "LadderFolds",
    "LadderSums",
    "LadderView",
    "fold_parts",
    "ladder_folds",
    "n_directions",
    "n_held_out",
]

_N_FOLDS = 5
# Fewer rows than this: more folds are held out in turn and more noisy copies are drawn.
_FEW_ROWS = 5000


def n_held_out(n_rows: int) -> int:
    """How many of the folds are held out in turn: more where rows are few and one fold is noisy."""
    return 2 if n_rows < _FEW_ROWS else 1


def n_directions(n_rows: int) -> int:
    """Noisy copies of each row, in pairs."""
    return 2 if n_rows < _FEW_ROWS else 1


class LadderFolds(NamedTuple):
    """Folds numbered from the `first`, which holds a row of the sketch."""

    folds: Folds
    first: int

    def numbers(self, keys: UInt64[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return (self.folds.numbers(keys) - self.first) % self.folds.n_folds


def ladder_folds(sketch: Sketch) -> LadderFolds:
    """Five folds for all rows."""
    folds = split_folds(sketch.keys, _N_FOLDS)
    return LadderFolds(folds, int(folds.numbers(sketch.keys[:1])[0]))


def fold_parts(numbers: Int[np.ndarray, " k"], n_held_out: int) -> Int[np.ndarray, " f"]:
    """The part that each fold goes to: one of those held out in turn, or all others together."""
    parts = np.zeros(_N_FOLDS, int)
    for place, number in enumerate(np.unique(numbers)):
        parts[number] = min(place, n_held_out)
    return parts


@dataclass(frozen=True)
class LadderView:
    """A function of chunks: rows spread over their ties and whitened, with their part."""

    sketching: Sketching
    gaps: Float[np.ndarray, " d"]
    coordinates: Coordinates
    folds: LadderFolds
    parts: Int[np.ndarray, " f"]

    def __call__(self, chunk: Chunk) -> Chunk:
        keys = self.sketching.keys(chunk.rows)
        rows = spread_ties(chunk.rows, keys, self.gaps)
        labels = self.parts[self.folds.numbers(keys)]
        return Chunk(self.coordinates.forward(rows), chunk.weights, labels)


class LadderSums(NamedTuple):
    """Moments by part, with all that is needed to add more rows to them.

    The first `n_held_out` parts judge penalties, the others are fitted to.
    """

    parts: dict[int, LadderMoments]
    summation: LadderSummation
    view: Callable[[Chunk], Chunk]
    n_held_out: int

    def added(
        self, source: RowSource, sign: float, walk: CheckpointedWalk | None = None
    ) -> LadderSums:
        """Sums with the rows of a source added, or taken away."""
        seen = source.mapped(self.view)
        if walk is None:
            more = seen.total(self.summation, self.summation.combine, "moments")
        else:
            more = walk.total(seen, self.summation)
        return self.joined({number: scale_moments(one, sign) for number, one in more.items()})

    def emptied(self) -> LadderSums:
        """Of no rows."""
        return self._replace(parts={n: scale_moments(one, 0.0) for n, one in self.parts.items()})

    def joined(self, parts: dict[int, LadderMoments]) -> LadderSums:
        """Sums with others of the same kind added."""
        return self._replace(parts=self.summation.combine(self.parts, parts))

    @property
    def weight(self) -> float:
        """Of all rows."""
        return sum(float(part.weight) for part in self.parts.values())

    def solved(self, progress: Progress) -> Levels:
        """Every level's coefficients; none as long as some part has no rows to judge or fit by."""
        basis, noise_scales = self.summation.basis, self.summation.levels
        parts = list(self.parts.values())
        if min(float(part.weight) for part in parts) <= 1e-9 * self.weight:
            return no_levels(basis, noise_scales)
        return solve_levels(basis, noise_scales, parts, self.n_held_out, progress)
