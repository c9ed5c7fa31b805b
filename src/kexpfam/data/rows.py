"""Sources of rows, and the one way to visit them.

A source hands out chunks (some ten thousand rows with their weights) in a fixed order, as often as
it is asked, and is read by *summaries*: functions of an iterable of chunks whose results can be
combined. Arrays, files, iterators and clusters differ in how they walk, not in what is computed:

    total = combine(summary(chunks of part 1), summary(chunks of part 2), …)

A fit makes three such passes: the columns' means and standard deviations, the sketch, the moments.

| name    | shape  | meaning                                              |
|---------|--------|------------------------------------------------------|
| rows    | (n, d) | float64                                              |
| weights | (n,)   |                                                      |
| labels  | (n,)   | the fold of each row, once folds are known           |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from kexpfam.progress import Progress

__all__ = ["CHUNK_ROWS", "ArrayRows", "Chunk", "LocalRows", "MappedRows", "RowSource", "make_chunk"]

CHUNK_ROWS = 65_536

T = TypeVar("T")


class Chunk(NamedTuple):
    """Some rows, their weights, and the folds they belong to."""

    rows: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    labels: Int[np.ndarray, " n"]


def make_chunk(rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> Chunk:
    """A chunk whose rows all belong to fold 0."""
    return Chunk(rows, weights, np.zeros(len(rows), np.int64))


class RowSource(ABC):
    """Rows that can be visited again and again, always in the same chunks."""

    @abstractmethod
    def total(
        self, summary: Callable[[Iterable[Chunk]], T], combine: Callable[[T, T], T], label: str
    ) -> T:
        """The summary of all rows."""

    def mapped(self, function: Callable[[Chunk], Chunk]) -> MappedRows:
        """The same rows seen through a function of chunks."""
        return MappedRows(self, function)

    def local(self) -> tuple[LocalRows, Callable[[Chunk], Chunk]] | None:
        """Rows that this process walks itself, and what they are seen through; else None."""
        return None

    def check(self, trace: Any) -> None:
        """Raise if a pass over the rows has met others than the passes before it."""
        return


class LocalRows(RowSource):
    """Rows that this process reads itself, one chunk after the other."""

    progress: Progress

    @property
    @abstractmethod
    def n_rows(self) -> int | None:
        """How many there are, where that is known before they are read."""

    @abstractmethod
    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Chunks from number `start` on."""

    def total(
        self,
        summary: Callable[[Iterable[Chunk]], T],
        combine: Callable[[T, T], T],
        label: str,
    ) -> T:
        return summary(self.progress.rows(self.chunks(), self.n_rows, label))

    def local(self) -> tuple[LocalRows, Callable[[Chunk], Chunk]]:
        return self, _same


@dataclass(frozen=True)
class ArrayRows(LocalRows):
    """Rows of an array, in memory or mapped from a file.

    A `target` is their last column, and is put beside them chunk by chunk: a table of both would be
    a second copy of all rows.
    """

    rows: Any
    weights: Any
    progress: Progress = field(default_factory=Progress)
    chunk_rows: int = CHUNK_ROWS
    target: Any = None

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        size = self.chunk_rows
        for first in range(start * size, len(self.rows), size):
            part = slice(first, first + size)
            yield make_chunk(self.table(part), np.asarray(self.weights[part], float))

    def table(self, part: slice = slice(None)) -> Float[np.ndarray, "n d"]:
        """Some or all of the rows, with their target."""
        if self.target is None:
            return np.ascontiguousarray(self.rows[part], dtype=float)
        return np.column_stack([self.rows[part], self.target[part]])


@dataclass(frozen=True)
class MappedRows(RowSource):
    """Another source's rows, every chunk put through a function."""

    source: RowSource
    function: Callable[[Chunk], Chunk]

    def total(
        self, summary: Callable[[Iterable[Chunk]], T], combine: Callable[[T, T], T], label: str
    ) -> T:
        return self.source.total(_Through(summary, self.function), combine, label)

    def local(self) -> tuple[LocalRows, Callable[[Chunk], Chunk]] | None:
        found = self.source.local()
        return None if found is None else (found[0], _Chained(found[1], self.function))

    def check(self, trace: Any) -> None:
        self.source.check(trace)


# Small classes rather than closures: they travel to other processes.


def _same(chunk: Chunk) -> Chunk:
    return chunk


@dataclass(frozen=True)
class _Through:
    summary: Callable[[Iterable[Chunk]], Any]
    function: Callable[[Chunk], Chunk]

    def __call__(self, chunks: Iterable[Chunk]) -> Any:
        return self.summary(self.function(chunk) for chunk in chunks)


@dataclass(frozen=True)
class _Chained:
    first: Callable[[Chunk], Chunk]
    second: Callable[[Chunk], Chunk]

    def __call__(self, chunk: Chunk) -> Chunk:
        return self.second(self.first(chunk))
