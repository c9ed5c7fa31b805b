"""Tables as they are, with words and empty cells: read, fitted, read for a model, and written."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import typer

from kexpfam.cli.inputs import Data
from kexpfam.cli.models import column_names
from kexpfam.cli.terminal import Terminal
from kexpfam.data.frames import read_blocks
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import ColumnSummary, summarized

__all__ = ["columns_of", "fit_table", "in_options", "kinds_by_name", "kinds_from", "table_blocks"]


def fit_table(model: Any, data: Data, terminal: Terminal) -> tuple[list[ColumnSummary], list[str]]:
    """Fit to a table as it is: what its columns are, and from which rows that is if not all."""
    read = data.table(model.random_state)
    for doubt in read.doubts:
        terminal.warn(doubt)
    with in_options():
        if len(read.frame) < read.n_rows:
            model.fit(data.for_fit(), sample_weight=data.weights)
        else:
            model.fit(read.frame, sample_weight=read.weights)
    names, kinds = column_names(model), list(model.column_kinds_.values())
    numbers = model.as_numbers(read.frame)
    return summarized(names, kinds, numbers), _rows_read(len(numbers), read.n_rows)


def _rows_read(n_read: int, n_rows: int) -> list[str]:
    """A note where columns are described by a part of the rows."""
    if n_read == n_rows:
        return []
    return [
        f"The model was fitted to {n_rows} rows. Ranges and shares of missing values are those of "
        f"{n_read} of them, chosen at random."
    ]


@contextlib.contextmanager
def in_options() -> Iterator[None]:
    """What the library says of `columns`, in terms of --kind and --exclude."""
    try:
        yield
    except ValueError as error:
        text = re.sub(r"columns\['?(.*?)'?\] (is|must)", r"--kind \1=… \2", str(error))
        text = text.replace("columns={name: 'category'}", "--kind NAME=category")
        text = text.replace("columns names ", "--kind names ").replace(" of X.", " of the table.")
        text = text.replace("Leave it out", "Leave it out with --exclude")
        text = text.replace("or leave it out", "or leave it out with --exclude")
        raise ValueError(text) from error


def kinds_from(given: Sequence[str]) -> dict[str, Any] | None:
    """Kinds of columns from NAME=KIND, or NAME=KIND,VALUE,… with bounds, atoms or levels."""
    kinds: dict[str, Any] = {}
    for one in given:
        name, sign, text = one.partition("=")
        kind, *values = (part.strip() for part in text.split(","))
        if not (sign and name and kind):
            raise typer.BadParameter(
                f"--kind must be NAME=KIND, such as age=count or share=bounded,0,1; got {one!r}."
            )
        kinds[name] = (kind, *map(_value, values)) if values else kind
    return kinds or None


def _value(text: str) -> Any:
    """A number, nothing for an open end, or a word."""
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


# -- with a model -------------------------------------------------------------------------------


def kinds_by_name(model: Any, data: Data) -> dict[str, ColumnKind]:
    """Kinds of the model's columns, by the names that they have in the data."""
    kinds = list(model.column_kinds_.values())
    names = column_names(model)
    if not hasattr(model, "feature_names_in_"):
        names = data.names or names
    if len(names) != len(kinds):
        raise ValueError(f"The model has {len(kinds)} columns, and the data {len(names)}.")
    return dict(zip(names, kinds, strict=True))


def table_blocks(
    model: Any, data: Data, *, others: bool = False, partly: bool = False
) -> Iterator[tuple[Any, Any]]:
    """Blocks of rows as the model takes them, and as they came with all of their columns."""
    kinds = kinds_by_name(model, data)
    named = hasattr(model, "feature_names_in_")
    for block in read_blocks(data.files, kinds, others=others, partly=partly, dialect=data.dialect):
        if isinstance(block, np.ndarray):
            yield block, block
        elif named:
            yield block[list(kinds)], block
        else:
            yield block[list(kinds)].to_numpy(object), block


def columns_of(rows: Any) -> list[np.ndarray]:
    """The columns of an array or a data frame, None where nothing is in a column of words.

    Categories of a frame stay what they are, with all of their levels: Parquet can hold them.
    """
    if isinstance(rows, np.ndarray):
        return list(rows.T)
    return [
        rows[name].array if str(rows[name].dtype) == "category" else _plain(rows[name].to_numpy())
        for name in rows.columns
    ]


def _plain(column: np.ndarray) -> np.ndarray:
    if column.dtype != object:
        return column
    plain = column.copy()
    for place, value in enumerate(column):
        if value is None or type(value).__name__ == "NAType" or value != value:
            plain[place] = None
    return plain
