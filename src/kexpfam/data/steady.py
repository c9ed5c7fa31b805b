"""Rows that must be the same in every pass.

A fit reads its rows several times. Files can change in between, and sums of some rows would be
combined with the units of others. What each pass has read is summed up in two numbers, which do not
depend on the order of the rows or on how they were cut into chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kexpfam.data.rows import Chunk, LocalRows, RowSource

__all__ = ["SteadyRows", "Trace"]

T = TypeVar("T")
_WORD = 1 << 64
# An odd number: multiplying by its powers mixes the columns, and can be undone.
_ODD = 0x9E3779B97F4A7C15


class Trace(NamedTuple):
    """How many rows there were, and a sum of their numbers' bits."""

    n_rows: int = 0
    content: int = 0

    def after(self, chunk: Chunk) -> Trace:
        """With some more rows."""
        numbers = np.column_stack([chunk.rows, chunk.weights]).view(np.uint64)
        sums = numbers.sum(axis=0, dtype=np.uint64).tolist()
        content = sum(one * pow(_ODD, place + 1, _WORD) for place, one in enumerate(sums))
        return Trace(self.n_rows + len(numbers), (self.content + content) % _WORD)

    def joined(self, other: Trace) -> Trace:
        """The trace of both sets of rows."""
        return Trace(self.n_rows + other.n_rows, (self.content + other.content) % _WORD)


@dataclass
class SteadyRows(RowSource):
    """Another source's rows, which are compared between passes."""

    source: RowSource
    _first: list[Trace] = field(default_factory=list)

    def total(
        self, summary: Callable[[Iterable[Chunk]], T], combine: Callable[[T, T], T], label: str
    ) -> T:
        found, trace = self.source.total(_Watched(summary), _Both(combine), label)
        self.check(trace)
        return found

    def local(self) -> tuple[LocalRows, Callable[[Chunk], Chunk]] | None:
        return self.source.local()

    def check(self, trace: Trace) -> None:
        if not self._first:
            self._first.append(trace)
        first = self._first[0]
        if trace != first:
            how = (
                f"there were {first.n_rows:,} at first and {trace.n_rows:,} later"
                if trace.n_rows != first.n_rows
                else "some of their values are not what they were"
            )
            raise ValueError(
                f"The rows changed while they were read: {how}. A fit reads its rows several "
                "times. Fit again when nothing writes to them, or give it a copy."
            )


# Small classes rather than closures: they travel to other processes.


@dataclass(frozen=True)
class _Watched:
    summary: Callable[[Iterable[Chunk]], Any]

    def __call__(self, chunks: Iterable[Chunk]) -> tuple[Any, Trace]:
        traces = [Trace()]

        def watched() -> Iterator[Chunk]:
            for chunk in chunks:
                traces[0] = traces[0].after(chunk)
                yield chunk

        return self.summary(watched()), traces[0]


@dataclass(frozen=True)
class _Both:
    combine: Callable[[Any, Any], Any]

    def __call__(self, one: tuple[Any, Trace], other: tuple[Any, Trace]) -> tuple[Any, Trace]:
        return self.combine(one[0], other[0]), one[1].joined(other[1])
