"""What kind of file a name and its first bytes stand for, and its bytes without compression.

| kind      | names end in                              | what is in it                        |
|-----------|-------------------------------------------|--------------------------------------|
| "text"    | .csv, .tsv, .tab, .txt, .dat, .data       | rows of cells between separators     |
| "json"    | .jsonl, .ndjson, .json                    | an object for each row               |
| "excel"   | .xlsx, .xlsm                              | a workbook; its first sheet is read  |
| "parquet" | .parquet, .pq                             | a table with types                   |
| "ipc"     | .arrow, .feather, .ipc                    | a table with types                   |
| "npy"     | .npy                                      | an array of numbers                  |

Text and JSON may be compressed: .gz, .bz2, .xz, .zst, or one file in a .zip. Only Python itself is
needed here (and pyarrow for .zst).
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

from kexpfam.choices import nearest

__all__ = [
    "BROKEN",
    "COMPRESSED",
    "FORMATS",
    "decompressed",
    "kind_of",
    "known_file",
    "stored_as",
    "suffix",
]

FORMATS = {
    **{".csv": "text", ".tsv": "text", ".tab": "text"},
    **{".txt": "text", ".dat": "text", ".data": "text"},
    **{".jsonl": "json", ".ndjson": "json", ".json": "json"},
    **{".xlsx": "excel", ".xlsm": "excel"},
    **{".parquet": "parquet", ".pq": "parquet"},
    **{".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc", ".npy": "npy"},
}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
# What is raised while a damaged, encrypted or unfinished file is unpacked.
BROKEN = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError),
    *(zipfile.BadZipFile, RuntimeError, NotImplementedError),
)
# Tables that other programs keep, and how to get them out.
_FOREIGN = {
    ".xls": "Save it as .xlsx or CSV in a spreadsheet program.",
    ".xlsb": "Save it as .xlsx or CSV in a spreadsheet program.",
    ".ods": "Save it as .xlsx or CSV in a spreadsheet program.",
    **dict.fromkeys((".sav", ".dta", ".sas7bdat"), "Read it with pandas and save it as Parquet."),
    **dict.fromkeys((".rds", ".rda", ".rdata"), "In R, write.csv(table, 'rows.csv') makes a CSV."),
    **dict.fromkeys((".pkl", ".pickle"), "Give fit the data frame, or save it as Parquet."),
    **dict.fromkeys((".h5", ".hdf5", ".mat", ".npz"), "Save the array as .npy, or as a CSV."),
}
# The first bytes of files, and what they are.
_MAGIC = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip",
}
_STRANGERS = {
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"ARROW1": "an Arrow file; let its name end in .arrow",
    b"\x93NUMPY": "a NumPy array; let its name end in .npy",
    b"%PDF": "a PDF document; save the table itself",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save it as .xlsx or CSV",
    b"<!doctype html": "a web page; download the file that it links to",
    b"<html": "a web page; download the file that it links to",
}


def suffix(path: str | Path) -> str:
    """How a name ends, in small letters and without the end that says how it is compressed."""
    path = Path(str(path).lower())
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def kind_of(path: str | Path) -> str | None:
    """The kind of a file by its name; "foreign" is a table that cannot be read, None no table."""
    found = FORMATS.get(suffix(path))
    if found is None:
        return "foreign" if suffix(path) in _FOREIGN else None
    if Path(path).suffix.lower() in COMPRESSED and found not in ("text", "json"):
        return "foreign"
    return found


def known_file(path: Path) -> str:
    """The kind of a file that is there and can be read, or an error that says what to do."""
    kind = kind_of(path)
    if not path.exists():
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise FileNotFoundError(f"{path} does not exist{where}.{_nearest_file(path)}")
    if path.is_dir() and kind not in ("parquet", "ipc"):
        raise ValueError(
            f"{path} is a folder. Give its files, for instance "
            f"sorted(pathlib.Path({str(path)!r}).glob('*.parquet'))."
        )
    if kind == "foreign":
        if Path(path).suffix.lower() in COMPRESSED and suffix(path) in FORMATS:
            raise ValueError(f"{path} is compressed as a whole. Unpack it first.")
        raise ValueError(f"{path} is a {suffix(path)} file. {_FOREIGN[suffix(path)]}")
    if kind is None:
        raise ValueError(
            f"{path} is not a type of file that can be read. Expected a name ending in one of "
            f"{', '.join(FORMATS)}. Convert it first, or give fit a data frame."
        )
    if path.is_file():
        _require_readable(path)
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty. Leave it out, or write it again.")
    return kind


def _require_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except PermissionError as error:
        raise PermissionError(
            f"You are not allowed to read {path}. Ask its owner for the right to do so."
        ) from error


def _nearest_file(path: Path) -> str:
    """A question whether another file of the folder was meant."""
    if any(mark in path.name for mark in "*?["):
        return f" Patterns are not followed here: give sorted(glob.glob({str(path)!r}))."
    try:
        return nearest(path.name, [one.name for one in path.parent.iterdir()])
    except OSError:
        return ""


def stored_as(first: bytes) -> str | None:
    """The ending that goes with the first bytes of what has no name; None for plain text."""
    for magic, end in ((b"PAR1", ".parquet"), (b"ARROW1", ".arrow"), (b"\x93NUMPY", ".npy")):
        if first.startswith(magic):
            return end
    return ".jsonl" if first.lstrip()[:1] in (b"{", b"[") else None


def decompressed(path: Path) -> Any:
    """A binary file with the bytes of a file of text, unpacked, whatever its name says."""
    with path.open("rb") as file:
        first = file.read(16)
    packed = next((end for magic, end in _MAGIC.items() if first.startswith(magic)), None)
    try:
        opened = _OPENERS[packed](path) if packed is not None else path.open("rb")
        reader = opened if hasattr(opened, "peek") else io.BufferedReader(opened)
        content = reader.peek(64)[:64].lower()
    # Names in archives may be damaged, too.
    except (*BROKEN, UnicodeDecodeError) as error:
        raise damaged(path, error) from error
    for magic, what in _STRANGERS.items():
        if content.startswith(magic.lower()):
            reader.close()
            raise ValueError(f"{path} is not a text table but {what}.")
    return reader


def damaged(path: Path, error: Exception) -> ValueError:
    """What to say of a file whose compression is broken."""
    return ValueError(
        f"{path} cannot be unpacked ({str(error)[:100]}). Download or write it again."
    )


def _zip_member(path: Path) -> Any:
    # What is opened stays open when the archive is closed.
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        if "[Content_Types].xml" in names:
            raise ValueError(f"{path} is an Excel workbook; let its name end in .xlsx.")
        if len(names) != 1:
            shown = ", ".join(names[:4]) or "none"
            raise ValueError(
                f"{path} holds {len(names)} files ({shown}). Expected one: unpack it and name the "
                "file."
            )
        return archive.open(names[0])


def _zstandard(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pyarrow. Try: pip install 'kexpfam[files]'."
        ) from error
    return pyarrow.CompressedInputStream(str(path), "zstd")


_OPENERS: dict[str, Any] = {
    **{".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open},
    **{".zip": _zip_member, ".zst": _zstandard},
}
