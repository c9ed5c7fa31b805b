"""Blocks of rows from an iterator that can be walked only once, kept on disk.

A fit visits its rows several times. The blocks of an iterator are written to a temporary file one
by one and read back in chunks. This needs disk space instead of memory, and the file is removed
when it is no longer needed.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kexpfam.data.files import refuse_unusable
from kexpfam.data.rows import CHUNK_ROWS, Chunk, LocalRows, make_chunk
from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.progress import Progress

__all__ = ["NamedBlocks", "StoredRows", "spooled"]


class StoredRows(LocalRows):
    """Chunks of numbers in a temporary file, read back in chunks of one size.

    They are read and not mapped, so that they take no memory but that of a chunk.
    """

    def __init__(
        self,
        chunks: Iterable[Chunk],
        progress: Progress,
        chunk_rows: int = CHUNK_ROWS,
        names: list[str] | None = None,
    ) -> None:
        self.progress, self._chunk_rows, self.names = progress, chunk_rows, names
        self._file = tempfile.TemporaryFile(prefix="kexpfam-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._n_rows, self._width = 0, 0
        for chunk in chunks:
            table = np.column_stack([chunk.rows, chunk.weights])
            self._n_rows, self._width = self._n_rows + len(table), table.shape[1]
            self._file.write(table.tobytes())
        self._file.flush()

    @property
    def n_rows(self) -> int:
        return self._n_rows

    @property
    def n_columns(self) -> int:
        """How many columns they have."""
        return self._width - 1

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        size = 8 * self._width * self._chunk_rows
        for number in range(start, -(-self._n_rows // self._chunk_rows)):
            numbers = np.frombuffer(os.pread(self._file.fileno(), size, number * size))
            table = numbers.reshape(-1, self._width)
            yield make_chunk(np.ascontiguousarray(table[:, :-1]), table[:, -1])


class NamedBlocks:
    """An iterator over blocks of rows that knows what their columns are called, if anything."""

    def __init__(self, blocks: Iterable[Any], names: Sequence[str] | None) -> None:
        self._blocks = iter(blocks)
        self.names = None if names is None else list(names)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._blocks)


def spooled(blocks: Iterable[Any], progress: Progress) -> StoredRows:
    """The rows of all blocks: arrays or data frames, or pairs of them with their weights."""
    names = blocks.names if isinstance(blocks, NamedBlocks) else None
    stored = StoredRows(_checked(blocks), progress, names=names)
    if stored.n_rows == 0:
        raise ValueError("The iterator gave no rows. Was it used up before?")
    return stored


def _checked(blocks: Iterable[Any]) -> Iterator[Chunk]:
    n_columns = 0
    for number, block in enumerate(blocks):
        label = f"Block {number}"
        if isinstance(block, tuple) and len(block) != 2:
            raise ValueError(
                f"{label} is a tuple of {len(block)}. Expected rows, or a pair (rows, weights)."
            )
        rows, weights = block if isinstance(block, tuple) else (block, None)
        refuse_what_is_no_table(rows, label)
        if np.iscomplexobj(rows):
            raise ValueError(f"{label} holds complex numbers; expected real ones.")
        try:
            rows = np.asarray(rows, float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{label} holds more than numbers: {error}.") from error
        if rows.ndim != 2 or (n_columns and rows.shape[1] != n_columns):
            raise ValueError(
                f"{label} has the shape {rows.shape}. Expected two dimensions"
                + (f" and {n_columns} columns, as in the first block." if n_columns else ".")
            )
        n_columns = rows.shape[1]
        weights = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
        if weights.shape != (len(rows),):
            raise ValueError(
                f"{label} has {len(rows)} rows, but weights of the shape {weights.shape}."
            )
        refuse_unusable(rows, weights, label, 0, None)
        yield make_chunk(rows, weights)
