"""Columns of a table as they are given: numbers, truth values, words, with missing values.

pandas and polars frames and NumPy arrays (of numbers, or of objects) are read column by column.
Columns of dates and free text are refused by name.

| name    | shape | meaning                                                        |
|---------|-------|----------------------------------------------------------------|
| values  | (n,)  | numbers (float), or words and other things (object)            |
| missing | (n,)  | whether nothing stands there: NaN, None, NaT, pandas.NA        |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool

from kexpfam.data.columns import called, of_every_column

__all__ = ["Cells", "cell_reader", "library_of", "read_cells", "rows_at"]

Family = Literal["number", "boolean", "word", "ordered"]
_REMEDIES = {
    "dates or times": "Turn it into numbers, such as days since the first date, or leave it out",
    "durations": "Turn it into numbers, such as seconds, or leave it out",
}


class Cells(NamedTuple):
    """One column. `levels` are the categories that its dtype names, in their order."""

    values: np.ndarray
    missing: Bool[np.ndarray, " n"]
    family: Family
    levels: tuple[Any, ...] | None
    dtype: str


def library_of(X: Any) -> Literal["numpy", "pandas", "polars"]:
    """Where a table comes from."""
    found = type(X).__module__.split(".")[0]
    return found if found in ("pandas", "polars") else "numpy"  # type: ignore[return-value]


def rows_at(X: Any, places: Any) -> Any:
    """Some rows of a frame or of an array."""
    return X.iloc[places] if library_of(X) == "pandas" else X[places]


def read_cells(X: Any, names: Sequence[str] | None) -> list[Cells]:
    """The columns of a frame or of a two-dimensional array."""
    return of_every_column(*cell_reader(X, names), names)


def cell_reader(X: Any, names: Sequence[str] | None) -> tuple[Callable[[int], Cells], int]:
    """A function that reads the column at a place, and how many columns there are."""
    read: Callable[[Any, str], Cells]
    if library_of(X) == "pandas":
        columns, read = [X.iloc[:, place] for place in range(X.shape[1])], _from_pandas
    elif library_of(X) == "polars":
        columns, read = [X[:, place] for place in range(X.shape[1])], _from_polars
    else:
        columns, read = list(np.asarray(X).T), _from_array
    return lambda place: read(columns[place], called(place, names)), len(columns)


def _from_pandas(column: Any, name: str) -> Cells:
    kind, dtype = column.dtype, str(column.dtype)
    missing = np.asarray(column.isna())
    if dtype == "category":
        levels = tuple(_plain(level, name) for level in kind.categories)
        family: Family = "ordered" if kind.ordered else "word"
        return Cells(_objects(column, missing), missing, family, levels, dtype)
    letter = getattr(kind, "kind", "O")
    if letter in "mM":
        _refuse(name, "dates or times" if letter == "M" else "durations", dtype)
    if letter == "b":
        return Cells(_objects(column, missing), missing, "boolean", None, dtype)
    if letter in "iuf":
        return Cells(_numbers(column.to_numpy(float, na_value=np.nan), name), missing, "number",
                     None, dtype)  # fmt: skip
    return _from_objects(column.to_numpy(object), name, dtype)


def _from_polars(column: Any, name: str) -> Cells:
    kind, dtype = column.dtype, str(column.dtype)
    if kind.is_temporal():
        _refuse(name, "durations" if dtype.startswith("Duration") else "dates or times", dtype)
    missing = column.is_null().to_numpy()
    if kind.is_numeric():
        numbers = column.cast(float).to_numpy()
        return Cells(_numbers(numbers, name), missing | np.isnan(numbers), "number", None, dtype)
    if dtype.startswith("Enum"):
        levels = tuple(kind.categories.to_list())
        return Cells(_objects(column.to_list(), missing), missing, "ordered", levels, dtype)
    return _from_objects(np.array(column.to_list(), object), name, dtype)


def _from_array(column: np.ndarray, name: str) -> Cells:
    dtype = str(column.dtype)
    if column.dtype.kind in "mM":
        _refuse(name, "dates or times" if column.dtype.kind == "M" else "durations", dtype)
    if column.dtype.kind == "b":
        missing = np.zeros(len(column), bool)
        return Cells(column.astype(object), missing, "boolean", None, dtype)
    if column.dtype.kind in "iuf":
        numbers = column.astype(float)
        return Cells(_numbers(numbers, name), np.isnan(numbers), "number", None, dtype)
    return _from_objects(column.astype(object), name, dtype)


def _from_objects(column: np.ndarray, name: str, dtype: str) -> Cells:
    """Numbers, truth values or words, whichever all of the values are."""
    missing = np.array([_is_missing(value) for value in column], bool)
    present = column[~missing]
    if all(isinstance(value, (bool, np.bool_)) for value in present):
        return Cells(_objects(column, missing), missing, "boolean", None, dtype)
    if all(_is_number(value) for value in present):
        numbers = np.full(len(column), np.nan)
        numbers[~missing] = present.astype(float)
        return Cells(_numbers(numbers, name), missing, "number", None, dtype)
    values = np.full(len(column), None, object)
    for place in np.flatnonzero(~missing):
        values[place] = _plain(column[place], name)
    return Cells(values, missing, "word", None, dtype)


def _objects(column: Any, missing: Bool[np.ndarray, " n"]) -> np.ndarray:
    values = np.full(len(missing), None, object)
    for place, value in enumerate(column):
        if not missing[place]:
            values[place] = value.item() if isinstance(value, np.generic) else value
    return values


def _numbers(numbers: np.ndarray, name: str) -> np.ndarray:
    infinite = np.isinf(numbers)
    if infinite.any():
        raise ValueError(
            f"{name[:1].upper() + name[1:]} must hold finite numbers, or NaN where a value is "
            f"missing; got infinity {int(infinite.sum())} times. Put NaN in its place, or "
            "drop the rows."
        )
    return numbers


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))


def _plain(value: Any, name: str) -> Any:
    """A category that a file can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, bool, int, float)):
        return value
    what = type(value).__name__
    if any(hint in what.lower() for hint in ("date", "time", "period")):
        _refuse(name, "dates or times", what)
    raise TypeError(
        f"{name[:1].upper() + name[1:]} must hold numbers or categories; argument must be a string "
        f"or a number, got a value of type {what}. Turn it into text or numbers, or leave it out."
    )


def _refuse(name: str, what: str, dtype: str) -> None:
    raise ValueError(
        f"{name[:1].upper() + name[1:]} holds {what} ({dtype}), which have no kind of their own "
        f"here. {_REMEDIES[what]}."
    )
