"""Names of columns in messages, and how to leave columns out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from kexpfam.choices import nearest

__all__ = [
    "called",
    "dropping",
    "in_formula",
    "of_every_column",
    "require_columns",
    "several",
    "shared_columns",
]

T = TypeVar("T")

_MOST_SHOWN, _MOST_EXPLAINED = 10, 5


def called(column: int, names: Sequence[str] | None) -> str:
    """A column in a sentence: its name in quotation marks, or its number, counted from 0."""
    return f"column {column}" if names is None else repr(str(names[column]))


def in_formula(column: int, names: Sequence[str] | None) -> str:
    """A column in a formula: as in a sentence, but a single word needs no quotation marks."""
    if names is not None and str(names[column]).isidentifier():
        return str(names[column])
    return called(column, names)


def dropping(columns: Iterable[int], names: Sequence[str] | None) -> str:
    """What to type to be rid of columns, on the command line and in Python."""
    columns = list(columns)
    shown, more = columns[:_MOST_SHOWN], ", …" if len(columns) > _MOST_SHOWN else ""
    if names is None:
        numbers = ", ".join(map(str, shown))
        return f"numpy.delete(X, [{numbers}{more}], axis=1), where columns count from 0"
    in_python = f"X.drop(columns=[{', '.join(repr(str(names[one])) for one in shown)}{more}])"
    chosen = [str(names[column]) for column in columns]
    # An option cannot name a column without a name.
    if not all(name.strip() for name in chosen):
        return in_python
    return f"{_excluding(chosen)} on the command line, or {in_python}"


def _excluding(names: Iterable[str]) -> str:
    """The option that leaves columns out, all of them, as a shell takes it."""
    return f"--exclude {shlex.quote(','.join(names))}"


def require_columns(label: str, names: Iterable[str], there: Sequence[str]) -> None:
    """Raise if a name is that of no column of a file."""
    known = set(there)
    for name in names:
        if name not in known:
            more = "…" if len(there) > 10 else ""
            raise ValueError(
                f"{label} has no column {name!r}. Its columns are {', '.join(there[:10])}{more}."
                f"{nearest(name, there)}"
            )


def of_every_column(
    read: Callable[[int], T], n_columns: int, names: Sequence[str] | None
) -> list[T]:
    """What is read of every column; those that are refused are all named in one error."""
    found, refused = [], {}
    for place in range(n_columns):
        try:
            found.append(read(place))
        except ValueError as error:
            refused[place] = error
    if len(refused) == 1:
        raise next(iter(refused.values()))
    if refused:
        sentences = [str(error) for error in list(refused.values())[:_MOST_EXPLAINED]]
        raise ValueError(
            f"{len(refused)} of {n_columns} columns cannot be used. {' '.join(sentences)} Leave "
            f"such columns out: {dropping(refused, names)}."
        )
    return found


def shared_columns(
    names: Sequence[Sequence[str]],
    labels: tuple[str, str],
    columns: Collection[str] | None,
    exclude: Collection[str] | None,
) -> list[str]:
    """The columns to compare; names that only one table has are all named in one error."""
    first, second = names
    everywhere = [*first, *(name for name in second if name not in first)]
    for name in (*(columns or ()), *(exclude or ())):
        if name not in everywhere:
            raise ValueError(
                f"Neither {labels[0]} nor {labels[1]} has a column {name!r}."
                f"{nearest(name, everywhere)}"
            )
    wanted = [
        name
        for name in (columns if columns is not None else everywhere)
        if name not in (exclude or ())
    ]
    gone = [
        (label, [name for name in wanted if name not in there])
        for label, there in zip(labels, names, strict=True)
    ]
    if any(missing for _, missing in gone):
        sentences = [
            f"{label} has no column {several(missing)}." for label, missing in gone if missing
        ]
        both = sorted({name for _, missing in gone for name in missing}, key=everywhere.index)
        if len(both) == len(wanted):
            raise ValueError(f"{labels[0]} and {labels[1]} have no column in common.")
        raise ValueError(
            f"{' '.join(sentences)} Compare the others: {_excluding(both)} on the command line, or "
            f"exclude={both!r}."
        )
    if not wanted:
        raise ValueError("No column is left to compare.")
    return wanted


def several(names: Sequence[str]) -> str:
    """Names with commas between them, and how many more there are."""
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(map(repr, names[:_MOST_SHOWN])) + more
