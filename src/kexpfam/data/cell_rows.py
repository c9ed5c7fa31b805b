"""The rows of a file as cells of text, one after the other: separated text, JSON and Excel.

This reads the beginning of every file, and all of JSON, Excel and columns between spaces. (All of
other text is read by pyarrow, which is faster.)
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kexpfam.data.dialects import cut
from kexpfam.data.file_kinds import BROKEN, damaged, decompressed

__all__ = ["excel_doubt", "excel_rows", "json_records", "json_rows", "text_rows"]

# Letters in a line, at the most: a file of one endless line would be held in memory as a whole.
_LONGEST = 16_000_000


def _lines(file: io.TextIOWrapper, path: Path) -> Iterator[str]:
    for number in itertools.count(1):
        line = file.readline(_LONGEST)
        if len(line) == _LONGEST:
            raise ValueError(
                f"{path}: line {number} has more than {_LONGEST:,} characters. Expected a row in "
                "each line. Perhaps the file is damaged there."
            )
        if not line:
            return
        yield line


def text_rows(path: Path, encoding: str, separator: str, n_skipped: int = 0) -> Iterator[list[str]]:
    """The lines of a file of text, the names among them, without so many at the beginning."""
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        with io.TextIOWrapper(decompressed(path), codec, newline="") as file:
            yield from cut(itertools.islice(_lines(file, path), n_skipped, None), separator)
    except csv.Error as error:
        raise ValueError(
            f"{path} cannot be split into cells ({error}). Perhaps a quotation mark is not closed."
        ) from error
    except UnicodeError as error:
        raise ValueError(
            f"{path} is not in the encoding {encoding} throughout ({error}). Give --encoding, such "
            "as latin-1."
        ) from error
    except BROKEN as error:
        raise damaged(path, error) from error


# -- JSON ---------------------------------------------------------------------------------------


def json_records(path: Path, encoding: str | None = None) -> Iterator[dict[str, Any]]:
    """Objects, one on each line, or all in one list."""
    with decompressed(path) as file:
        is_list = file.peek(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        with io.TextIOWrapper(file, encoding or "utf-8-sig") as text:
            try:
                yield from _list_of_records(text, path) if is_list else _records(text, path)
            except UnicodeError as error:
                raise ValueError(
                    f"{path} is not in the encoding {encoding or 'utf-8'} ({error}). Give "
                    "--encoding, such as utf-16."
                ) from error
            except BROKEN as error:
                raise damaged(path, error) from error


# Besides what is no JSON: numbers of thousands of digits, and lists in lists in lists.
_NO_JSON = (ValueError, RecursionError)


def _said(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number has too many digits"


def _records(text: io.TextIOWrapper, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_lines(text, path), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except _NO_JSON as error:
            raise ValueError(
                f"{path}: line {number} is not valid JSON ({_said(error)}). Expected an object on "
                "each line, or one list of objects."
            ) from None
        yield _checked(record, f"{path}: line {number}")


def _list_of_records(text: io.TextIOWrapper, path: Path) -> Iterator[dict[str, Any]]:
    try:
        records = json.load(text)
    except UnicodeError:
        raise
    except _NO_JSON as error:
        where = f": line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"{path}{where} is not valid JSON ({_said(error)}).") from None
    for number, record in enumerate(records, start=1):
        yield _checked(record, f"{path}: entry {number}")


def _checked(record: Any, where: str) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError(
            f"{where} is not an object with names and values. Expected one like "
            '{"length": 1.5, "kind": "pike"} for each row.'
        )
    for name, value in record.items():
        if isinstance(value, (dict, list)):
            raise ValueError(
                f"{where} holds {'a list' if isinstance(value, list) else 'an object'} under "
                f"{name!r}. Expected single values: give lists and objects columns of their own."
            )
    return record


def json_rows(path: Path, encoding: str | None, names: list[str]) -> Iterator[list[str]]:
    """The values under the names, as text; nothing where an object does not have one."""
    known = set(names)
    for number, record in enumerate(json_records(path, encoding), start=1):
        strangers = record.keys() - known
        if strangers:
            raise ValueError(
                f"{path}: row {number} has a value under {min(strangers)!r}, which no row at the "
                "beginning has. Let the first row have all names, with null where nothing is."
            )
        yield [as_text(record.get(name)) for name in names]


# -- Excel --------------------------------------------------------------------------------------


def excel_rows(path: Path) -> Iterator[list[str]]:
    """The lines of the first sheet that are not empty."""
    with _workbook(path) as book:
        for row in book.worksheets[0].iter_rows(values_only=True):
            cells = [as_text(value) for value in row]
            if any(cells):
                yield cells


def excel_doubt(path: Path) -> str:
    """What to say if there are several sheets; nothing if there is one."""
    with _workbook(path) as book:
        names = book.sheetnames
    if len(names) == 1:
        return ""
    return (
        f"{path.name} has {len(names)} sheets, and the first, {names[0]!r}, was read. Save another "
        "one as a file of its own to read it."
    )


@contextmanager
def _workbook(path: Path) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs openpyxl. Try: pip install 'kexpfam[excel]', or save the sheet "
            "as CSV."
        ) from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:
        # What a broken archive raises is of many kinds.
        raise ValueError(f"{path} cannot be read as an Excel workbook: {error}") from error
    try:
        yield book
    finally:
        book.close()


def as_text(value: Any) -> str:
    """A value as a CSV would have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (datetime.datetime, datetime.date)):
        text = value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else str(value)
        return text.removesuffix(" 00:00:00")
    return str(value)
