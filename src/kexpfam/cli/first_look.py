"""A look at the first rows of files, before anything large is imported.

Whatever is wrong there is refused in a moment: files that are not there, are no tables or have
lines of different lengths, names that no column has, and columns that an estimator cannot take, all
of them at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from kexpfam.data.columns import no_such_column
from kexpfam.data.dialects import Dialect
from kexpfam.data.file_kinds import kind_of
from kexpfam.data.first_rows import first_rows, number_trouble, table_trouble

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
    chosen = [name for name in (columns or there) if name not in (*exclude, *apart)]
    for name in (*chosen, *exclude, *apart):
        if name not in there:
            raise no_such_column(label, name, there)
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
    for name in names:
        # Standard input can be read only once, and waits.
        found = None if name == STANDARD else first_rows(Path(name), dialect)
        if found is None:
            continue
        taken = found.layout.taken
        if target is not None and target not in taken:
            raise no_such_column(name, target, taken)
        wanted = split_names(columns)
        if wanted is not None and target is not None:
            wanted.append(target)
        chosen = check_names(name, taken, wanted, split_names(exclude) or (), weights)
        trouble = None
        if takes == "numbers":
            trouble = number_trouble(found, [*chosen, *([weights] if weights else [])])
        elif takes == "tables":
            trouble = table_trouble(found, chosen, kinds)
        if trouble is not None:
            raise ValueError(trouble)
