"""Tables in files as data frames: words, truth values and empty cells stay what they are.

Cells of a CSV are text at first. What a column of them holds is decided when all of its rows are
there, whole numbers before numbers before truth values before dates, or by a model that knows it.
Parquet and Arrow files say it themselves. Memory is bounded: of more rows than asked for a sample
is kept, every row with the same chance; and blocks are read one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kexpfam.choices import nearest
from kexpfam.data.files import FORMATS, FileRows
from kexpfam.data.frame_columns import doubts_about, frame_of_arrow, typed_frame, weights_of
from kexpfam.data.kinds import ColumnKind

__all__ = ["ReadTable", "read_blocks", "read_table"]

# Rows of a table that are in memory at the same time.
MOST_READ = 200_000
_BLOCK_ROWS = 8192
# What stands for a missing value in a CSV, beside nothing at all.
_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"]


class ReadTable(NamedTuple):
    """A table of files.

    | name    | meaning                                                              |
    |---------|----------------------------------------------------------------------|
    | frame   | a data frame, or an array where files have no names                  |
    | weights | (n,), if a column of them was named                                  |
    | n_rows  | how many rows the files have                                         |
    | doubts  | sentences on columns that may not be what they were taken for        |
    """

    frame: Any
    weights: np.ndarray | None
    n_rows: int
    doubts: tuple[str, ...] = ()


def read_table(
    files: Sequence[Path],
    columns: Sequence[str] | None = None,
    weights: str | None = None,
    *,
    most_rows: int = MOST_READ,
    seed: int = 0,
    kinds: Mapping[str, ColumnKind] | None = None,
) -> ReadTable:
    """All rows of files, or a random sample of `most_rows` of them.

    Columns are of the types that a model has (`kinds`), or of those that all of their cells are.
    """
    if _are_arrays(files):
        rows, n_rows = _sampled(_array_blocks(files), most_rows, seed, np.concatenate)
        return ReadTable(rows, None, n_rows)
    _require_pandas()
    import pyarrow

    names = FileRows(tuple(files), None if columns is None else tuple(columns), weights).names
    wanted = [*(names or ()), *([weights] if weights is not None else [])]
    blocks = (block for file in files for block in _arrow_blocks(file, wanted))

    def joined(parts: list[Any]) -> Any:
        return pyarrow.concat_tables(parts, promote_options="permissive")

    table, n_rows = _sampled(blocks, most_rows, seed, joined)
    if n_rows == 0:
        raise ValueError(f"{files[0]} has a line of names but no rows.")
    doubts: tuple[str, ...] = ()
    if kinds is None:
        frame, doubts = frame_of_arrow(table), doubts_about(table)
    else:
        frame = typed_frame(table, kinds, wanted, str(files[0]), 0)
    if weights is None:
        return ReadTable(frame, None, n_rows, doubts)
    return ReadTable(frame, weights_of(frame.pop(weights), files[0]), n_rows, doubts)


def read_blocks(
    files: Sequence[Path],
    kinds: Mapping[str, ColumnKind],
    *,
    others: bool = False,
    partly: bool = False,
) -> Iterator[Any]:
    """Blocks of rows as data frames (arrays, of files without names), typed as a model has them.

    With `others` the files' other columns come along; with `partly` columns of the model that a
    file does not have are empty.
    """
    if _are_arrays(files):
        yield from _array_blocks(files)
        return
    _require_pandas()
    for file in files:
        there = FileRows((file,)).names or []
        gone = [name for name in kinds if name not in there]
        if gone and (not partly or len(gone) == len(kinds)):
            raise _no_such_column(file, gone[0], there)
        wanted = there if others else [name for name in kinds if name in there]
        first = 0
        for block in _arrow_blocks(file, wanted):
            yield typed_frame(block, kinds, [*wanted, *gone], str(file), first)
            first += block.num_rows
        if first == 0:
            raise ValueError(f"{file} has a line of names but no rows.")


def _require_pandas() -> None:
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Tables with words and empty cells need pandas. Try: pip install 'kexpfam[files]'."
        ) from error


# -- blocks -------------------------------------------------------------------------------------


def _are_arrays(files: Sequence[Path]) -> bool:
    return all(FORMATS.get(Path(file).suffix.lower()) == "npy" for file in files)


def _array_blocks(files: Sequence[Path]) -> Iterator[np.ndarray]:
    for file in files:
        # Opened the usual way first, for its complaints.
        FileRows((file,)).n_rows  # noqa: B018
        rows = np.load(file, mmap_mode="r", allow_pickle=False)
        for start in range(0, len(rows), _BLOCK_ROWS):
            yield np.array(rows[start : start + _BLOCK_ROWS], float)


def _arrow_blocks(file: Path, names: Sequence[str]) -> Iterator[Any]:
    import pyarrow
    from pyarrow import csv, dataset

    kind: Any = FORMATS[Path(file).suffix.lower()]
    try:
        if kind == "csv":
            convert = csv.ConvertOptions(strings_can_be_null=True, null_values=_MISSING)
            kind = dataset.CsvFileFormat(convert_options=convert)
            every = dataset.dataset(file, format=kind).schema.names
            schema = pyarrow.schema([(name, pyarrow.string()) for name in every])
            opened = dataset.dataset(file, format=kind, schema=schema)
        else:
            opened = dataset.dataset(file, format=kind)
        missing = [name for name in names if name not in opened.schema.names]
        if missing:
            raise _no_such_column(file, missing[0], opened.schema.names)
        for batch in opened.to_batches(columns=list(names), batch_size=_BLOCK_ROWS):
            if batch.num_rows:
                yield pyarrow.Table.from_batches([batch])
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def _no_such_column(file: Path, name: str, there: Sequence[str]) -> ValueError:
    more = "…" if len(there) > 10 else ""
    return ValueError(
        f"{file} has no column {name!r}. Its columns are {', '.join(there[:10])}{more}."
        f"{nearest(name, there)}"
    )


def _sampled(
    blocks: Iterator[Any], most: int, seed: int, joined: Callable[[list[Any]], Any]
) -> tuple[Any, int]:
    """Rows in their order, and how many there were."""
    generator = np.random.default_rng(seed)
    parts: list[Any] = []
    keys: list[np.ndarray] = []
    n_rows, highest = 0, 1.0
    for block in blocks:
        drawn = generator.random(len(block))
        n_rows += len(block)
        kept = np.flatnonzero(drawn < highest)
        parts.append(_taken(block, kept))
        keys.append(drawn[kept])
        if sum(map(len, keys)) > 2 * most:
            highest, parts, keys = _thinned(parts, keys, most, joined)
    if sum(map(len, keys)) > most:
        _, parts, keys = _thinned(parts, keys, most, joined)
    return (joined(parts) if parts else None), n_rows


def _thinned(
    parts: list[Any],
    keys: list[np.ndarray],
    most: int,
    joined: Callable[[list[Any]], Any],
) -> tuple[float, list[Any], list[np.ndarray]]:
    """The rows with the smallest numbers, and where these end."""
    whole, numbers = joined(parts), np.concatenate(keys)
    highest = float(np.partition(numbers, most)[most])
    kept = np.flatnonzero(numbers < highest)
    return highest, [_taken(whole, kept)], [numbers[kept]]


def _taken(block: Any, places: np.ndarray) -> Any:
    return block[places] if isinstance(block, np.ndarray) else block.take(places)
