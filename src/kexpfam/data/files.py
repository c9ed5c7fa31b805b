"""Rows in files: Parquet, CSV and Arrow by pyarrow, .npy by a memory map.

Files are read batch by batch and cut anew into chunks of one size, so memory is bounded by the
chunk and what is summed does not depend on the files' own row groups. Every complaint names the
file, and the row and column in it, where it met something it cannot use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import nearest
from kexpfam.data.rows import CHUNK_ROWS, Chunk, LocalRows, make_chunk
from kexpfam.progress import Progress

__all__ = ["FORMATS", "FileRows", "rechunked", "refuse_unusable"]

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".npy": "npy",
}


@dataclass(frozen=True)
class FileRows(LocalRows):
    """The rows of one or several files, or of a pyarrow dataset, one after the other.

    `columns` are the names to take (all but the weights, if None), `weight_column` that of the
    rows' weights.
    """

    files: tuple[Any, ...]
    columns: tuple[str, ...] | None = None
    weight_column: str | None = None
    progress: Progress = field(default_factory=Progress)
    chunk_rows: int = CHUNK_ROWS

    @cached_property
    def names(self) -> list[str] | None:
        """The columns' names; None where files have none."""
        first = _opened(self.files[0])
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
        counts = [_opened(one).n_rows for one in self.files]
        return None if any(count is None for count in counts) else sum(counts)  # type: ignore[arg-type]

    @cached_property
    def n_columns(self) -> int:
        return len(self.names) if self.names is not None else _opened(self.files[0]).width

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        pieces = rechunked(self._pieces(), self.chunk_rows)
        for number, (rows, weights) in enumerate(pieces):
            if number >= start:
                yield make_chunk(rows, weights)

    def _pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for one in self.files:
            opened, first = _opened(one), 0
            for rows, weights in opened.read(self.names, self.weight_column, self.chunk_rows):
                if rows.shape[1] != self.n_columns:
                    raise ValueError(
                        f"{opened.label} has {rows.shape[1]} columns, but {self.n_columns} were "
                        "expected, as in the first file."
                    )
                refuse_unusable(rows, weights, opened.label, first, self.names)
                first += len(rows)
                yield rows, weights
            if first == 0:
                raise ValueError(f"{opened.label} has no rows. Leave it out, or write it again.")


def refuse_unusable(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    label: str,
    first: int,
    names: Sequence[str] | None,
) -> None:
    """Raise if a row holds what is no number, or a weight is none; rows count from `first`."""
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
    bad_weights = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad_weights):
        row = bad_weights[0]
        raise ValueError(
            f"{label}: row {first + row + 1} has the weight {weights[row]}. Expected weights that "
            "are finite and not negative."
        )


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


# -- one file -----------------------------------------------------------------------------------


def _opened(source: Any) -> _Array | _Table:
    if not isinstance(source, (str, Path)):
        return _Table(source, "the dataset")
    path = Path(source)
    kind = FORMATS.get(path.suffix.lower())
    if not path.exists():
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise FileNotFoundError(f"{path} does not exist{where}.{_nearest_file(path)}")
    if kind is None and path.is_dir():
        raise ValueError(
            f"{path} is a folder. Give its files, for instance "
            f"sorted(pathlib.Path({str(path)!r}).glob('*.parquet'))."
        )
    if kind is None:
        raise ValueError(
            f"{path} is of no kind that can be read. Expected a name ending in one of "
            f"{', '.join(FORMATS)}. Convert it first, or give fit a data frame."
        )
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty. Leave it out, or write it again.")
    return _Array(path) if kind == "npy" else _Table.from_path(path, kind)


def _nearest_file(path: Path) -> str:
    """A question whether another file of the folder was meant."""
    if any(mark in path.name for mark in "*?["):
        return f" Patterns are not followed here: give sorted(glob.glob({str(path)!r}))."
    try:
        return nearest(path.name, [one.name for one in path.parent.iterdir()])
    except OSError:
        return ""


class _Array:
    """A .npy file, mapped into memory."""

    names = None

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

    def read(
        self, names: Sequence[str] | None, weight: str | None, size: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if names is not None:
            raise ValueError(
                f"{self.label} is a plain array without names, but the first file has columns "
                f"{', '.join(names[:5])}. Give files of one kind."
            )
        for start in range(0, self.n_rows, size):
            rows = np.array(self._array[start : start + size], float)
            yield rows, np.ones(len(rows))
            # A fresh map for every piece: pages of the old one would count as memory.
            self._array = np.load(self.label, mmap_mode="r", allow_pickle=False)


class _Table:
    """A table with named columns, read by pyarrow."""

    def __init__(self, dataset: Any, label: str) -> None:
        self._dataset, self.label = dataset, label
        self.names: list[str] = list(dataset.schema.names)
        self.width = len(self.names)

    @classmethod
    def from_path(cls, path: Path, kind: str) -> _Table:
        try:
            from pyarrow import dataset
        except ImportError as error:
            raise ImportError(
                f"Reading {path} needs pyarrow. Try: pip install 'kexpfam[files]'."
            ) from error
        try:
            opened = dataset.dataset(path, format=kind)
            if kind == "csv":
                # Types are guessed from the beginning: whole numbers there may be followed by
                # others.
                schema = _numbers_as_floats(opened.schema)
                opened = dataset.dataset(path, format=kind, schema=schema)
            return cls(opened, str(path))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read as {kind}: {error}") from error

    @property
    def n_rows(self) -> int | None:
        """Known without reading the rows, except of text."""
        kind = getattr(getattr(self._dataset, "format", None), "default_extname", "")
        if kind == "csv":
            return None
        try:
            return int(self._dataset.count_rows())
        except OSError as error:
            raise ValueError(f"{self.label} cannot be read: {error}") from error

    def read(
        self, names: Sequence[str] | None, weight: str | None, size: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if names is None:
            raise ValueError(
                f"{self.label} has named columns, but the first file is a plain array. Give files "
                "of one kind."
            )
        wanted = [*names, *([weight] if weight is not None else [])]
        missing = [name for name in wanted if name not in self.names]
        if missing:
            raise ValueError(
                f"{self.label} has no column {missing[0]!r}. Its columns are "
                f"{', '.join(self.names[:10])}{'…' if len(self.names) > 10 else ''}."
                f"{nearest(missing[0], self.names)}"
            )
        self._refuse_text(wanted)
        try:
            # Few batches ahead: what is read and not yet used is memory too.
            for batch in self._dataset.to_batches(
                columns=wanted, batch_size=size, batch_readahead=2, fragment_readahead=1
            ):
                if batch.num_rows:
                    columns = [
                        column.to_numpy(zero_copy_only=False).astype(float)
                        for column in batch.columns
                    ]
                    rows = np.stack(columns[: len(names)], axis=1)
                    yield rows, columns[-1] if weight is not None else np.ones(len(rows))
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{self.label} cannot be read to its end: {error}") from error

    def _refuse_text(self, names: Sequence[str]) -> None:
        from pyarrow import types

        for name in names:
            kind = self._dataset.schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                if types.is_null(kind):
                    raise ValueError(
                        f"{self.label}: column {name!r} holds no values at all. Drop or fill it; "
                        "if all columns are empty, write the file again."
                    )
                raise ValueError(
                    f"{self.label}: column {name!r} is of type {kind}, not of numbers. Select the "
                    "columns that are, or convert it."
                )


def _numbers_as_floats(schema: Any) -> Any:
    from pyarrow import float64, types
    from pyarrow import schema as make_schema

    return make_schema(
        (field.name, float64() if types.is_integer(field.type) else field.type) for field in schema
    )
