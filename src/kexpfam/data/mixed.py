"""A table of mixed columns as a table of numbers, and back.

Every column has a kind (see `kexpfam.data.kinds`) and becomes a number: itself, or the place of its
value among its levels. What is missing is NaN, what the kind does not know (a new category) is
infinite. On the way back frames come out as the kind of frame that the rows came in, every column
with its dtype. Kinds follow from tallies of the columns (`kexpfam.data.tallies`), chunk by chunk,
whether the rows are in memory, in files or on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.choices import nearest, shown
from kexpfam.data.cells import Cells, cell_reader, library_of, read_cells
from kexpfam.data.columns import called, of_every_column
from kexpfam.data.found_kinds import kind_from, kind_of
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.made_frames import frame_of
from kexpfam.data.rows import Chunk, make_chunk
from kexpfam.data.table_chunks import TableChunk
from kexpfam.data.tallies import Tally, joined_tallies, tallied
from kexpfam.threads import in_threads

__all__ = [
    "Coding",
    "ColumnSummary",
    "MixedTable",
    "TableTally",
    "Tallying",
    "mixed_table",
    "read_mixed",
    "summarized",
]


class ColumnSummary(NamedTuple):
    """A column for people: its kind, its range or vocabulary, and the share that is missing."""

    name: str
    kind: str
    values: str
    missing: float


class MixedTable(NamedTuple):
    """What the columns of a table are. `names` are None for an array."""

    kinds: tuple[ColumnKind, ...]
    names: tuple[str, ...] | None
    library: Literal["numpy", "pandas", "polars"]
    dtype: str

    def labels(self) -> list[str]:
        """Names of the columns, or their numbers as text."""
        return [str(number) for number in range(len(self.kinds))] if self.names is None else list(
            self.names
        )  # fmt: skip

    def _frame_names(self) -> Sequence[Any]:
        """Columns of a frame: those of frames without names are numbered, of arrays x0, x1, …"""
        if self.names is not None:
            return self.names
        numbers = range(len(self.kinds))
        return numbers if self.library == "pandas" else [f"x{number}" for number in numbers]

    def codes(self, X: Any) -> Float[np.ndarray, "n d"]:
        """A table as numbers."""
        columns = [
            kind.codes(self._fitting(cells, place))
            for place, (kind, cells) in enumerate(
                zip(self.kinds, read_cells(X, self.names), strict=True)
            )
        ]
        return np.column_stack(columns)

    def _fitting(self, cells: Any, place: int) -> Any:
        kind = self.kinds[place]
        if cells.family not in ("number", "boolean") and not kind.levels:
            words = cells.values[~cells.missing]
            # Nothing there at all fits everything.
            if len(words):
                raise ValueError(
                    f"{called(place, self.names)} must hold numbers, as in fit; argument must be a "
                    f"number, got {shown(words[0])}."
                )
            return cells._replace(values=np.full(len(cells.values), np.nan))
        if cells.family == "boolean" and not kind.levels:
            filled = np.array([np.nan if one is None else float(one) for one in cells.values])
            return cells._replace(values=filled)
        return cells

    def table(
        self,
        codes: Float[np.ndarray, "n d"],
        generator: np.random.Generator | None = None,
        index: Any = None,
        *,
        library: Literal["numpy", "pandas", "polars"] | None = None,
    ) -> Any:
        """Numbers as a table of the kind that was fitted to, or of another library's."""
        library = self.library if library is None else library
        columns = [
            kind.decoded(column, generator)
            for kind, column in zip(self.kinds, codes.T, strict=True)
        ]
        if library != "numpy":
            return frame_of(library, self._frame_names(), self.kinds, columns, index)
        if any(column.dtype == object for column in columns) and self.dtype != "number":
            out = np.empty(codes.shape, object)
            for place, column in enumerate(columns):
                out[:, place] = column
            return out
        return np.column_stack([
            np.array([np.nan if one is None else one for one in column], float)
            for column in columns
        ])  # fmt: skip


def read_mixed(
    X: Any,
    names: Sequence[str] | None,
    weights: Float[np.ndarray, " n"],
    given: Any,
) -> tuple[MixedTable, Float[np.ndarray, "n d"]]:
    """Kinds of all columns, read or given, and the table as numbers."""
    tallying = Tallying(None if names is None else tuple(map(str, names)))
    tally = tallying([TableChunk(X, weights)])
    table = mixed_table(tally, tallying.names, library_of(X), given)
    return table, table.codes(X)


class TableTally(NamedTuple):
    """Tallies of all columns, how many rows there are, how many count, and the least weight."""

    columns: tuple[Tally, ...]
    n_rows: int
    n_counted: int
    least_weight: float


@dataclass(frozen=True)
class Tallying:
    """Tallies of a table's columns as a summary of its chunks."""

    names: tuple[str, ...] | None

    def __call__(self, chunks: Iterable[Any]) -> TableTally:
        return reduce(self.combine, map(self._of_chunk, chunks))

    def _of_chunk(self, chunk: TableChunk) -> TableTally:
        return self.of_table([chunk])

    def of_table(self, chunks: Sequence[TableChunk]) -> TableTally:
        """The same of chunks that are there at the same time: each core takes some columns."""
        readers = [cell_reader(chunk.rows, self.names) for chunk in chunks]

        def of_column(place: int) -> Tally:
            each = zip(chunks, readers, strict=True)
            return reduce(
                joined_tallies, (self._tally(chunk, read, place) for chunk, (read, _) in each)
            )

        weights = np.concatenate([chunk.weights for chunk in chunks])
        positive = weights[weights > 0]
        return TableTally(
            tuple(in_threads(of_column, range(readers[0][1]))),
            len(weights),
            len(positive),
            float(positive.min()) if len(positive) else np.inf,
        )

    def _tally(self, chunk: TableChunk, read: Callable[[int], Cells], place: int) -> Tally:
        try:
            return tallied(read(place), chunk.weights)
        except ValueError as error:
            return Tally(refusal=f"{chunk.where(place, self.names)}{error}")

    def combine(self, one: TableTally, other: TableTally) -> TableTally:
        return TableTally(
            tuple(map(joined_tallies, one.columns, other.columns)),
            one.n_rows + other.n_rows,
            one.n_counted + other.n_counted,
            min(one.least_weight, other.least_weight),
        )


@dataclass(frozen=True)
class Coding:
    """A function of chunks: tables as numbers."""

    table: MixedTable

    def __call__(self, chunk: Any) -> Chunk:
        return make_chunk(self.table.codes(chunk.rows), chunk.weights)


def mixed_table(
    tally: TableTally,
    names: Sequence[str] | None,
    library: Literal["numpy", "pandas", "polars"],
    given: Any,
) -> MixedTable:
    """Kinds of all columns, read or given."""
    wanted = _wanted(given, names, len(tally.columns))
    # A weight is a repetition; where some are below one, they are measured by the smallest.
    unit = min(1.0, tally.least_weight)

    def kind_at(place: int) -> ColumnKind:
        column, name = tally.columns[place].divided(unit), called(place, names)
        return kind_from(wanted[place], column, name) if place in wanted else kind_of(column, name)

    kinds = of_every_column(kind_at, len(tally.columns), names)
    dtype = "number" if all(one.family == "number" for one in tally.columns) else "object"
    return MixedTable(
        tuple(kinds), None if names is None else tuple(map(str, names)), library, dtype
    )


def _end(value: float) -> str:
    """An end of a range: a whole number with all of its digits."""
    return f"{value:.0f}" if value == np.rint(value) and abs(value) < 1e9 else f"{value:g}"


def summarized(
    names: Sequence[str], kinds: Sequence[ColumnKind], codes: Float[np.ndarray, "n d"]
) -> list[ColumnSummary]:
    """What columns are, and what of it is in the rows."""
    found = []
    for name, kind, column in zip(names, kinds, codes.T, strict=True):
        there = column[np.isfinite(column)]
        words = kind.details()
        if kind.names() is None and len(there):
            words.insert(0, f"{_end(there.min())} to {_end(there.max())}")
        missing = float(np.isnan(column).mean()) if len(column) else 0.0
        found.append(ColumnSummary(name, kind.kind, "; ".join(words), missing))
    return found


def _wanted(given: Any, names: Sequence[str] | None, n_columns: int) -> dict[int, Any]:
    """Given kinds by the number of the column."""
    if given is None:
        return {}
    if isinstance(given, str):
        return dict.fromkeys(range(n_columns), given)
    if not isinstance(given, Mapping):
        raise ValueError(
            "columns must be None, one kind for all columns, or a mapping from columns to kinds "
            f"such as {{'age': 'count'}}; got {shown(given)}."
        )
    places = {str(name): place for place, name in enumerate(names or [])}
    found = {}
    for column, kind in given.items():
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
            place = int(column) if -n_columns <= column < n_columns else None
            place = None if place is None else place % n_columns
        else:
            place = places.get(str(column))
        if place is None:
            raise ValueError(
                f"columns names {shown(column)}, which is not a column of X."
                f"{nearest(column, places)}"
            )
        found[place] = kind
    return found
