"""A look at the first rows of files, before anything large is imported.

Whatever is wrong there is refused in a moment: files that are not there, are no tables or have
lines of different lengths, names that no column has, and columns that an estimator cannot take, all
of them at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from kexpfam.data.columns import require_columns
from kexpfam.data.dialects import Dialect
from kexpfam.data.file_kinds import kind_of
from kexpfam.data.first_rows import FirstRows, first_rows
from kexpfam.data.troubles import number_trouble, table_trouble

__all__ = ["STANDARD", "check_names", "first_look", "is_data", "split_names"]

STANDARD = "-"


def split_names(text: str | None) -> list[str] | None:
    """Column names with commas between them; None for none."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def is_data(name: str) -> bool:
    """Whether a name is that of data rather than of a model."""
    return name == STANDARD or kind_of(name) is not None


def check_names(
    label: str,
    there: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str],
    others: str | Sequence[str] | None = (),
) -> list[str]:
    """The columns that are chosen, less the others (weights), all of which must be there."""
    apart = [others] if isinstance(others, str) else list(others or ())
    left_out = {*exclude, *apart}
    chosen = [name for name in (columns or there) if name not in left_out]
    require_columns(label, (*chosen, *exclude, *apart), there)
    if not chosen:
        more = "…" if len(there) > 10 else ""
        raise ValueError(f"No column is left. The columns are {', '.join(there[:10])}{more}.")
    return chosen


def first_look(
    names: Sequence[str],
    dialect: Dialect,
    *,
    columns: str | None = None,
    exclude: str | None = None,
    weights: str | None = None,
    target: str | None = None,
    takes: str | None = None,
    kinds: Collection[str] = (),
) -> None:
    """Raise if the first rows of files show that they cannot be used.

    `takes` is "numbers" or "tables" where it is known what the columns are for, and `kinds` are
    names of columns whose kinds were given.
    """
    wanted = split_names(columns)
    if wanted is not None and target is not None:
        wanted.append(target)
    for name in names:
        if name == STANDARD:
            continue  # it can be read only once
        found = first_rows(Path(name), dialect)
        there = _opened(name).names if found is None else found.layout.taken
        if there is None:
            continue
        require_columns(name, () if target is None else (target,), there)
        chosen = check_names(name, there, wanted, split_names(exclude) or (), weights)
        if takes == "numbers":
            _refuse_others(name, found, [*chosen, *([weights] if weights else [])])
        elif takes == "tables" and found is not None:
            _refuse(table_trouble(found, chosen, kinds))


def _refuse_others(name: str, found: FirstRows | None, columns: Sequence[str]) -> None:
    """Raise if columns are not of numbers."""
    if found is not None:
        _refuse(number_trouble(found, columns))
    else:
        _opened(name).refuse_others(columns)


def _refuse(trouble: str | None) -> None:
    if trouble is not None:
        raise ValueError(trouble)


def _opened(name: str) -> Any:
    # Imported here: only files that say themselves what they hold need it.
    from kexpfam.data.opened_files import open_file

    return open_file(name)
