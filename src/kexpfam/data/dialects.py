"""How a file of text is written: its encoding, its separator and its decimal mark.

What a user gives (a `Dialect`) is used; the rest is detected from the beginning of the file.

* Encoding: a byte order mark, zeros in every other byte (UTF-16), or else UTF-8. What is none of
  these is read as Windows-1252, which Western European programs write, and that is said.
* Separator: the mark that cuts the most lines into the same number of cells, more than one.
* Decimal mark: a comma where it does not separate cells and stands in numbers that have no point.
  Numbers like 1,234 could also be thousands; among semicolons, which stand in for commas, they are
  decimals, and else they are left alone, and that is said.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kexpfam.data.words import is_number

__all__ = [
    "NAMED_SEPARATORS",
    "Dialect",
    "cut",
    "decimal_of",
    "decoded",
    "separator_of",
    "thousands_doubt",
]

# Words for marks that are awkward to type.
NAMED_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|",
                    "space": " "}  # fmt: skip
# In the order in which they are preferred: commas also stand in numbers and sentences.
_SEPARATORS = ("\t", ";", "|", ",")
_LINES = 100
_EMPTY = ("", '""', "''")
# Of the lines, this share must agree on the number of cells.
_AGREEING = 0.6
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_COMMA_NUMBER = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*")


class Dialect(NamedTuple):
    """What is known of files of text; None is recognized.

    | name      | meaning                                                   |
    |-----------|-----------------------------------------------------------|
    | separator | the mark between cells; " " is any number of spaces       |
    | decimal   | the mark before decimals, "." or ","                      |
    | encoding  | the name of a codec, such as "latin-1"                    |
    | header    | whether the first line holds the columns' names           |
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool | None = None


def decoded(raw: bytes, whole: bool, encoding: str | None, label: str) -> tuple[str, str, str]:
    """The text of a file's beginning, its encoding, and a doubt about that or nothing."""
    if encoding is not None:
        return _as_said(raw, whole, encoding, label), encoding, ""
    for mark, name in _MARKS:
        if raw.startswith(mark):
            return _as_said(raw, whole, name, label), name, ""
    if b"\0" in raw:
        unmarked = _utf16(raw)
        if unmarked is None:
            raise ValueError(
                f"{label} is not text: it contains zero bytes. If it is a table of another "
                "program, save it as CSV."
            )
        return _as_said(raw, whole, unmarked, label), unmarked, ""
    try:
        return _text(raw, whole, "utf-8"), "utf-8", ""
    except UnicodeDecodeError:
        pass
    try:
        text, name = _text(raw, whole, "cp1252"), "cp1252"
    except UnicodeDecodeError:
        text, name = _text(raw, whole, "latin-1"), "latin-1"
    return text, name, (
        f"{label} is not UTF-8 and was read as {_SPOKEN[name]}. Give --encoding if letters such as "
        "ä or é come out wrong."
    )  # fmt: skip


_SPOKEN = {"cp1252": "Windows-1252 (Western European)", "latin-1": "Latin-1 (Western European)"}


def _text(raw: bytes, whole: bool, encoding: str) -> str:
    """Decoded up to the last whole letter."""
    return codecs.getincrementaldecoder(encoding)().decode(raw, final=whole).removeprefix("\ufeff")


def _as_said(raw: bytes, whole: bool, encoding: str, label: str) -> str:
    try:
        return _text(raw, whole, encoding)
    except LookupError:
        raise ValueError(
            f"The encoding {encoding!r} is not known. Expected utf-8, utf-16, latin-1, cp1252 or "
            "another name of Python's codecs."
        ) from None
    except UnicodeError as error:
        place = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        raise ValueError(
            f"{label} is not text in the encoding {encoding}: it breaks off{place}. Give another "
            "--encoding, such as latin-1, or leave it out to have it recognized."
        ) from None


def _utf16(raw: bytes) -> str | None:
    """UTF-16 without a mark: of text in Western letters, every other byte is zero."""
    beginning = raw[:4096]
    zeros = [beginning[place::2].count(0) / max(1, len(beginning[place::2])) for place in (0, 1)]
    if max(zeros) < 0.4 or min(zeros) > 0.1:
        return None
    return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"


def cut(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """Lines as lists of cells; a space stands for any number of them. Empty lines are left out."""
    if separator == " ":
        lines = (line.strip() for line in lines)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator == " ")
    return (cells for cells in reader if cells)


def separator_of(every: list[str], n_skipped: int, suffix: str) -> str:
    """The mark between the cells of a table; a comma where there is one column.

    The first lines are no part of the table, but Excel may say there which mark it is.
    """
    for line in every[:n_skipped]:
        if line.lower().startswith("sep="):
            return line[4]
    lines = [line for line in every[n_skipped : n_skipped + _LINES] if line.strip()]
    below = [line for line in lines[1:] if line.strip() not in _EMPTY]
    if below and "," not in lines[0] and all(map(_COMMA_NUMBER.fullmatch, below)):
        return ";"  # one column, with decimal commas
    usual = {".tsv": "\t", ".tab": "\t", ".csv": ","}.get(suffix)
    found = {mark: _agreement(lines, mark) for mark in _SEPARATORS}
    able = [mark for mark, (share, _) in found.items() if share >= _AGREEING]
    if not able:
        share, width = _agreement(lines, " ")
        numbers = all(is_number(cell) for row in cut(lines[1:], " ") for cell in row)
        spaces = share > _AGREEING and width > 1 and (suffix not in (".csv", ".tsv") or numbers)
        return " " if spaces else usual or ","

    def merit(mark: str) -> tuple[bool, float, bool]:
        """A mark in the first line, many lines that agree, and what the file's name says."""
        return mark in lines[0], found[mark][0], mark == usual and mark != ","

    return max(able, key=merit)


def _agreement(lines: list[str], separator: str) -> tuple[float, int]:
    """The share of the lines that have the usual number of cells, and that number."""
    try:
        widths = Counter(len(cells) for cells in cut(lines, separator))
    except csv.Error:
        return 0.0, 0
    if not widths:
        return 0.0, 0
    width, count = widths.most_common(1)[0]
    return (count / widths.total() if width > 1 else 0.0), width


def decimal_of(rows: list[list[str]], separator: str) -> str:
    """The mark before decimals."""
    commas = [cell for row in rows for cell in row if _COMMA_NUMBER.fullmatch(cell)]
    if not commas or any("." in cell and is_number(cell) for row in rows for cell in row):
        return "."
    if separator != ";" and all(_THOUSANDS.fullmatch(cell) for cell in commas):
        return "."
    return ","


def thousands_doubt(rows: list[list[str]], decimal: str, label: str) -> str:
    """What to say if numbers may have thousands separators; nothing if none has."""
    if decimal != ".":
        return ""
    found = next((cell for row in rows for cell in row if _THOUSANDS.fullmatch(cell)), None)
    if found is None:
        return ""
    return (
        f"{label}: {found.strip()!r} was not taken for a number. If commas stand before decimals, "
        "give --decimal ','; if they separate thousands, take them out."
    )
