"""Which line of a table holds the names, and which columns belong to the table.

The first line is a row, not names, if

* it holds numbers only, or numbers and missing cells, and numbers stand below some of them (but not
  0, 1, 2, …, which pandas writes for columns without names, nor with nothing over a saved index);
* every word in it occurs again in its column; or
* something in it is more like what stands below than like a name (a date over dates, a number with
  decimals over numbers, a whole number between others, a word that occurs again), and no word of it
  stands over numbers or dates.

Lines before the table that are empty or begin with # are passed over. If the first line after them
is a row, the last of them may hold the names, as NumPy writes them.

Columns without a name get one, column_1, column_2, … by their place. Names that occur twice are
numbered, as pandas does. The first column is left out if it has no name and a different value in
every row, a word or a whole number: a saved index, or the row names of R. Columns without a name
and without values, as separators at the ends of the lines make them, are left out as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kexpfam.data.dialects import cut
from kexpfam.data.words import is_missing, is_number

__all__ = ["Layout", "arranged", "n_lines_before", "names_in_comment", "ragged"]

_UNNAMED = re.compile(r"|Unnamed: 0(\.\d+)?")
_PREAMBLE = re.compile(r"\s*|#.*|sep=.\s*", re.IGNORECASE | re.DOTALL)
_DATE = re.compile(r"\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})([T ].*)?\s*")
_MOST_SHOWN = 3


class Layout(NamedTuple):
    """The columns of a table in a file.

    | name    | meaning                                                                 |
    |---------|-------------------------------------------------------------------------|
    | names   | of all columns of the file, each different                              |
    | kept    | the places of those that are taken                                      |
    | header  | whether the first line holds the names                                  |
    | doubts  | sentences on what may have been taken for something else                |
    """

    names: tuple[str, ...]
    kept: tuple[int, ...]
    header: bool
    doubts: tuple[str, ...] = ()

    @property
    def taken(self) -> list[str]:
        """The names of the columns that are taken."""
        return [self.names[place] for place in self.kept]


def arranged(
    lines: Sequence[Sequence[str]], header: bool | None, decimal: str, label: str
) -> Layout:
    """The columns of a table, from its first lines; `header` is None where it is not known."""
    first, rest = list(lines[0]), lines[1:]
    width = Counter(map(len, rest)).most_common(1)[0][0] if rest else len(first)
    columns = [[row[place] for row in rest if place < len(row)] for place in range(width)]
    doubts: list[str] = []
    if header is None:
        header, doubt = _is_header(first, columns, decimal, label)
        doubts += [doubt] if doubt else []
    if not header:
        width = max(width, len(first)) if not rest else width
        places = tuple(range(width))
        return Layout(
            tuple(f"column_{place + 1}" for place in places), places, False, tuple(doubts)
        )
    first = _completed(first, columns)
    names, more = _different([cell.strip() for cell in first], label)
    doubts += more
    kept = list(range(len(names)))
    if len(columns) == len(first):
        kept, left_out = _without_index(first, columns, kept, label)
        doubts += left_out
    return Layout(tuple(names), tuple(kept), True, tuple(doubts))


def ragged(
    row: Sequence[str], number: int, layout: Layout, label: str, separator: str = ","
) -> ValueError | None:
    """What to say of a row that has more or fewer cells than there are columns."""
    if len(row) == len(layout.names):
        return None
    where = "the header names" if layout.header else "the first rows have"
    mark = {"\t": "tab", " ": "space"}.get(separator, repr(separator))
    advice = "Fill it up"
    if any("\n" in cell for cell in row):
        advice = "Perhaps a quotation mark is not closed: correct it"
    elif len(row) > len(layout.names):
        advice = f"A value that holds a {mark} must stand in quotation marks: correct it"
    cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
    columns = f"{len(layout.names)} column{'s' * (len(layout.names) != 1)}"
    return ValueError(
        f"{label}: row {number} has {cells}, but {where} {columns}. {advice}, or leave the row out."
    )


def n_lines_before(lines: Sequence[str]) -> int:
    """How many lines stand before a table: empty ones, comments, and Excel's `sep=`."""
    found = (place for place, line in enumerate(lines) if not _PREAMBLE.fullmatch(line))
    return next(found, len(lines))


def names_in_comment(lines: Sequence[str], separator: str, width: int) -> list[str] | None:
    """The names of columns in the last line before a table, as NumPy writes them; or None."""
    if not lines or not lines[-1].startswith("#"):
        return None
    found = next(cut([lines[-1].lstrip("# ")], separator), [])
    # A sentence may well have as many commas, but not in place of a single name.
    is_sentence = width == 1 and " " in "".join(found).strip()
    return found if len(found) == width and not is_sentence else None


def _is_header(
    first: Sequence[str], columns: Sequence[Sequence[str]], decimal: str, label: str
) -> tuple[bool, str]:
    """Whether the first line holds names, and a doubt about it or nothing."""
    pairs = list(zip(first, columns, strict=False))
    numbers = [is_number(cell, decimal) for cell in first]
    words = [
        (cell, column)
        for cell, column in pairs
        if not is_number(cell, decimal) and not is_missing(cell)
    ]
    some = ", ".join(cell.strip() or "nothing" for cell in first[:_MOST_SHOWN])
    shown = f"({some}{', …' * (len(first) > _MOST_SHOWN)})"
    as_row = (
        f"The first line of {label} {{}} {shown} and was taken for a row; the columns are called "
        "column_1, column_2, …. Give --header if it holds names."
    )
    as_names = (
        f"The first line of {label} was taken for the columns' names{{}} {shown}. Give --no-header "
        "if it is a row."
    )
    above_numbers = any(
        number and _mostly_numbers(column, decimal)
        for number, (_, column) in zip(numbers, pairs, strict=False)
    )
    if len(first) > 1 and not first[0].strip() and _counts(columns[0]):
        return True, as_names.format(", with nothing over a saved index") if any(numbers) else ""
    if any(numbers) and not words and (above_numbers or not any(columns)):
        counted = [cell.strip() for cell in first if not is_missing(cell)]
        if len(counted) > 1 and counted == [str(place) for place in range(len(counted))]:
            return True, as_names.format("")
        return False, as_row.format("holds numbers only")
    is_name = any(
        cell not in column and (_mostly_numbers(column, decimal) or _mostly_dates(column))
        for cell, column in words
        if not _DATE.fullmatch(cell)
    )
    is_row = any(_is_value(cell, column, decimal) for cell, column in pairs)
    if (is_row and not is_name) or (words and all(cell in column for cell, column in words)):
        return False, as_row.format("looks like the others")
    if any(numbers):
        return True, as_names.format(", though some are numbers")
    return True, ""


def _is_value(cell: str, column: Sequence[str], decimal: str) -> bool:
    """Whether a cell is more like the values below it than like a name.

    A date over dates, or a number over numbers that is no year or place, with decimals over
    decimals or between other whole numbers; or a word that occurs again.
    """
    if is_missing(cell) or not column:
        return False
    if _DATE.fullmatch(cell):
        return _mostly_dates(column)
    if not is_number(cell, decimal):
        return cell in column
    if not _mostly_numbers(column, decimal):
        return False
    if not cell.strip().isdigit():
        return True
    whole = [int(one) for one in column if one.strip().isdigit()]
    return 2 * len(whole) > len(column) and min(whole) < int(cell) < max(whole)


def _counts(column: Sequence[str]) -> bool:
    """Whether a column is 0, 1, 2, … or 1, 2, 3, …."""
    cells = [cell.strip() for cell in column]
    return len(cells) > 1 and any(
        cells == [str(place) for place in range(begin, begin + len(cells))] for begin in (0, 1)
    )


def _mostly_dates(column: Sequence[str]) -> bool:
    there = [cell for cell in column if not is_missing(cell)]
    return 2 * sum(bool(_DATE.fullmatch(cell)) for cell in there) > len(there)


def _mostly_numbers(column: Sequence[str], decimal: str) -> bool:
    there = [cell for cell in column if not is_missing(cell)]
    return 2 * sum(is_number(cell, decimal) for cell in there) > len(there)


def _completed(first: list[str], columns: Sequence[Sequence[str]]) -> list[str]:
    """One name less than there are columns: of the first, as R writes them, or of an empty last."""
    if len(first) != len(columns) - 1:
        return first
    if all(map(is_missing, columns[-1])):
        return [*first, ""]
    # A single cell with marks in it is a line that another mark separates.
    is_one = len(first) == 1 and any(mark in first[0] for mark in ",;|\t")
    if _numbers_rows(columns[0]) and not is_one:
        return ["", *first]
    return first


def _numbers_rows(column: Sequence[str]) -> bool:
    """Whether every row has a value of its own that is no measurement."""
    if len(set(column)) < len(column) or any(map(is_missing, column)):
        return False
    return not any(is_number(cell) and not cell.strip().isdigit() for cell in column)


def _different(names: list[str], label: str) -> tuple[list[str], list[str]]:
    """Names without repetition, and a doubt where there were some."""
    taken = set(names)
    seen: Counter[str] = Counter()
    found, renamed = [], []
    for place, name in enumerate(names):
        own = name or f"column_{place + 1}"
        if seen[own] or (not name and own in taken):
            number = seen[own] or 1
            while f"{own}.{number}" in taken:
                number += 1
            renamed.append((own, f"{own}.{number}"))
            taken.add(f"{own}.{number}")
            found.append(f"{own}.{number}")
        else:
            found.append(own)
        seen[own] += 1
    if not renamed:
        return found, []
    pairs = ", ".join(f"{old!r} ({new!r})" for old, new in renamed[:_MOST_SHOWN])
    more = f" and {len(renamed) - _MOST_SHOWN} more" if len(renamed) > _MOST_SHOWN else ""
    return found, [
        f"{label}: columns with the same name were numbered: {pairs}{more}. Give "
        "--exclude if columns are copies."
    ]


def _without_index(
    first: Sequence[str], columns: Sequence[Sequence[str]], kept: list[int], label: str
) -> tuple[list[int], list[str]]:
    """The places of columns, less a saved index and what separators at the ends make."""
    doubts = []
    kept = [
        place
        for place in kept
        if first[place].strip() or not all(map(is_missing, columns[place])) or not columns[place]
    ]
    n_indices = 0
    for place in kept[:-1]:
        unnamed = _UNNAMED.fullmatch(first[place].strip())
        if not (unnamed and len(columns[place]) > 1 and _numbers_rows(columns[place])):
            break
        n_indices += 1
    if n_indices:
        kept = kept[n_indices:]
        doubts.append(
            f"The first column of {label} has no name and a different value in every row, as a "
            "saved index has, and was left out. Give it a name if it is part of the table."
        )
    return kept, doubts
