"""A bounded sample of a table's distinct rows, by a hash of what they are bit by bit.

Rows may have holes, and their units are not known yet: the hash is that of the numbers themselves
(`kexpfam.data.sketch.content_keys`), so that equal rows are one, in whatever chunks they come, and
the rows with the smallest keys are a random sample of the distinct ones.

| name    | shape  | meaning                                                  |
|---------|--------|----------------------------------------------------------|
| rows    | (k, d) | distinct rows, in the order of their keys; NaN is a hole |
| weights | (k,)   | summed over copies                                       |
| keys    | (k,)   | ascending                                                |
| low     | (d,)   | the smallest value of every column, over *all* rows      |
| high    | (d,)   | the largest                                              |
| n_rows  | ()     | how many rows have a weight                              |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt64

from kexpfam.data.rows import Chunk
from kexpfam.data.sketch import content_keys
from kexpfam.threads import in_threads

__all__ = ["ContentSketch", "ContentSketching"]


class ContentSketch(NamedTuple):
    """Distinct rows with the smallest keys, and the box that holds all rows."""

    rows: Float[np.ndarray, "k d"]
    weights: Float[np.ndarray, " k"]
    keys: UInt64[np.ndarray, " k"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    n_rows: int

    def where(self, chosen: slice) -> ContentSketch:
        """Some of the rows; the box is that of all."""
        return self._replace(
            rows=self.rows[chosen], weights=self.weights[chosen], keys=self.keys[chosen]
        )


@dataclass(frozen=True)
class ContentSketching:
    """The sketch as a summary of chunks."""

    size: int

    def __call__(self, chunks: Iterable[Chunk]) -> ContentSketch:
        return reduce(self.combine, in_threads(self._of_chunk, chunks))

    def _of_chunk(self, chunk: Chunk) -> ContentSketch:
        kept = chunk.weights > 0
        rows, weights = chunk.rows[kept], chunk.weights[kept]
        empty = np.full(rows.shape[1], np.inf)
        return self._distinct(
            rows,
            weights,
            content_keys(rows),
            np.fmin.reduce(rows, axis=0, initial=np.inf) if len(rows) else empty,
            np.fmax.reduce(rows, axis=0, initial=-np.inf) if len(rows) else -empty,
            len(rows),
        )

    def combine(self, one: ContentSketch, other: ContentSketch) -> ContentSketch:
        # Nothing is kept behind the last key of a sketch that is full.
        last = min(self._last_key(one), self._last_key(other))
        kept = [
            own.where(slice(np.searchsorted(own.keys, np.uint64(last), "right")))
            for own in (one, other)
        ]
        rows, weights, keys = (
            np.concatenate(parts) for parts in zip(*(own[:3] for own in kept), strict=True)
        )
        low, high = np.fmin(one.low, other.low), np.fmax(one.high, other.high)
        return self._distinct(rows, weights, keys, low, high, one.n_rows + other.n_rows)

    def _last_key(self, sketch: ContentSketch) -> int:
        is_full = len(sketch.keys) == self.size
        return int(sketch.keys[-1]) if is_full else 2**64 - 1

    def _distinct(
        self,
        rows: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, " n"],
        keys: UInt64[np.ndarray, " n"],
        low: Float[np.ndarray, " d"],
        high: Float[np.ndarray, " d"],
        n_rows: int,
    ) -> ContentSketch:
        distinct, first, group = np.unique(keys, return_index=True, return_inverse=True)
        totals = np.bincount(group, weights, minlength=len(distinct))
        some = slice(0, self.size)
        return ContentSketch(rows[first[some]], totals[some], distinct[some], low, high, n_rows)
