"""Columns of Arrow tables as those of data frames, by what they hold or by what a model says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam.data.kinds import ColumnKind

__all__ = [
    "TextTypes",
    "doubts_about",
    "frame_of_arrow",
    "frame_of_types",
    "typed_frame",
    "weights_of",
]

# A column of words is doubtful if at least this share of them are numbers.
_MOSTLY, _NUMBER = 0.8, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def frame_of_arrow(table: Any) -> Any:
    """A pandas frame of an Arrow table; columns of text are read."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: _series(_understood(column))
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


class TextTypes:
    """What all cells of columns of text are, found batch by batch: those types remain under which
    every batch so far can be read.
    """

    def __init__(self) -> None:
        self._possible: dict[str, list[Any]] = {}

    def add(self, table: Any) -> None:
        """Look at some more rows, with columns of text."""
        import pyarrow
        from pyarrow import compute

        for name, column in zip(table.column_names, table.columns, strict=True):
            trimmed = compute.utf8_trim_whitespace(column)
            kept = []
            for kind in self._possible.get(name, _text_types()):
                try:
                    trimmed.cast(kind)
                except pyarrow.ArrowInvalid:
                    continue
                kept.append(kind)
            self._possible[name] = kept

    def found(self) -> dict[str, Any]:
        """The first of the types that remain, by column; columns of words are not there."""
        return {name: kinds[0] for name, kinds in self._possible.items() if kinds}


def frame_of_types(table: Any, types: Mapping[str, Any]) -> Any:
    """A pandas frame of an Arrow table, whose columns of text are read as of these types."""
    import pandas as pd
    import pyarrow
    from pyarrow import compute
    from pyarrow import types as kinds

    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in types:
            column = compute.utf8_trim_whitespace(column).cast(types[name])
        elif kinds.is_decimal(column.type):
            column = column.cast(pyarrow.float64())
        columns[name] = _series(column)
    return pd.DataFrame(columns)


def _text_types() -> list[Any]:
    import pyarrow

    return [pyarrow.int64(), pyarrow.float64(), pyarrow.bool_(), pyarrow.timestamp("us")]


def _understood(column: Any) -> Any:
    """A column of text as numbers, truth values or dates, if all of its cells are."""
    import pyarrow
    from pyarrow import compute, types

    if types.is_decimal(column.type):
        return column.cast(pyarrow.float64())
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        return column
    trimmed = compute.utf8_trim_whitespace(column)
    for kind in _text_types():
        try:
            return trimmed.cast(kind)
        except pyarrow.ArrowInvalid:
            continue
    return column


def doubts_about(table: Any) -> tuple[str, ...]:
    """Columns of numbers in which a few cells are words."""
    from pyarrow import compute, types

    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        understood = _understood(column)
        if not types.is_string(understood.type) or column.null_count == len(column):
            continue
        there = column.drop_null()
        is_number = compute.match_substring_regex(there, _NUMBER)
        n_numbers = compute.sum(is_number).as_py()
        if n_numbers >= _MOSTLY * len(there):
            odd = compute.filter(there, compute.invert(is_number))[0].as_py()
            found.append(
                f"Column {name!r} is treated as words, because {len(there) - n_numbers} of "
                f"{len(there)} cells are not numbers, such as {odd!r}. Correct or empty them if it "
                "is a column of numbers."
            )
    return tuple(found)


def _series(column: Any) -> Any:
    """A pandas series that keeps whole numbers and truth values beside missing ones."""
    import pandas as pd
    from pyarrow import types

    if column.null_count and types.is_integer(column.type):
        return column.to_pandas(types_mapper=lambda _: pd.Int64Dtype())
    if column.null_count and types.is_boolean(column.type):
        return column.to_pandas(types_mapper=lambda _: pd.BooleanDtype())
    return column.to_pandas()


def weights_of(column: Any, file: Path | str) -> np.ndarray:
    """A column of weights as an array; NaN where one is missing."""
    try:
        return np.asarray(column.to_numpy(float, na_value=np.nan))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{file}: the weights in column {column.name!r} must be numbers."
        ) from error


def typed_frame(
    table: Any, kinds: Mapping[str, ColumnKind], names: Sequence[str], label: str, first: int
) -> Any:
    """A frame whose columns are of the model's types."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in names:
        if name not in table.column_names:
            columns[name] = pd.Series([None] * table.num_rows, dtype=object)
        elif name in kinds:
            columns[name] = _series(_typed(table[name], kinds[name], name, label, first))
        else:
            columns[name] = table[name].to_pandas()
    return pd.DataFrame(columns)


def _typed(column: Any, kind: ColumnKind, name: str, label: str, first: int) -> Any:
    import pyarrow
    from pyarrow import compute, types

    wanted = {"word": pyarrow.string(), "boolean": pyarrow.bool_(), "number": pyarrow.float64()}
    family = kind.family
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    trimmed = compute.utf8_trim_whitespace(column) if is_text and family != "word" else column
    try:
        return trimmed.cast(wanted[family])
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        for place, cell in enumerate(trimmed):
            try:
                cell.cast(wanted[family])
            except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
                what = "number" if family == "number" else "truth value"
                raise ValueError(
                    f"{label}: row {first + place + 1}, column {name!r} holds "
                    f"{str(cell.as_py())!r}, which is not a {what}, as in fit. Correct it, or "
                    "leave the cell empty."
                ) from error
        raise
