"""Messages on columns that cannot be used: all of them at once, and how to leave them out.

Estimators for numbers take complete columns of numbers. Tables of mixed columns take words and
empty cells, but no dates, and no words that are different in most rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kexpfam.data.columns import dropping
from kexpfam.data.first_rows import FirstRows
from kexpfam.data.words import Seen, is_free_text

__all__ = ["number_trouble", "table_trouble"]

_CHAIN = "KernelChain (--estimator chain, the default) takes words and empty cells."
_MOST_SHOWN = 6
# What could be a number with a decimal comma, or with thousands.
_COMMAS = re.compile(r"\s*[-+]?\d[\d.]*,[\d,]*\s*$")


def number_trouble(found: FirstRows, names: Sequence[str], first: int = 0) -> str | None:
    """What to say if columns do not hold numbers throughout; rows count from `first`."""
    bad = {}
    for name in names:
        one = found.seen[name]
        is_odd = one.first_odd is not None and one.kind != "truth values"
        if is_odd or one.first_missing is not None:
            bad[name] = one
    if not bad:
        return None
    advice = f"{dropping(range(len(bad)), list(bad))}. {_CHAIN}"
    if len(bad) > 1:
        said = [_said(name, one, found.columns[name], first) for name, one in bad.items()]
        more = f", and {len(said) - _MOST_SHOWN} more" if len(said) > _MOST_SHOWN else ""
        return (
            f"{found.path}: {len(bad)} of {len(names)} columns do not hold numbers throughout: "
            f"{', '.join(said[:_MOST_SHOWN])}{more}. Leave such columns out: {advice}"
        )
    (name, one), *_ = bad.items()
    if one.first_odd is None or (
        one.first_missing is not None and one.first_missing < one.first_odd
    ):
        row = first + (one.first_missing or 0) + 1
        return (
            f"{found.path}: row {row}, column {name!r} is missing. Expected numbers: drop or fill "
            f"such rows, or leave the column out: {advice}"
        )
    odd = found.columns[name][one.first_odd]
    comma = " If commas stand before decimals, give --decimal ','." if _COMMAS.match(odd) else ""
    return (
        f"{found.path}: row {first + one.first_odd + 1}, column {name!r} holds {odd!r}, which is "
        f"not a number.{comma} Correct it, or leave the row or the column out: {advice}"
    )


def _said(name: str, one: Seen, cells: Sequence[str], first: int) -> str:
    """A column and what is in it that is not a number."""
    if one.kind == "nothing":
        return f"{name!r} is empty"
    if one.first_odd is None:
        return f"{name!r} has an empty cell (row {first + (one.first_missing or 0) + 1})"
    what = "dates such as " if one.kind == "dates" else ""
    return f"{name!r} holds {what}{cells[one.first_odd]!r} (row {first + one.first_odd + 1})"


def table_trouble(found: FirstRows, names: Sequence[str], known: Collection[str]) -> str | None:
    """What to say if columns have no kind that a table of mixed columns takes.

    `known` are columns whose kinds were given. What is read from repetitions needs all rows.
    """
    said, remedies = {}, {}
    for name in (name for name in names if name not in known):
        one, cells = found.seen[name], found.columns[name]
        if one.kind == "dates":
            said[name] = f"{name!r} holds dates or times, such as {cells[one.first_odd or 0]!r}"
            remedies["dates"] = " Or turn dates into numbers, such as days since the first."
        elif one.kind == "nothing" and found.is_whole:
            said[name] = f"{name!r} holds no values"
        elif one.kind == "words" and found.is_whole and is_free_text(one.n_different, one.n_values):
            said[name] = (
                f"{name!r} looks like free text or an identifier: {one.n_different} different "
                f"values in {one.n_values} rows, such as {cells[one.first_odd or 0][:40]!r}"
            )
            remedies["text"] = (
                " If the words are categories after all, say so: --kind NAME=category."
            )
    if not said:
        return None
    return (
        f"{found.path}: {'; '.join(said.values())}. Leave such columns out: "
        f"{dropping(range(len(said)), list(said))}.{''.join(remedies.values())}"
    )
