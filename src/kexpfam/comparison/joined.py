"""Two tables as one: columns found by name, each of one kind for both.

What a column is follows from the values of both tables together, so that a level that only one of
them has is a level of both, and a whole number in one and a fraction in the other are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.choices import nearest, shown
from kexpfam.data.cells import Cells, cell_reader, library_of
from kexpfam.data.columns import called, of_every_column, several, shared_columns
from kexpfam.data.found_kinds import kind_from, kind_of
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.tallies import tallied

__all__ = ["JoinedTables", "join_tables"]


class JoinedTables(NamedTuple):
    """The rows of both tables as numbers (see `kexpfam.data.mixed`), the first table's first."""

    codes: Float[np.ndarray, "N d"]
    is_second: Bool[np.ndarray, " N"]
    kinds: tuple[ColumnKind, ...]
    names: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of the first and of the second table."""
        n_second = int(self.is_second.sum())
        return len(self.is_second) - n_second, n_second


def join_tables(
    A: Any, B: Any, labels: tuple[str, str], columns: Any, exclude: Any, kinds: Any
) -> JoinedTables:
    """Both tables with the chosen columns; `labels` are what messages call them."""
    tables = [_checked(table, label) for table, label in zip((A, B), labels, strict=True)]
    first, second = (_names(table) for table in tables)
    if (first is None) != (second is None):
        raise ValueError(
            f"One of {labels[0]} and {labels[1]} is a data frame with named columns and the other "
            "an array without names. Give two of one kind."
        )
    if first is None or second is None:
        widths = [table.shape[1] for table in tables]
        if widths[0] != widths[1]:
            raise ValueError(
                f"{labels[0]} has {widths[0]} columns and {labels[1]} has {widths[1]}. Give arrays "
                "with the same columns, or data frames, whose columns are found by name."
            )
        first = second = [f"x{number}" for number in range(widths[0])]
    names = [first, second]
    chosen = shared_columns(names, labels, _listed(columns), _listed(exclude))
    given = _given(kinds, chosen)
    readers = [cell_reader(table, there)[0] for table, there in zip(tables, names, strict=True)]
    places = [[there.index(name) for name in chosen] for there in names]
    sizes = [len(table) for table in tables]

    def read_column(number: int) -> tuple[Float[np.ndarray, " N"], ColumnKind]:
        name = called(number, chosen)
        parts = [read(where[number]) for read, where in zip(readers, places, strict=True)]
        cells = _joined(parts, name, labels, as_words=_is_category(given.get(chosen[number])))
        tally = tallied(cells, np.ones(sum(sizes)))
        if chosen[number] in given:
            kind = kind_from(given[chosen[number]], tally, name)
        else:
            kind = kind_of(tally, name)
        return kind.codes(cells), kind

    codes, found = zip(*of_every_column(read_column, len(chosen), chosen), strict=True)
    is_second = np.repeat([False, True], sizes)
    return JoinedTables(np.column_stack(codes), is_second, found, tuple(chosen))


def _checked(table: Any, label: str) -> Any:
    """A data frame, or an array of two dimensions, with rows."""
    if library_of(table) == "numpy":
        table = np.asarray(table)
    if getattr(table, "ndim", 2) != 2 or not hasattr(table, "shape"):
        raise ValueError(
            f"{label} must be a data frame or an array of rows and columns; got {shown(table)}."
        )
    if len(table) < 2 or not table.shape[1]:
        raise ValueError(
            f"{label} must have at least two rows and a column; got {table.shape[0]} rows and "
            f"{table.shape[1]} columns."
        )
    return table


def _names(table: Any) -> list[str] | None:
    if library_of(table) == "numpy":
        return None
    names = [str(name) for name in table.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"The column {several(twice)} occurs twice. Rename or drop one of them.")
    return names


def _listed(names: Any) -> list[str] | None:
    if names is None:
        return None
    return [names] if isinstance(names, str) else [str(name) for name in names]


def _given(kinds: Any, chosen: Sequence[str]) -> dict[str, Any]:
    given = {str(name): kind for name, kind in dict(kinds or {}).items()}
    for name in given:
        if name not in chosen:
            raise ValueError(
                f"kinds names {name!r}, which is not one of the compared columns."
                f"{nearest(name, chosen)}"
            )
    return given


def _is_category(kind: Any) -> bool:
    first = kind[0] if isinstance(kind, (tuple, list)) and kind else kind
    return first == "category"


def _joined(parts: Sequence[Cells], name: str, labels: tuple[str, str], *, as_words: bool) -> Cells:
    """One column of both tables; what is all missing fits everything."""
    filled = [part for part in parts if not part.missing.all()]
    families = {part.family for part in filled}
    missing = np.concatenate([part.missing for part in parts])
    if not filled:
        raise ValueError(f"{_capital(name)} holds no values in either table. Leave it out.")
    levels = {part.levels for part in filled if part.family == "ordered"}
    if families == {"ordered"} and len(levels) == 1:
        family: Any = "ordered"
    elif families <= {"word", "ordered"}:
        family = "word"
    elif families <= {"number", "boolean"} and len(families) == 2:
        family = "number"
    elif len(families) == 1:
        (family,) = families
    elif as_words:
        family = "word"
    else:
        kinds = [f"{_in_words(part)} in {label}" for part, label in zip(parts, labels, strict=True)]
        raise ValueError(
            f"{_capital(name)} holds {kinds[0]} and {kinds[1]}. Correct it, leave it out, or "
            "compare it as a category: --kind NAME=category on the command line, or "
            "kinds={name: 'category'}."
        )
    values = [_values(part, family, mixed=len(families) > 1) for part in parts]
    found = levels.pop() if family == "ordered" else None
    return Cells(np.concatenate(values), missing, family, found, filled[0].dtype)


def _values(part: Cells, family: str, *, mixed: bool) -> np.ndarray:
    if family == "number":
        if part.family == "number":
            return part.values
        return np.array([np.nan if one is None else float(one) for one in part.values], float)
    values = np.full(len(part.values), None, object)
    for place in np.flatnonzero(~part.missing):
        value = part.values[place]
        values[place] = _word(value) if mixed and not isinstance(value, str) else value
    return values


def _word(value: Any) -> str:
    """A number as the word that a file would have: 3, not 3.0."""
    number = isinstance(value, (float, np.floating))
    return str(int(value)) if number and float(value).is_integer() else str(value)


def _in_words(part: Cells) -> str:
    there = part.values[~part.missing]
    if part.family in ("word", "ordered"):
        return f"words such as {shown(str(there[0])[:40])}"
    return {"number": "numbers", "boolean": "truth values"}[part.family]


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
