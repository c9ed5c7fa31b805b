"""The beginning of a file: how it is written, which columns it has, and its first rows.

Everything that is wrong with them is found here, with Python alone and in a moment, so that a
command can refuse it before anything large is imported.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kexpfam.data.cell_rows import excel_doubt, excel_rows, json_records, json_rows, text_rows
from kexpfam.data.dialects import Dialect, cut, decimal_of, decoded, separator_of, thousands_doubt
from kexpfam.data.file_kinds import BROKEN, damaged, decompressed, known_file, suffix
from kexpfam.data.layouts import Layout, arranged, n_lines_before, names_in_comment, ragged
from kexpfam.data.words import Seen, looked_at

__all__ = ["FirstRows", "first_rows"]

# Bytes in which the encoding is recognized, letters that are cut into rows, and rows.
_SCANNED, _LETTERS, _ROWS = 8_000_000, 1_000_000, 10_000


@dataclass(frozen=True, eq=False)
class FirstRows:
    """What is known of a file of text, JSON or Excel, and its first rows.

    | name      | meaning                                                                    |
    |-----------|----------------------------------------------------------------------------|
    | dialect   | encoding, separator, decimal mark and header, as given or recognized       |
    | layout    | the columns of the file, and which are taken                               |
    | rows      | cells of the columns that are taken                                        |
    | is_whole  | whether these are all rows                                                 |
    | n_skipped | lines before the table: empty ones, comments, and Excel's `sep=`           |
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

    @cached_property
    def columns(self) -> dict[str, Sequence[str]]:
        """The cells of the columns in the first rows, by their names."""
        taken = self.layout.taken
        if not self.rows:
            return dict.fromkeys(taken, ())
        return dict(zip(taken, zip(*self.rows, strict=True), strict=True))

    @cached_property
    def seen(self) -> dict[str, Seen]:
        """What the columns hold in the first rows."""
        return {name: looked_at(cells, self.decimal) for name, cells in self.columns.items()}

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
    lines = list(io.StringIO(text[:_LETTERS], newline=""))
    n_skipped = n_lines_before(lines)
    if not is_whole and n_skipped >= len(lines) - 1:
        raise ValueError(
            f"{path} has no line that ends within its first {len(text[:_LETTERS]):,} "
            "characters. Expected a table with a row in each line. If rows are separated by "
            "something else, write it again."
        )
    if n_skipped == len(lines):
        raise ValueError(f"{path} holds no table. Leave it out, or write it again.")
    separator = dialect.separator or separator_of(lines, n_skipped, suffix(path))
    cells = []
    try:
        for row in cut(lines[n_skipped:], separator):
            cells.append(row)
            if len(cells) > _ROWS:
                is_whole = False
                break
    except csv.Error as error:
        raise ValueError(
            f"{path} cannot be split into cells ({error}). Perhaps a quotation mark is not closed."
        ) from error
    if not is_whole and len(cells) > 1:
        cells.pop()  # it may have been cut off
    elif quoted and text.count('"') % 2 and any("\n" in cell for cell in cells[-1]):
        raise ValueError(f"{path}: a quotation mark in row {len(cells) - 1} is not closed.")
    decimal = dialect.decimal or decimal_of(cells, separator)
    layout = arranged(cells, dialect.header, decimal, path.name)
    above = names_in_comment(lines[:n_skipped], separator, len(layout.names))
    if above is not None and not layout.header and dialect.header is None:
        cells, n_skipped = [above, *cells], n_skipped - 1
        layout = arranged(cells, True, decimal, path.name)
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
        rows = text_rows(
            found.path, known.encoding or "utf-8", known.separator or ",", found.n_skipped
        )
    yield from itertools.islice(rows, 1 if found.layout.header else 0, None)
