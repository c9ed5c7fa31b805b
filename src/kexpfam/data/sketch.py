"""A bounded sample of the rows that depends on their content, not on their position.

Every row gets a 64-bit key: a hash of its standardized values, rounded to 2⁻²⁰
standard deviations, and of the seed. Sorting by key is a random permutation that does
not change when the rows are shuffled, split into blocks or spread over machines, and
that brings equal rows together. From it follow

- the *sketch*: the distinct rows with the smallest keys, each with the total weight of
  its copies. It feeds the base density and the tuning, whose costs then do not grow
  with n;
- the *folds* of cross-validation: a row's key names its fold, so copies of a row are never on both
sides of a split.

A weight of two is the same as a repetition, and a weight of zero the same as a removal,
exactly.

| name    | shape  | meaning                                        |
|---------|--------|------------------------------------------------|
| rows    | (k, d) | distinct rows, in the order of their keys      |
| weights | (k,)   | summed over copies                             |
| keys    | (k,)   | ascending                                      |
| low     | (d,)   | the smallest value of every column, over *all* rows |
| high    | (d,)   | the largest                                    |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from kexpfam.data.rows import Chunk
from kexpfam.data.standardize import Standardizer

__all__ = [
    "Folds",
    "InUnits",
    "Labeling",
    "NumberedFolds",
    "Sketch",
    "Sketching",
    "content_keys",
    "merge_sketches",
    "number_folds",
    "repeated_rows",
    "row_keys",
    "sketch_rows",
    "split_folds",
    "uniform_numbers",
]

_RESOLUTION = 2.0**20
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Sketch(NamedTuple):
    """Distinct rows in the order of their keys, and the box that holds all rows."""

    rows: Float[np.ndarray, "k d"]
    weights: Float[np.ndarray, " k"]
    keys: UInt64[np.ndarray, " k"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]

    def where(self, chosen: Bool[np.ndarray, " k"]) -> Sketch:
        """Some of the rows; the box is that of all."""
        return self._replace(
            rows=self.rows[chosen], weights=self.weights[chosen], keys=self.keys[chosen]
        )

    def seen_through(self, standardizer: Standardizer) -> Sketch:
        """The same rows in standardized units."""
        rows, low, high = map(standardizer.forward, (self.rows, self.low, self.high))
        return self._replace(rows=rows, low=low, high=high)


def _mixed(numbers: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """A bijection of 64-bit integers that scatters neighbors (splitmix64's finalizer)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def row_keys(standardized: Float[np.ndarray, "n d"], seed: int) -> UInt64[np.ndarray, " n"]:
    """Hash each row of standardized values to 64 bits."""
    rounded = np.rint(standardized * _RESOLUTION).astype(np.int64).view(np.uint64)
    keys = _mixed(np.full(len(rounded), seed, np.uint64) + _GOLDEN)
    for column in rounded.T:
        keys = _mixed(keys + _GOLDEN + _mixed(column))
    return keys


def content_keys(rows: Float[np.ndarray, "n d"]) -> UInt64[np.ndarray, " n"]:
    """Hash each row as it is, bit by bit: equal rows alone are equal. NaN stands for what is not
    there, whatever its bits; zero has no sign.
    """
    there = np.where(np.isnan(rows), np.nan, rows) + 0.0
    keys = _mixed(np.full(len(rows), rows.shape[1], np.uint64) + _GOLDEN)
    for column in np.ascontiguousarray(there.T).view(np.uint64):
        keys = _mixed(keys + _GOLDEN + _mixed(column))
    return keys


def uniform_numbers(
    keys: UInt64[np.ndarray, " n"], salt: int | Int[np.ndarray, "*s"]
) -> Float[np.ndarray, "*s n"]:
    """Numbers in [0, 1), one per key, fresh for every salt."""
    salts = np.asarray(salt, np.uint64)[..., None]
    return _mixed(keys ^ _mixed(salts + _GOLDEN)) / 2.0**64


class Folds(NamedTuple):
    """A split of all possible rows into `n_folds` folds, by their keys."""

    n_folds: int
    salt: int

    def numbers(self, keys: UInt64[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The fold of each row, from 0 to n_folds − 1."""
        return (uniform_numbers(keys, self.salt) * self.n_folds).astype(np.int64)


class NumberedFolds(NamedTuple):
    """Folds numbered from the `first`, which holds a row of the sketch."""

    folds: Folds
    first: int

    def numbers(self, keys: UInt64[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return (self.folds.numbers(keys) - self.first) % self.folds.n_folds


def number_folds(keys: UInt64[np.ndarray, " k"], n_folds: int) -> NumberedFolds:
    """A split whose fold 0 is not empty."""
    folds = split_folds(keys, n_folds)
    return NumberedFolds(folds, int(folds.numbers(keys[:1])[0]))


def split_folds(keys: UInt64[np.ndarray, " k"], n_folds: int) -> Folds:
    """The first of the possible splits that leaves no fold empty if there are rows for all.

    With a few dozen distinct keys the first split already is such a one.
    """
    wanted = min(n_folds, len(keys))
    splits = (Folds(n_folds, salt) for salt in range(10_000))
    return next(split for split in splits if len(np.unique(split.numbers(keys))) >= wanted)


def sketch_rows(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    keys: UInt64[np.ndarray, " n"],
    size: int,
) -> Sketch:
    """The `size` distinct rows of positive weight with the smallest keys."""
    kept = np.flatnonzero(weights > 0)
    if not len(kept):
        edge = np.full(rows.shape[1], np.inf)
        return Sketch(rows[:0], weights[:0], keys[:0], edge, -edge)
    distinct, first, group = np.unique(keys[kept], return_index=True, return_inverse=True)
    totals = np.bincount(group, weights[kept])
    chosen = slice(0, size)
    return Sketch(
        rows=rows[kept[first[chosen]]],
        weights=totals[chosen],
        keys=distinct[chosen],
        low=rows[kept].min(axis=0),
        high=rows[kept].max(axis=0),
    )


def merge_sketches(one: Sketch, other: Sketch, size: int) -> Sketch:
    """The sketch of both sets of rows."""
    merged = sketch_rows(
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.weights, other.weights]),
        np.concatenate([one.keys, other.keys]),
        size,
    )
    low, high = np.minimum(one.low, other.low), np.maximum(one.high, other.high)
    return merged._replace(low=low, high=high)


@dataclass(frozen=True)
class Sketching:
    """The sketch as a summary of chunks: rows in standardized units have keys.

    `spread` is what keys are taken through, and need not be what the rows are in.
    """

    spread: Standardizer
    seed: int
    size: int

    def __call__(self, chunks: Iterable[Chunk]) -> Sketch:
        return reduce(self.combine, map(self._of_chunk, chunks))

    def keys(self, rows: Float[np.ndarray, "n d"]) -> UInt64[np.ndarray, " n"]:
        """Keys of rows in the user's units."""
        return row_keys(self.spread.forward(rows), self.seed)

    def _of_chunk(self, chunk: Chunk) -> Sketch:
        return sketch_rows(chunk.rows, chunk.weights, self.keys(chunk.rows), self.size)

    def combine(self, one: Sketch, other: Sketch) -> Sketch:
        return merge_sketches(one, other, self.size)


@dataclass(frozen=True)
class InUnits:
    """A function of chunks: rows brought to the model's units."""

    model: Standardizer

    def __call__(self, chunk: Chunk) -> Chunk:
        return chunk._replace(rows=self.model.forward(chunk.rows))


@dataclass(frozen=True)
class Labeling:
    """A function of chunks: rows brought to the model's units, with the folds of their keys."""

    sketching: Sketching
    model: Standardizer
    folds: Folds | None

    def __call__(self, chunk: Chunk) -> Chunk:
        rows = self.model.forward(chunk.rows)
        if self.folds is None:
            return chunk._replace(rows=rows)
        return Chunk(rows, chunk.weights, self.folds.numbers(self.sketching.keys(chunk.rows)))


def repeated_rows(sketch: Sketch, limit: int = 50_000) -> Float[np.ndarray, "r d"]:
    """Rows repeated in proportion to their weights, for fitters that take no weights.

    Copies are laid out by systematic resampling. Whole-number weights (with a one among
    them) are reproduced exactly while they sum to at most `limit`.
    """
    total = sketch.weights.sum()
    wanted = np.rint(min(total / sketch.weights.min(), limit))
    count = int(max(len(sketch.rows), wanted))
    positions = (np.arange(count) + 0.5) / count
    places = np.searchsorted(np.cumsum(sketch.weights) / total, positions)
    return sketch.rows[np.minimum(places, len(sketch.rows) - 1)]
