"""Tables in files as data frames, with words, truth values and empty cells.

Cells of a CSV are text at first. The type of a column is decided when all rows are read (whole
numbers before numbers before truth values before dates), or by a model that has the column. Parquet
and Arrow files contain the types. Memory is bounded: if there are more rows than requested, a
random sample is kept, and blocks are read one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kexpfam.data.columns import require_columns
from kexpfam.data.dialects import Dialect
from kexpfam.data.file_kinds import kind_of
from kexpfam.data.files import FileRows
from kexpfam.data.frame_columns import doubts_about, frame_of_arrow, typed_frame, weights_of
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.opened_files import ArrayFile, open_file

__all__ = ["ReadTable", "read_blocks", "read_table"]

# Rows of a table that are in memory at the same time.
MOST_READ = 200_000
_BLOCK_ROWS = 8192


class ReadTable(NamedTuple):
    """A table of files.

    | name    | meaning                                                              |
    |---------|----------------------------------------------------------------------|
    | frame   | a data frame, or an array where files have no names                  |
    | weights | (n,), if a column of them was named                                  |
    | n_rows  | how many rows the files have                                         |
    | doubts  | sentences on columns that may not be what they were taken for        |
    | places  | (n,), where the rows stand in the files, from 0                      |
    """

    frame: Any
    weights: np.ndarray | None
    n_rows: int
    doubts: tuple[str, ...] = ()
    places: np.ndarray | None = None


def read_table(
    files: Sequence[Path],
    columns: Sequence[str] | None = None,
    weights: str | None = None,
    *,
    most_rows: int = MOST_READ,
    seed: int = 0,
    kinds: Mapping[str, ColumnKind] | None = None,
    dialect: Dialect | None = None,
) -> ReadTable:
    """All rows of files, or a random sample of `most_rows` of them.

    Columns are of the types that a model has (`kinds`), or of those that all of their cells are;
    `dialect` says how text is written, where that is not to be recognized.
    """
    if _are_arrays(files):
        rows, n_rows, places = _sampled(_array_blocks(files), most_rows, seed, np.concatenate)
        return ReadTable(rows, None, n_rows, (), places)
    _require_pandas()
    import pyarrow

    chosen = None if columns is None else tuple(columns)
    source = FileRows(tuple(files), chosen, weights, dialect=dialect or Dialect())
    wanted = [*(source.names or ()), *([weights] if weights is not None else [])]
    blocks = (block for file in files for block in _arrow_blocks(file, wanted, dialect))

    def joined(parts: list[Any]) -> Any:
        return pyarrow.concat_tables(parts, promote_options="permissive")

    table, n_rows, places = _sampled(blocks, most_rows, seed, joined)
    if n_rows == 0:
        raise ValueError(f"{files[0]} has a line of names but no rows.")
    doubts = source.doubts
    if kinds is None:
        frame, doubts = frame_of_arrow(table), (*doubts, *doubts_about(table))
    else:
        frame = typed_frame(table, kinds, wanted, str(files[0]), 0)
    if weights is None:
        return ReadTable(frame, None, n_rows, doubts, places)
    return ReadTable(frame, weights_of(frame.pop(weights), files[0]), n_rows, doubts, places)


def read_blocks(
    files: Sequence[Path],
    kinds: Mapping[str, ColumnKind],
    *,
    others: bool = False,
    partly: bool = False,
    dialect: Dialect | None = None,
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
        there = open_file(file, dialect).names or []
        known = set(there)
        gone = [name for name in kinds if name not in known]
        if not partly or len(gone) == len(kinds):
            require_columns(str(file), gone, there)
        wanted = there if others else [name for name in kinds if name in known]
        first = 0
        for block in _arrow_blocks(file, wanted, dialect):
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
    return all(kind_of(file) == "npy" for file in files)


def _array_blocks(files: Sequence[Path]) -> Iterator[np.ndarray]:
    for file in files:
        opened = open_file(file)
        assert isinstance(opened, ArrayFile)
        yield from opened.arrays(_BLOCK_ROWS)


def _arrow_blocks(file: Path, names: Sequence[str], dialect: Dialect | None) -> Iterator[Any]:
    import pyarrow

    opened = open_file(file, dialect)
    if isinstance(opened, ArrayFile):
        raise ValueError(
            f"{file} is a plain array without names, but others have named columns. Give files of "
            "one kind."
        )
    require_columns(str(file), names, opened.names)
    for batch in opened.batches(names, _BLOCK_ROWS):
        if batch.num_rows:
            yield pyarrow.Table.from_batches([batch])


def _sampled(
    blocks: Iterator[Any], most: int, seed: int, joined: Callable[[list[Any]], Any]
) -> tuple[Any, int, np.ndarray]:
    """Rows in their order, how many there were, and where they stood."""
    generator = np.random.default_rng(seed)
    parts: list[Any] = []
    # The random number of each row, and where it stands.
    keys: list[np.ndarray] = []
    n_rows, highest = 0, 1.0
    for block in blocks:
        drawn = generator.random(len(block))
        kept = np.flatnonzero(drawn < highest)
        parts.append(_taken(block, kept))
        keys.append(np.stack([drawn[kept], n_rows + kept]))
        n_rows += len(block)
        if _count(keys) > 2 * most:
            highest, parts, keys = _thinned(parts, keys, most, joined)
    if _count(keys) > most:
        _, parts, keys = _thinned(parts, keys, most, joined)
    if not parts:
        return None, n_rows, np.empty(0, np.int64)
    return joined(parts), n_rows, np.concatenate(keys, axis=1)[1].astype(np.int64)


def _count(keys: list[np.ndarray]) -> int:
    return sum(one.shape[1] for one in keys)


def _thinned(
    parts: list[Any],
    keys: list[np.ndarray],
    most: int,
    joined: Callable[[list[Any]], Any],
) -> tuple[float, list[Any], list[np.ndarray]]:
    """The rows with the smallest numbers, and where these end."""
    whole, numbers = joined(parts), np.concatenate(keys, axis=1)
    highest = float(np.partition(numbers[0], most)[most])
    kept = np.flatnonzero(numbers[0] < highest)
    return highest, [_taken(whole, kept)], [numbers[:, kept]]


def _taken(block: Any, places: np.ndarray) -> Any:
    return block[places] if isinstance(block, np.ndarray) else block.take(places)
