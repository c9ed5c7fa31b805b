"""One file, opened: its columns' names, how many rows it has if that is known, and its batches.

| class       | files                        | how it is read                                     |
|-------------|------------------------------|----------------------------------------------------|
| `ArrayFile` | .npy                         | by a memory map                                    |
| `TypedFile` | Parquet, Arrow, datasets     | by pyarrow, with the types that the file says      |
| `TextFile`  | text, JSON, Excel            | by pyarrow, or by Python where pyarrow cannot;     |
|             |                              | as numbers, or as text that is understood later    |

Every complaint names the file, and the row and column in it, where something cannot be used.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam.data.columns import dropping
from kexpfam.data.dialects import Dialect
from kexpfam.data.file_kinds import BROKEN, decompressed, known_file
from kexpfam.data.first_rows import FirstRows, first_rows
from kexpfam.data.troubles import number_trouble
from kexpfam.data.words import MISSING

__all__ = ["ArrayFile", "TextFile", "TypedFile", "open_file"]

# What pandas calls an index in a Parquet file.
_SAVED_INDEX = re.compile(r"__index_level_\d+__")
# A number with a decimal comma, in a column of text.
_COMMA_NUMBER = r"^(\s*[-+]?\d*),(\d+([eE][-+]?\d+)?\s*)$"
# Rows of numbers that are read at once, and bytes of a column that are: what is decoded and not yet
# used is memory too.
_FEW_ROWS, _FEW_BYTES = 8192, 1 << 16
# How many rows are looked at for other columns that are not numbers, once one was found.
_LOOKED_AT = 20_000


def open_file(source: Any, dialect: Dialect | None = None) -> ArrayFile | TypedFile | TextFile:
    """A file, or a pyarrow dataset."""
    if not isinstance(source, (str, Path)):
        return TypedFile(source, "the dataset")
    path = Path(source)
    kind = known_file(path)
    if kind == "npy":
        return ArrayFile(path)
    if kind in ("parquet", "ipc"):
        return TypedFile.from_path(path, kind)
    found = first_rows(path, dialect)
    assert found is not None
    return TextFile(found)


def _require_pyarrow(label: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Reading {label} needs pyarrow. Try: pip install 'kexpfam[files]'."
        ) from error


class ArrayFile:
    """A .npy file, mapped into memory."""

    names = None
    doubts: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        try:
            self._array = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:
            # NumPy parses the header as Python, and what that raises for damaged ones is anything.
            raise ValueError(f"{path} cannot be read as a .npy array: {error}") from error
        if self._array.ndim != 2 or self._array.dtype.kind not in "fiu":
            raise ValueError(
                f"{path} holds an array of shape {self._array.shape} and type {self._array.dtype}. "
                "Expected two dimensions and numbers."
            )
        self.n_rows, self.width = self._array.shape

    def arrays(self, size: int) -> Iterator[np.ndarray]:
        """Pieces of this many rows."""
        for start in range(0, self.n_rows, size):
            yield np.array(self._array[start : start + size], float)
            # A fresh map for every piece: pages of the old one would count as memory.
            self._array = np.load(self.label, mmap_mode="r", allow_pickle=False)


class TypedFile:
    """A table with named columns that says of what type they are."""

    def __init__(self, dataset: Any, label: str, kind: str | None = None) -> None:
        # The kind is that of a single file.
        self._dataset, self.label, self._kind = dataset, label, kind
        every = list(dataset.schema.names)
        self.names: list[str] = [name for name in every if not _SAVED_INDEX.fullmatch(name)]
        self.width = len(self.names)
        self.doubts: tuple[str, ...] = ()
        if len(self.names) < len(every):
            self.doubts = (
                f"The index that pandas saved in {Path(label).name} was left out. Reset the index "
                "before saving if it is part of the table.",
            )

    @classmethod
    def from_path(cls, path: Path, kind: str) -> TypedFile:
        """A Parquet or Arrow file."""
        _require_pyarrow(str(path))
        from pyarrow import dataset

        try:
            found = dataset.dataset(path, format=kind)
            return cls(found, str(path), kind if path.is_file() else None)
        except (OSError, ValueError, MemoryError) as error:
            raise ValueError(f"{path} cannot be read as {kind}: {_reason(error)}") from error

    @property
    def n_rows(self) -> int | None:
        """Known without reading the rows, except of text."""
        kind = getattr(getattr(self._dataset, "format", None), "default_extname", "")
        if kind == "csv":
            return None
        try:
            return int(self._dataset.count_rows())
        except (OSError, MemoryError) as error:
            raise ValueError(f"{self.label} cannot be read: {_reason(error)}") from error

    def batches(self, names: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of columns, with the file's types."""
        try:
            if self._kind == "parquet":
                yield from _of_parquet(self.label, names, size)
            elif self._kind == "ipc":
                yield from _of_arrow(self.label, names, size)
            else:
                yield from self._dataset.to_batches(
                    columns=list(names), batch_size=size, batch_readahead=2, fragment_readahead=1
                )
        except (OSError, ValueError, TypeError, MemoryError) as error:
            raise ValueError(f"{self.label} cannot be read to its end: {_reason(error)}") from error

    def number_batches(self, names: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of columns of numbers."""
        self.refuse_others(names)
        return self.batches(names, min(size, _FEW_ROWS))

    def complaint(self, names: Sequence[str]) -> None:
        """Nothing more is known of a row that cannot be used."""

    def refuse_others(self, names: Sequence[str]) -> None:
        """Raise if columns are not of numbers."""
        from pyarrow import types

        bad: dict[str, str] = {}
        for name in names:
            kind = self._dataset.schema.field(name).type
            if types.is_null(kind):
                bad[name] = f"column {name!r} holds no values at all"
            elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                bad[name] = f"column {name!r} is of type {kind}, not of numbers"
        if bad:
            raise ValueError(
                f"{self.label}: {', '.join(bad.values())}. Leave such columns out: "
                f"{dropping(range(len(bad)), list(bad))}. Or convert them."
            )


class TextFile:
    """A table in a file whose cells are text at first."""

    n_rows = None

    def __init__(self, found: FirstRows) -> None:
        self._found, self.label, self.doubts = found, str(found.path), found.doubts
        self.names: list[str] = found.layout.taken
        self.width = len(self.names)
        _require_pyarrow(self.label)

    def batches(self, names: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of columns of text, with points before decimals."""
        import pyarrow
        from pyarrow import compute

        for batch in self._read(dict.fromkeys(names, pyarrow.string())):
            if self._found.decimal != ".":
                columns = [
                    compute.replace_substring_regex(column, _COMMA_NUMBER, r"\1.\2")
                    for column in batch.columns
                ]
                batch = pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)

    def number_batches(self, names: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of columns of numbers."""
        import pyarrow

        trouble = number_trouble(self._found, names)
        if trouble is not None:
            raise ValueError(trouble)
        kinds = {name: self._found.seen[name].kind for name in names}
        yield from self._read(
            {
                name: pyarrow.bool_() if kind == "truth values" else pyarrow.float64()
                for name, kind in kinds.items()
            }
        )

    def complaint(self, names: Sequence[str]) -> None:
        """Raise an error that names the first cells that are not numbers, if there are any."""
        rows = self._found.all_rows()
        first = 0
        while block := list(itertools.islice(rows, _LOOKED_AT)):
            trouble = number_trouble(replace(self._found, rows=block), names, first)
            if trouble is not None:
                raise ValueError(trouble)
            first += len(block)

    def _read(self, types: dict[str, Any]) -> Iterator[Any]:
        import pyarrow

        by_python = self._found.kind != "text" or self._found.dialect.separator == " "
        try:
            yield from (
                _by_python(self._found, types) if by_python else _by_arrow(self._found, types)
            )
        except (*BROKEN, pyarrow.ArrowInvalid) as error:
            # Python reads it again, more slowly, to say where and what.
            if any(kind != pyarrow.string() for kind in types.values()):
                self.complaint(list(types))
            for _ in self._found.all_rows():
                pass
            raise ValueError(f"{self.label} cannot be read: {error}") from error


def _reason(error: Exception) -> str:
    """A damaged file may say of itself that it is larger than any memory."""
    if isinstance(error, MemoryError):
        return f"it is damaged, or there is too little memory for it ({error})"
    return str(error)


def _of_parquet(path: str, names: Sequence[str], size: int) -> Iterator[Any]:
    """Batch by batch: a dataset reads far ahead of who uses its rows, up to the whole file."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, buffer_size=_FEW_BYTES, pre_buffer=False) as file:
        for batch in file.iter_batches(size, columns=list(names)):
            yield batch.select(list(names))


def _of_arrow(path: str, names: Sequence[str], size: int) -> Iterator[Any]:
    """The same of an Arrow file, which is in batches already."""
    import pyarrow

    with pyarrow.OSFile(path) as source, pyarrow.ipc.open_file(source) as file:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number).select(list(names))
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)


def _by_arrow(found: FirstRows, types: dict[str, Any]) -> Iterator[Any]:
    from pyarrow import csv

    encoding = found.dialect.encoding or "utf-8"
    read = csv.ReadOptions(
        column_names=list(found.layout.names),
        skip_rows=found.n_skipped,
        skip_rows_after_names=int(found.layout.header),
        encoding="utf8" if encoding == "utf-8" else encoding,
    )
    parse = csv.ParseOptions(delimiter=found.dialect.separator, newlines_in_values=found.quoted)
    convert = csv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        strings_can_be_null=True,
        null_values=list(MISSING),
        decimal_point=found.decimal,
    )
    with (
        decompressed(found.path) as file,
        csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as rows,
    ):
        yield from rows


def _by_python(found: FirstRows, types: dict[str, Any]) -> Iterator[Any]:
    import pyarrow

    known = {name: place for place, name in enumerate(found.layout.taken)}
    places = [known[name] for name in types]
    rows = found.all_rows()
    missing = set(MISSING)
    while block := list(itertools.islice(rows, _LOOKED_AT)):
        columns = []
        for place, kind in zip(places, types.values(), strict=True):
            cells = [None if row[place] in missing else row[place] for row in block]
            if kind == pyarrow.float64() and found.decimal != ".":
                cells = [cell and cell.replace(found.decimal, ".") for cell in cells]
            columns.append(pyarrow.array(cells, pyarrow.string()).cast(kind))
        yield pyarrow.RecordBatch.from_arrays(columns, names=list(types))
