"""The beginning of a file: how it is written, which columns it has, and what cannot be used.

Everything that is wrong with a table's first rows is found here, with Python alone and in a moment,
so that a command can refuse it before anything large is imported.
"""

from __future__ import annotations

import csv
import functools
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kexpfam.data.cell_rows import excel_doubt, excel_rows, json_records, json_rows, text_rows
from kexpfam.data.columns import dropping
from kexpfam.data.dialects import Dialect, cut, decimal_of, decoded, separator_of, thousands_doubt
from kexpfam.data.file_kinds import BROKEN, damaged, decompressed, known_file, suffix
from kexpfam.data.layouts import Layout, arranged, ragged
from kexpfam.data.words import Seen, is_free_text, looked_at

__all__ = ["FirstRows", "first_rows", "number_trouble", "table_trouble"]

# Bytes in which the encoding is recognized, letters that are cut into rows, and rows.
_SCANNED, _LETTERS, _ROWS = 8_000_000, 1_000_000, 10_000
_MOST_SHOWN = 6
# What could be a number with a decimal comma, or with thousands.
_COMMAS = re.compile(r"\s*[-+]?\d[\d.]*,[\d,]*\s*$")
_CHAIN = "KernelChain (--estimator chain, the default) takes words and empty cells."


@dataclass(frozen=True, eq=False)
class FirstRows:
    """What is known of a file of text, JSON or Excel, and its first rows.

    | name      | meaning                                                                    |
    |-----------|----------------------------------------------------------------------------|
    | dialect   | encoding, separator, decimal mark and header, as given or recognized       |
    | layout    | the columns of the file, and which are taken                               |
    | rows      | cells of the columns that are taken                                        |
    | is_whole  | whether these are all rows                                                 |
    | n_skipped | lines before the table: empty ones, and Excel's `sep=`                     |
    | quoted    | whether quotation marks occur                                              |
    | doubts    | sentences on what may have been taken for something else                   |
    """

    path: Path
    kind: str
    dialect: Dialect
    layout: Layout
    rows: list[list[str]]
    is_whole: bool
    n_skipped: int
    quoted: bool
    doubts: tuple[str, ...]

    @property
    def decimal(self) -> str:
        """The mark before decimals."""
        return self.dialect.decimal or "."

    def cells(self, name: str) -> list[str]:
        """The cells of a column in the first rows."""
        place = self.layout.taken.index(name)
        return [row[place] for row in self.rows]

    @cached_property
    def seen(self) -> dict[str, Seen]:
        """What the columns hold in the first rows."""
        return {name: looked_at(self.cells(name), self.decimal) for name in self.layout.taken}

    def all_rows(self) -> Iterator[list[str]]:
        """The cells of the columns that are taken, of all rows; rows must be of one length."""
        kept = self.layout.kept
        for number, row in enumerate(_rows_below(self), start=1):
            trouble = ragged(row, number, self.layout, str(self.path), self.dialect.separator or "")
            if trouble is not None and self.kind == "text":
                raise trouble
            row = [*row, *[""] * (len(self.layout.names) - len(row))]
            yield [row[place] for place in kept]


def first_rows(path: str | Path, dialect: Dialect | None = None) -> FirstRows | None:
    """The beginning of a file; None of files that say themselves what they hold."""
    path = Path(path)
    kind = known_file(path)
    if kind not in ("text", "json", "excel"):
        return None
    state = path.stat()
    return _first_rows(path, kind, dialect or Dialect(), state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=16)
def _first_rows(path: Path, kind: str, dialect: Dialect, *_: int) -> FirstRows:
    found = {"text": _of_text, "json": _of_json, "excel": _of_excel}[kind](path, dialect)
    if not found.rows:
        raise ValueError(f"{path} has a line of names but no rows.")
    return found


def _of_text(path: Path, dialect: Dialect) -> FirstRows:
    try:
        with decompressed(path) as file:
            raw = file.read(_SCANNED)
            is_whole = not file.read(1)
    except BROKEN as error:
        raise damaged(path, error) from error
    text, encoding, doubt = decoded(raw, is_whole, dialect.encoding, str(path))
    quoted = '"' in text
    is_whole = is_whole and len(text) <= _LETTERS
    lines = text[:_LETTERS].splitlines(keepends=True)
    n_skipped = sum(1 for _ in itertools.takewhile(lambda line: not line.strip(), lines))
    if n_skipped == len(lines):
        raise ValueError(f"{path} holds nothing but empty lines. Leave it out, or write it again.")
    separator = dialect.separator or separator_of(text[:_LETTERS], suffix(path))
    if lines[n_skipped].strip().lower() == f"sep={separator}".strip():
        n_skipped += 1
    cells = []
    try:
        for row in cut(lines[n_skipped:], separator):
            cells.append(row)
            if len(cells) > _ROWS:
                is_whole = False
                break
    except csv.Error as error:
        raise ValueError(
            f"{path} cannot be cut into cells ({error}). Perhaps a quotation mark is not closed."
        ) from error
    if not is_whole and len(cells) > 1:
        cells.pop()  # it may have been cut off
    elif quoted and text.count('"') % 2 and any("\n" in cell for cell in cells[-1]):
        raise ValueError(f"{path}: a quotation mark in row {len(cells) - 1} is not closed.")
    decimal = dialect.decimal or decimal_of(cells, separator)
    layout = arranged(cells, dialect.header, decimal, path.name)
    known = Dialect(separator, decimal, encoding, layout.header)
    thousands = thousands_doubt(cells, decimal, path.name)
    doubts = (*filter(None, (doubt, thousands)), *layout.doubts)
    found = FirstRows(path, "text", known, layout, [], is_whole, n_skipped, quoted, doubts)
    return replace(found, rows=_kept(found, cells[1:] if layout.header else cells))


def _of_json(path: Path, dialect: Dialect) -> FirstRows:
    records = list(itertools.islice(json_records(path, dialect.encoding), _ROWS + 1))
    is_whole = len(records) <= _ROWS
    names = list(dict.fromkeys(name for record in records for name in record))
    if not names:
        raise ValueError(f"{path} has no rows. Leave it out, or write it again.")
    layout = Layout(tuple(names), tuple(range(len(names))), True)
    found = FirstRows(
        path, "json", dialect._replace(decimal="."), layout, [], is_whole, 0, False, ()
    )
    return replace(found, rows=list(itertools.islice(_rows_below(found), _ROWS)))


def _of_excel(path: Path, dialect: Dialect) -> FirstRows:
    cells = list(itertools.islice(excel_rows(path), _ROWS + 1))
    if not cells:
        raise ValueError(f"The first sheet of {path} is empty.")
    width = max(map(len, cells))
    cells = [[*row, *[""] * (width - len(row))] for row in cells]
    decimal = dialect.decimal or "."
    layout = arranged(cells, dialect.header, decimal, path.name)
    known = Dialect(None, decimal, None, layout.header)
    is_whole = len(cells) <= _ROWS
    doubts = (*filter(None, [excel_doubt(path)]), *layout.doubts)
    found = FirstRows(path, "excel", known, layout, [], is_whole, 0, False, doubts)
    return replace(found, rows=_kept(found, cells[1:] if layout.header else cells))


def _kept(found: FirstRows, cells: Sequence[Sequence[str]]) -> list[list[str]]:
    for number, row in enumerate(cells, start=1):
        separator = found.dialect.separator or ""
        trouble = ragged(row, number, found.layout, str(found.path), separator)
        if trouble is not None:
            raise trouble
    return [[row[place] for place in found.layout.kept] for row in cells]


def _rows_below(found: FirstRows) -> Iterator[list[str]]:
    """All rows with all cells, without the line of names."""
    if found.kind == "json":
        yield from json_rows(found.path, found.dialect.encoding, list(found.layout.names))
        return
    if found.kind == "excel":
        rows = excel_rows(found.path)
    else:
        known = found.dialect
        rows = text_rows(found.path, known.encoding or "utf-8", known.separator or ",")
    yield from itertools.islice(rows, 1 if found.layout.header else 0, None)


# -- what cannot be used ------------------------------------------------------------------------


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
        said = [_said(name, one, found.cells(name), first) for name, one in bad.items()]
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
    odd = found.cells(name)[one.first_odd]
    comma = " If commas stand before decimals, give --decimal ','." if _COMMAS.match(odd) else ""
    return (
        f"{found.path}: row {first + one.first_odd + 1}, column {name!r} holds {odd!r}, which is "
        f"no number.{comma} Correct it, or leave the row or the column out: {advice}"
    )


def _said(name: str, one: Seen, cells: Sequence[str], first: int) -> str:
    """A column and what is in it that is no number."""
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
        one, cells = found.seen[name], found.cells(name)
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
                " If words are categories all the same, say so: --kind NAME=category."
            )
    if not said:
        return None
    return (
        f"{found.path}: {'; '.join(said.values())}. Leave such columns out: "
        f"{dropping(range(len(said)), list(said))}.{''.join(remedies.values())}"
    )
