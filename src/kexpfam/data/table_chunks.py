"""Tables of any columns, visited chunk by chunk: frames or arrays with their weights.

| source        | rows                                                                    |
|---------------|-------------------------------------------------------------------------|
| `MemoryTables`| a frame or an array in memory                                           |
| `BlockTables` | blocks of an iterator, kept in a temporary file                         |

Files are in `kexpfam.data.table_files`, clusters in `kexpfam.data.cluster`. Like all sources
(`kexpfam.data.rows`) they are read by summaries; seen through `kexpfam.data.mixed.Coding` their
chunks are numbers.
"""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.cells import library_of, rows_at
from kexpfam.data.rows import CHUNK_ROWS, LocalRows
from kexpfam.data.weights import refuse_unusable_weights
from kexpfam.progress import Progress

__all__ = ["BlockTables", "MemoryTables", "TableChunk", "block_weights", "shown_names"]


class TableChunk(NamedTuple):
    """Some rows of a table. `label` says where they come from, and `first` at which row there."""

    rows: Any
    weights: Float[np.ndarray, " n"]
    label: str = ""
    first: int = 0

    def where(self, column: int, names: Sequence[str] | None) -> str:
        """The beginning of a sentence on a column that cannot be read; nothing in memory."""
        if not self.label:
            return ""
        row = _infinite_row(self.rows, column)
        if row is None:
            return f"{self.label}: "
        name = repr(str(names[column])) if names is not None else str(column)
        return f"{self.label}: row {self.first + row + 1}, column {name} is infinite. "


def _infinite_row(rows: Any, column: int) -> int | None:
    values = rows[:, column] if library_of(rows) != "pandas" else rows.iloc[:, column].to_numpy()
    try:
        infinite = np.flatnonzero(np.isinf(np.asarray(values, float)))
    except (TypeError, ValueError):
        return None
    return int(infinite[0]) if len(infinite) else None


def block_weights(weights: Any, n_rows: int, label: str, first: int) -> np.ndarray:
    """Weights of a block, one for each row; ones for None."""
    if weights is None:
        return np.ones(n_rows)
    weights = np.asarray(weights, float)
    if weights.shape != (n_rows,):
        raise ValueError(f"{label} has {n_rows} rows, but weights of the shape {weights.shape}.")
    refuse_unusable_weights(weights, label, first)
    return weights


class MemoryTables(LocalRows):
    """The rows of a frame or of an array."""

    def __init__(self, X: Any, weights: Float[np.ndarray, " n"], progress: Progress) -> None:
        self._rows, self._weights, self.progress = X, weights, progress

    @property
    def n_rows(self) -> int:
        return len(self._weights)

    def chunks(self, start: int = 0) -> Iterator[Any]:
        for first in range(start * CHUNK_ROWS, self.n_rows, CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            yield TableChunk(rows_at(self._rows, part), self._weights[part])


class BlockTables(LocalRows):
    """Frames or arrays of an iterator, or pairs of them with weights, kept in a temporary file.

    The file holds pickled chunks of this process, has no name and goes with the object.
    """

    def __init__(self, blocks: Iterable[Any], progress: Progress) -> None:
        self.progress = progress
        self._file = tempfile.TemporaryFile(prefix="kexpfam-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.n_columns, self.library = 0, "numpy"
        self.names: list[str] | None = None
        self._count, self._n_chunks = 0, 0
        for number, block in enumerate(blocks):
            self._write(self._checked(block, f"Block {number}"))
        if self._count == 0:
            raise ValueError("The iterator gave no rows. Was it used up before?")

    @property
    def n_rows(self) -> int:
        return self._count

    def _checked(self, block: Any, label: str) -> TableChunk:
        if isinstance(block, tuple) and len(block) != 2:
            raise ValueError(
                f"{label} is a tuple of {len(block)}. Expected rows, or a pair (rows, weights)."
            )
        rows, weights = block if isinstance(block, tuple) else (block, None)
        library = library_of(rows)
        if library == "numpy":
            rows = np.asarray(rows)
        names = None if library == "numpy" else list(rows.columns)
        if names is not None and not all(isinstance(name, str) for name in names):
            names = None
        if np.ndim(rows) != 2 or (self._n_chunks and rows.shape[1] != self.n_columns):
            expected = f" and {self.n_columns} columns, as in the first block" * bool(
                self._n_chunks
            )
            raise ValueError(
                f"{label} has the shape {np.shape(rows)}. Expected two dimensions{expected}."
            )
        if self._n_chunks and names != self.names:
            raise ValueError(
                f"{label} has the columns {shown_names(names)}; expected "
                f"{shown_names(self.names)}, as in the first block."
            )
        if not self._n_chunks:
            self.n_columns, self.names, self.library = rows.shape[1], names, library
        return TableChunk(rows, block_weights(weights, len(rows), label, 0), label)

    def _write(self, chunk: TableChunk) -> None:
        self._n_chunks, self._count = self._n_chunks + 1, self._count + len(chunk.weights)
        pickle.dump(tuple(chunk), self._file, protocol=pickle.HIGHEST_PROTOCOL)

    def chunks(self, start: int = 0) -> Iterator[Any]:
        self._file.seek(0)
        for number in range(self._n_chunks):
            chunk = TableChunk(*pickle.load(self._file))
            if number >= start and len(chunk.weights):
                yield chunk


def shown_names(names: Sequence[str] | None) -> str:
    """Some names of columns, or that there are none."""
    if names is None:
        return "without names"
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
