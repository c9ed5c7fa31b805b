"""What a cell of text is: nothing, a number, a truth value, a date, or words.

Nothing here needs more than Python itself, so that a command can look at a file before anything
large is imported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["MISSING", "Seen", "is_date", "is_free_text", "is_missing", "is_number", "looked_at"]

# What stands for a missing value in a file of text, beside nothing at all.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null")
_MISSING = frozenset(MISSING)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf(inity)?", re.IGNORECASE)
_TRUTH = frozenset(("true", "false"))
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?")
# Words are free text if there are more distinct ones than this, and than this share of the values.
_FREE_TEXT, _FREE_TEXT_SHARE = 20, 0.5


def is_missing(cell: str) -> bool:
    """Whether nothing stands there."""
    return cell.strip() in _MISSING


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a number stands there, with a point or a comma before its decimals."""
    cell = cell.strip()
    if decimal != ".":
        if "." in cell:
            return False
        cell = cell.replace(decimal, ".")
    return _NUMBER.fullmatch(cell) is not None


def is_date(cell: str) -> bool:
    """Whether a date stands there, year first, with or without a time."""
    return _DATE.fullmatch(cell.strip()) is not None


def is_free_text(n_different: int, n_values: int) -> bool:
    """Whether so many different words among so many are no categories."""
    return n_different > max(_FREE_TEXT, _FREE_TEXT_SHARE * n_values)


class Seen(NamedTuple):
    """What the cells of one column are. Places count from 0, and are None where there is none.

    | name          | meaning                                                            |
    |---------------|--------------------------------------------------------------------|
    | kind          | what all cells are that are not missing; "words" if they differ    |
    | n_values      | how many are not missing                                           |
    | n_different   | how many different ones                                            |
    | first_missing | the place of the first that is missing                             |
    | first_odd     | the place of the first that is not a number                           |
    """

    kind: str
    n_values: int
    n_different: int
    first_missing: int | None
    first_odd: int | None


def looked_at(cells: Sequence[str], decimal: str = ".") -> Seen:
    """What the cells of a column are."""
    places: dict[str, int] = {}
    missing, n_values = None, 0
    for place, cell in enumerate(map(str.strip, cells)):
        if cell not in _MISSING:
            n_values += 1
            places.setdefault(cell, place)
        elif missing is None:
            missing = place
    odd = next((place for cell, place in places.items() if not is_number(cell, decimal)), None)
    if not places:
        kind = "nothing"
    elif odd is None:
        kind = "numbers"
    elif all(cell.lower() in _TRUTH for cell in places):
        kind = "truth values"
    elif all(map(is_date, places)):
        kind = "dates"
    else:
        kind = "words"
    return Seen(kind, n_values, len(places), missing, odd)
