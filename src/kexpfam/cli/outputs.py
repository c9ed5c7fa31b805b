"""Tables as a command writes them: Parquet, CSV and .npy, block by block.

A file appears under its name when it is whole; an existing one is replaced only when that was asked
for, and whether it can be written is known before the work begins.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import typer

from kexpfam.cli.inputs import STANDARD
from kexpfam.cli.terminal import STANDARD_OUTPUT, Terminal
from kexpfam.writing import whole_file

__all__ = ["check_holds_words", "check_output", "check_table_output", "naming", "table_output"]

Write = Callable[[Sequence[np.ndarray]], None]


def check_output(path: Path, force: bool) -> None:
    """Refuse what cannot be written, before the work."""
    if path.is_dir():
        raise ValueError(f"Cannot write {path}: it is a folder. Give the name of a file in it.")
    if path.is_file() and not force:
        raise ValueError(f"{path} exists. Give --force to replace it, or another name.")
    if path.exists() and not path.is_file():
        return
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What goes wrong while a file is written is said of its own name."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"Cannot write {path}: {error.strerror or error}.") from error


def check_table_output(output: str, force: bool, terminal: Terminal) -> None:
    """Refuse a table of no known kind, or one that cannot be written."""
    if output == STANDARD:
        if terminal.as_json:
            raise typer.BadParameter(
                "--json and -o - both write to standard output: give -o a file."
            )
        return
    if Path(output).suffix.lower() not in _WRITERS:
        raise typer.BadParameter(
            f"{output} is not a type of file that can be written. Expected a name ending in one of "
            f"{', '.join(_WRITERS)}, or - for CSV on standard output."
        )
    check_output(Path(output), force)


def check_holds_words(output: str, columns: Sequence[np.ndarray]) -> None:
    """Refuse words in a file that has a place for numbers only."""
    if Path(output).suffix.lower() == ".npy" and any(one.dtype.kind in "OUS" for one in columns):
        raise ValueError(
            f"{output} can hold numbers only, and some columns hold words. Write a .csv or "
            ".parquet file."
        )


@contextmanager
def table_output(output: str, names: Sequence[str]) -> Iterator[Write]:
    """A function that writes blocks of columns (one array each) to a file, or to `-` as CSV."""
    try:
        if output == STANDARD:
            yield _csv(sys.stdout, names)
        else:
            writer = _WRITERS[Path(output).suffix.lower()]
            with whole_file(output) as part, writer(part, names) as write:
                yield write
    except OSError as error:
        if error.filename is not None or isinstance(error, BrokenPipeError):
            raise
        named = STANDARD_OUTPUT if output == STANDARD else output
        raise OSError(error.errno, error.strerror, named) from error


def _csv(file: TextIO, names: Sequence[str]) -> Write:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)

    def write(columns: Sequence[np.ndarray]) -> None:
        # Python's numbers, written with the fewest digits that give them back.
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
        file.flush()

    return write


@contextmanager
def _csv_file(path: Path, names: Sequence[str]) -> Iterator[Write]:
    with path.open("w", newline="", encoding="utf-8") as file:
        yield _csv(file, names)


@contextmanager
def _parquet_file(path: Path, names: Sequence[str]) -> Iterator[Write]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("Writing Parquet needs pyarrow: pip install 'kexpfam[files]'") from error
    writer: Any = None
    try:

        def write(columns: Sequence[np.ndarray]) -> None:
            nonlocal writer
            table = pyarrow.table(dict(zip(names, columns, strict=True)))
            if writer is None:
                writer = parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)

        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _array_file(path: Path, names: Sequence[str]) -> Iterator[Write]:
    """A header that leaves room for the number of rows, which is known at the end."""
    n_rows = 0

    def header(file: Any) -> None:
        shape = (n_rows, len(names))
        notes = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, notes)

    with path.open("wb") as file:
        header(file)
        begin = file.tell()

        def write(columns: Sequence[np.ndarray]) -> None:
            nonlocal n_rows
            n_rows += len(columns[0])
            file.write(np.stack(columns, axis=1).astype("<f8").tobytes())

        yield write
        file.seek(0, os.SEEK_SET)
        header(file)
        if file.tell() != begin:
            raise OSError(f"The header of {path} has outgrown its place.")


_WRITERS: dict[str, Any] = {".parquet": _parquet_file, ".csv": _csv_file, ".npy": _array_file}
