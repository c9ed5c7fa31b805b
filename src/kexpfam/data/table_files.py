"""Tables in files, chunk by chunk as data frames: words, truth values and empty cells stay so.

Cells of text files are understood first, in a pass of its own: a column is of whole numbers, of
numbers, of truth values or of dates if all of its cells in all files of text are, and else of
words. Parquet and Arrow files say themselves what their columns are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kexpfam.data.columns import require_columns
from kexpfam.data.files import FileRows
from kexpfam.data.frame_columns import TextTypes, frame_of_types, weights_of
from kexpfam.data.opened_files import ArrayFile, TextFile, TypedFile
from kexpfam.data.rows import CHUNK_ROWS, LocalRows
from kexpfam.data.table_chunks import TableChunk, block_weights
from kexpfam.progress import Progress

__all__ = ["FileTables"]


@dataclass(frozen=True)
class FileTables(LocalRows):
    """The rows of files, or of a pyarrow dataset, one after the other."""

    files: FileRows

    @property
    def progress(self) -> Progress:  # type: ignore[override]
        return self.files.progress

    @property
    def names(self) -> list[str] | None:
        """The columns' names; None where files have none."""
        return self.files.names

    @property
    def n_columns(self) -> int:
        """How many columns there are, without that of the weights."""
        return self.files.n_columns

    @property
    def n_rows(self) -> int | None:
        return self.files.n_rows

    @cached_property
    def _types(self) -> dict[str, Any]:
        types = TextTypes()
        for one in self.files.files:
            opened = self.files.opened(one)
            if isinstance(opened, TextFile):
                for batch in opened.batches(self.files.wanted(opened), CHUNK_ROWS):
                    types.add(_table(batch))
        return types.found()

    def chunks(self, start: int = 0) -> Iterator[Any]:
        number = 0
        for one in self.files.files:
            opened, first = self.files.opened(one), 0
            for rows, weights in self._blocks(opened):
                weights = block_weights(weights, len(rows), opened.label, first)
                if number >= start:
                    yield TableChunk(rows, weights, opened.label, first)
                first, number = first + len(rows), number + 1
            if first == 0:
                raise ValueError(f"{opened.label} has no rows. Leave it out, or write it again.")

    def _blocks(self, opened: ArrayFile | TypedFile | TextFile) -> Iterator[tuple[Any, Any]]:
        if isinstance(opened, ArrayFile):
            self.files.require_array(opened)
            for rows in opened.arrays(CHUNK_ROWS):
                yield rows, None
            return
        wanted, weight = self.files.wanted(opened), self.files.weight_column
        require_columns(opened.label, wanted, opened.names)
        types = self._types if isinstance(opened, TextFile) else {}
        for batch in opened.batches(wanted, CHUNK_ROWS):
            if not batch.num_rows:
                continue
            frame = frame_of_types(_table(batch), types)
            yield frame, None if weight is None else weights_of(frame.pop(weight), opened.label)


def _table(batch: Any) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches([batch])
