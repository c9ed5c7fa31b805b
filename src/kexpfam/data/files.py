"""Rows in files, as a source of chunks.

Files are read batch by batch (`kexpfam.data.opened_files`) and cut anew into chunks of one size, so
memory is bounded by the chunk and what is summed does not depend on the files' own row groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.data.columns import require_columns
from kexpfam.data.dialects import Dialect
from kexpfam.data.opened_files import ArrayFile, TextFile, TypedFile, open_file
from kexpfam.data.rows import CHUNK_ROWS, Chunk, LocalRows, make_chunk
from kexpfam.data.weights import refuse_unusable_weights
from kexpfam.progress import Progress

__all__ = ["FileRows", "rechunked", "refuse_unusable"]


@dataclass(frozen=True)
class FileRows(LocalRows):
    """The rows of one or several files, or of a pyarrow dataset, one after the other.

    `columns` are the names to take (all but the weights, if None), `weight_column` that of the
    rows' weights, and `dialect` says how text is written, where that is not to be recognized.
    """

    files: tuple[Any, ...]
    columns: tuple[str, ...] | None = None
    weight_column: str | None = None
    progress: Progress = field(default_factory=Progress)
    chunk_rows: int = CHUNK_ROWS
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Sentences on what in the files may have been taken for something else."""
        return tuple(doubt for one in self.files for doubt in self.opened(one).doubts)

    def opened(self, one: Any) -> ArrayFile | TypedFile | TextFile:
        """One of the files."""
        return open_file(one, self.dialect)

    @cached_property
    def names(self) -> list[str] | None:
        """The columns' names; None where files have none."""
        first = self.opened(self.files[0])
        if first.names is None:
            if self.columns is not None or self.weight_column is not None:
                raise ValueError(
                    f"Columns were asked for by name, but {first.label} is a plain array without "
                    "names. Select columns before it is saved, or save a table as Parquet."
                )
            return None
        if self.columns is not None:
            return list(self.columns)
        return [name for name in first.names if name != self.weight_column]

    @cached_property
    def n_rows(self) -> int | None:
        counts = [self.opened(one).n_rows for one in self.files]
        return None if any(count is None for count in counts) else sum(counts)  # type: ignore[arg-type]

    @cached_property
    def n_columns(self) -> int:
        return len(self.names) if self.names is not None else self.opened(self.files[0]).width

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        pieces = rechunked(self._pieces(), self.chunk_rows)
        for number, (rows, weights) in enumerate(pieces):
            if number >= start:
                yield make_chunk(rows, weights)

    def _pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for one in self.files:
            opened, first = self.opened(one), 0
            for rows, weights in self._read(opened):
                try:
                    refuse_unusable(rows, weights, opened.label, first, self.names)
                except ValueError:
                    if not isinstance(opened, ArrayFile):
                        opened.complaint(self.wanted(opened))
                    raise
                first += len(rows)
                yield rows, weights
            if first == 0:
                raise ValueError(f"{opened.label} has no rows. Leave it out, or write it again.")

    def _read(
        self, opened: ArrayFile | TypedFile | TextFile
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if isinstance(opened, ArrayFile):
            self.require_array(opened)
            yield from ((rows, np.ones(len(rows))) for rows in opened.arrays(self.chunk_rows))
            return
        n_columns, wanted = len(self.names or ()), self.wanted(opened)
        for batch in opened.number_batches(wanted, self.chunk_rows):
            if batch.num_rows:
                columns = [
                    column.to_numpy(zero_copy_only=False).astype(float) for column in batch.columns
                ]
                rows = np.stack(columns[:n_columns], axis=1)
                yield rows, columns[-1] if len(columns) > n_columns else np.ones(len(rows))

    def require_array(self, opened: ArrayFile) -> None:
        """Raise if the first file has names, and this one has none; or another width."""
        if self.names is not None:
            raise ValueError(
                f"{opened.label} is a plain array without names, but the first file has "
                f"columns {', '.join(self.names[:5])}. Give files of one kind."
            )
        if opened.width != self.n_columns:
            raise ValueError(
                f"{opened.label} has {opened.width} columns, but {self.n_columns} were "
                "expected, as in the first file."
            )

    def wanted(self, opened: TypedFile | TextFile) -> list[str]:
        """The names of the columns to read, that of the weights last."""
        if self.names is None:
            raise ValueError(
                f"{opened.label} has named columns, but the first file is a plain array. Give "
                "files of one kind."
            )
        if not self.names:
            besides = "" if self.weight_column is None else f" besides {self.weight_column!r}"
            raise ValueError(
                f"{opened.label} has no columns{besides}. Expected columns of numbers."
            )
        wanted = [*self.names, *([self.weight_column] if self.weight_column is not None else [])]
        require_columns(opened.label, wanted, opened.names)
        return wanted


def refuse_unusable(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    label: str,
    first: int,
    names: Sequence[str] | None,
) -> None:
    """Raise if a row holds what is not a number, or a weight is none; rows count from `first`."""
    # A sum is not finite if a number is not, and costs no memory.
    if not np.isfinite(rows.sum()):
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            row, column = bad[0]
            shown = repr(names[column]) if names is not None else str(column)
            raise ValueError(
                f"{label}: row {first + row + 1}, column {shown} holds {rows[row, column]}. "
                "Expected finite numbers: drop or fill such rows first."
            )
    refuse_unusable_weights(weights, label, first)


def rechunked(
    pieces: Iterator[tuple[np.ndarray, np.ndarray]], size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same rows in pieces of one size, the last one smaller."""
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(piece[0])
        if count >= size:
            rows, weights = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
            whole = count - count % size
            for start in range(0, whole, size):
                yield rows[start : start + size], weights[start : start + size]
            waiting, count = [(rows[whole:], weights[whole:])], count - whole
    if count:
        rows, weights = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        yield rows, weights
