"""The data a command is given: files, or CSV on standard input.

Standard input is kept in a temporary file, because a fit reads its rows several times. What the
library says of a file it cannot use is made more precise for CSV: the first cell that is no number,
by row and column.
"""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kexpfam.cli.terminal import Terminal
from kexpfam.data.files import FORMATS, FileRows
from kexpfam.data.frames import ReadTable, read_table
from kexpfam.data.kinds import ColumnKind
from kexpfam.progress import Progress

__all__ = ["STANDARD", "Data", "is_data", "opened", "split_names"]

STANDARD = "-"
# What a CSV may have in place of a missing number.
_CHAIN = "(A model that was fitted with --estimator chain takes words and empty cells.)"
_MISSING = {"", "na", "n/a", "nan", "null", "none"}


@dataclass(frozen=True)
class Data:
    """Files of rows, the columns to take (None: all) and that of the weights (None: none)."""

    files: tuple[Path, ...]
    columns: tuple[str, ...] | None = None
    weights: str | None = None

    @property
    def names(self) -> list[str] | None:
        """The columns' names, where files have them."""
        return self.rows().names

    def rows(self, progress: Progress | None = None, chunk_rows: int = 8192) -> FileRows:
        """The rows, in chunks, for a walk through them."""
        return FileRows(
            self.files, self.columns, self.weights, progress or Progress(), chunk_rows=chunk_rows
        )

    def table(self, seed: int, kinds: Mapping[str, ColumnKind] | None = None) -> ReadTable:
        """The rows as a data frame, or a random sample where there are very many."""
        return read_table(self.files, self.columns, self.weights, seed=seed, kinds=kinds)

    def for_fit(self) -> Any:
        """What an estimator's `fit` takes: paths, or a dataset of the chosen columns."""
        if self.columns is None:
            return list(self.files)
        import pyarrow
        from pyarrow import dataset

        names = [*self.columns, *([self.weights] if self.weights is not None else [])]
        # As numbers from the start: a column of whole numbers in one file may have others in the
        # next.
        schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
        parts = [
            dataset.dataset(file, format=FORMATS[file.suffix.lower()], schema=schema)
            for file in self.files
        ]
        return parts[0] if len(parts) == 1 else dataset.dataset(parts)


def split_names(text: str | None) -> list[str] | None:
    """Column names with commas between them; None for none."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def is_data(name: str) -> bool:
    """Whether a name is that of data rather than of a model."""
    return name == STANDARD or Path(name).suffix.lower() in FORMATS


@contextmanager
def opened(
    names: Sequence[str],
    terminal: Terminal,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    weights: str | None = None,
    mixed: bool = False,
) -> Iterator[Data]:
    """The named files, with columns chosen; complaints about them are made precise.

    In a mixed table cells may hold anything.
    """
    exclude = exclude or ()
    with tempfile.TemporaryDirectory(prefix="kexpfam-") as folder:
        kept = Path(folder) / "input.csv"
        files = tuple(kept if name == STANDARD else Path(name) for name in names)
        if kept in files:
            with kept.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        for file, name in zip(files, names, strict=True):
            _refuse_other_separators(file, "standard input" if name == STANDARD else name)
        try:
            data = _chosen(files, columns, exclude, weights)
            _warn_of_numbers_for_names(data, terminal)
            yield data
        except ValueError as error:
            if hasattr(error, "format_message"):
                raise
            wanted = [] if mixed else columns
            text = _more_precise(error, files, wanted, exclude, weights)
            raise ValueError(text.replace(str(kept), "standard input")) from error


def _refuse_other_separators(file: Path, label: str) -> None:
    """A table of one column with semicolons in its name has more than one."""
    if file.suffix.lower() != ".csv" or not file.is_file():
        return
    with file.open(newline="", encoding="utf-8", errors="replace") as lines:
        header = next(csv.reader(lines), [])
    separator = next((mark for mark in ";\t|" if mark in "".join(header)), None)
    if separator is not None and len(header) == 1:
        raise ValueError(
            f"{label}: the line of names looks like several columns, separated by {separator!r}. "
            "Expected commas: convert it first."
        )


def _chosen(
    files: tuple[Path, ...],
    columns: Sequence[str] | None,
    exclude: Sequence[str],
    weights: str | None,
) -> Data:
    """Column names checked against every file."""
    if columns is None and not exclude:
        return Data(files, None, weights)
    every = Data(files[:1]).names
    if every is None:
        raise ValueError(
            f"Columns were chosen by name, but {files[0]} is a plain array without names. Choose "
            "columns before it is saved, or save a table as Parquet."
        )
    chosen = [name for name in (columns or every) if name not in (*exclude, weights)]
    if not chosen:
        raise ValueError(f"No column is left. The columns are {_listed(every)}.")
    for file in files:
        there = Data((file,)).names or []
        for name in (*chosen, *exclude, *([weights] if weights else [])):
            if name not in there:
                raise ValueError(
                    f"{file} has no column {name!r}. Its columns are {_listed(there)}."
                )
    return Data(files, tuple(chosen), weights)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + ("…" if len(names) > 10 else "")


def _warn_of_numbers_for_names(data: Data, terminal: Terminal) -> None:
    """A CSV without a header would lose its first row in silence."""
    names = data.names
    if names and all(_is_number(name) for name in names):
        terminal.warn(
            f"The first line of {data.files[0].name} holds numbers only and was taken for the "
            "columns' names. Put a line of names before it."
        )


def _more_precise(
    error: ValueError,
    files: tuple[Path, ...],
    columns: Sequence[str] | None,
    exclude: Sequence[str],
    weights: str | None,
) -> str:
    text = str(error)
    for file in files:
        of_data = str(file) in text or "the dataset" in text
        if of_data and file.suffix.lower() == ".csv" and file.is_file():
            found = _first_bad_cell(file, columns, exclude, weights)
            if found is not None:
                return found
    return text.replace("the dataset", str(files[0])) if len(files) == 1 else text


def _first_bad_cell(
    file: Path, columns: Sequence[str] | None, exclude: Sequence[str], weights: str | None
) -> str | None:
    """What is wrong with the first cell of a CSV file that is no number; None if all are."""
    with file.open(newline="", encoding="utf-8", errors="replace") as lines:
        reader = csv.reader(lines)
        header = next(reader, [])
        chosen = header if columns is None else columns
        wanted = {*chosen, *([weights] if weights else [])} - set(exclude)
        number = 0
        for cells in filter(None, reader):
            number += 1
            if len(cells) != len(header):
                return (
                    f"{file}: row {number} has {len(cells)} cells, but the header names "
                    f"{len(header)} columns."
                )
            for name, cell in zip(header, cells, strict=True):
                if name in wanted and not _is_number(cell):
                    return f"{file}: row {number}, column {name!r} {_complaint(cell)}"
    return f"{file} has a line of names but no rows." if header and number == 0 else None


def _complaint(cell: str) -> str:
    if cell.strip().lower() in _MISSING:
        return f"is missing. Expected numbers: drop or fill such rows first. {_CHAIN}"
    return (
        f"holds {cell!r}, which is no number. Correct it, or leave the row or column out. {_CHAIN}"
    )


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False
