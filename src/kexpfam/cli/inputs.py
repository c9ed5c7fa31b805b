"""The data a command is given: files, or a table on standard input.

Standard input is kept in a temporary file, because a fit reads its rows several times.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kexpfam.cli.first_look import STANDARD, check_names, is_data, split_names
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect
from kexpfam.data.file_kinds import stored_as
from kexpfam.data.files import FileRows
from kexpfam.data.frames import ReadTable, read_table
from kexpfam.data.kinds import ColumnKind
from kexpfam.progress import Progress

__all__ = ["STANDARD", "Data", "is_data", "opened", "split_names"]


@dataclass(frozen=True)
class Data:
    """Files of rows, the columns to take (None: all) and that of the weights (None: none).

    The dialect says how text is written, where that is not to be recognized.
    """

    files: tuple[Path, ...]
    columns: tuple[str, ...] | None = None
    weights: str | None = None
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def names(self) -> list[str] | None:
        """The columns' names, where files have them."""
        return self.rows().names

    def rows(self, progress: Progress | None = None, chunk_rows: int = 8192) -> FileRows:
        """The rows, in chunks, for a walk through them."""
        return FileRows(
            self.files,
            self.columns,
            self.weights,
            progress or Progress(),
            chunk_rows=chunk_rows,
            dialect=self.dialect,
        )

    def table(self, seed: int, kinds: Mapping[str, ColumnKind] | None = None) -> ReadTable:
        """The rows as a data frame, or a random sample where there are very many."""
        return read_table(
            self.files, self.columns, self.weights, seed=seed, kinds=kinds, dialect=self.dialect
        )

    def for_fit(self) -> FileRows:
        """What an estimator's `fit` takes."""
        return FileRows(self.files, self.columns, dialect=self.dialect)


@contextmanager
def opened(
    names: Sequence[str],
    terminal: Terminal,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    weights: str | None = None,
    dialect: Dialect | None = None,
) -> Iterator[Data]:
    """The named files, with columns chosen; it is said what may have been misunderstood."""
    dialect = dialect or Dialect()
    with tempfile.TemporaryDirectory(prefix="kexpfam-") as folder:
        kept = _kept(Path(folder)) if STANDARD in names else None
        files = tuple(Path(name) if name != STANDARD or kept is None else kept for name in names)

        def named(text: str) -> str:
            if kept is None:
                return text
            return text.replace(str(kept), "standard input").replace(kept.name, "standard input")

        try:
            data = _chosen(files, columns, exclude or (), weights, dialect)
            for doubt in data.rows().doubts:
                terminal.warn(named(doubt))
            yield data
        except ValueError as error:
            if hasattr(error, "format_message"):
                raise
            raise ValueError(named(str(error))) from error


def _kept(folder: Path) -> Path:
    """Standard input as a file."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise ValueError(
            "- stands for standard input, which is closed. Give a file, or pipe rows into the "
            "command."
        )
    first = stream.read(64)
    path = folder / f"standard_input{stored_as(first) or '.csv'}"
    with path.open("wb") as copy:
        copy.write(first)
        shutil.copyfileobj(stream, copy)
    return path


def _chosen(
    files: tuple[Path, ...],
    columns: Sequence[str] | None,
    exclude: Sequence[str],
    weights: str | None,
    dialect: Dialect,
) -> Data:
    """Column names checked against every file."""
    if columns is None and not exclude:
        return Data(files, None, weights, dialect)
    chosen: list[str] = []
    for file in files:
        there = Data((file,), dialect=dialect).names
        if there is None:
            raise ValueError(
                f"Columns were chosen by name, but {file} is a plain array without names. Choose "
                "columns before it is saved, or save a table as Parquet."
            )
        found = check_names(str(file), there, chosen or columns, exclude, weights)
        chosen = chosen or found
    return Data(files, tuple(chosen), weights, dialect)
