"""Where the file of a table comes from: the user's folder, the cache, or the UCI repository.

| place                                        | used when                                       |
|----------------------------------------------|-------------------------------------------------|
| the folder that ``KEXPFAM_DATA`` names       | the file is there                               |
| the user's cache                             | an earlier download is there, still intact      |
| archive.ics.uci.edu, kept in the user's cache | neither holds the file                         |

What is pinned is the file inside the archive, not the archive: a repository may pack the same
file anew, and the same check then serves all three places. Reading *is* checking
(`Source.read` raises `ValueError` for anything but the original), and a download moves into
the cache only after it was read: what fails the check is never kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Generic, TypeVar

__all__ = ["FOLDER_VARIABLE", "UCI_ADDRESS", "Source", "check_sha256", "in_folder", "obtain"]

FOLDER_VARIABLE = "KEXPFAM_DATA"
UCI_ADDRESS = "https://archive.ics.uci.edu/static/public"

# Between two packets, not for the whole file.
_TIMEOUT_SECONDS = 30.0

T = TypeVar("T")


@dataclass(frozen=True)
class Source(Generic[T]):
    """One file of the UCI repository.

    Attributes
    ----------
    path : str
        Its place in the folder and in the cache.
    archive : str
        The zip file that holds it, relative to `UCI_ADDRESS`.
    read : callable
        Path → contents; raises `ValueError` if the file is not the original.
    """

    path: str
    archive: str
    read: Callable[[Path], T]


def check_sha256(path: Path, expected: str) -> None:
    """Raise `ValueError` unless the file's digest is the pinned one."""
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != expected:
        raise ValueError(
            f"{path.name} is not the original file: expected sha256 {expected}, got {found}."
        )


def in_folder(path: str) -> Path | None:
    """The file in the user's folder, or None if it is not there or no folder is named."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{FOLDER_VARIABLE} names {named!r}, which is not a folder. Expected a folder that "
            f"holds {path}; unset the variable to download the file instead."
        )
    return folder / path if (folder / path).is_file() else None


def obtain(source: Source[T]) -> T:
    """The contents of a file, from the first place that has it."""
    local = in_folder(source.path)
    if local is not None:
        return source.read(local)
    cached = _cache_folder() / source.path
    if cached.is_file():
        # A file damaged since it was kept is as good as none.
        with contextlib.suppress(ValueError):
            return source.read(cached)
        cached.unlink()
    return _downloaded(source, cached)


def _downloaded(source: Source[T], destination: Path) -> T:
    address = f"{UCI_ADDRESS}/{source.archive}"
    fetch = _pooch().HTTPDownloader(timeout=_TIMEOUT_SECONDS)
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Beside the destination, so that the move is one rename within a file system.
    with TemporaryDirectory(dir=destination.parent) as scratch:
        archive, extracted = Path(scratch, "archive.zip"), Path(scratch, destination.name)
        try:
            fetch(address, str(archive), None)
        except OSError as error:  # what requests raises for any failure, too
            raise ConnectionError(
                f"{destination.name} could not be downloaded from {address} ({error}). Without a "
                f"connection, set the environment variable {FOLDER_VARIABLE} to a folder that "
                f"holds the file as {source.path}."
            ) from error
        try:
            _extract(archive, extracted)
            contents = source.read(extracted)
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(
                f"What {address} sent for {destination.name} is damaged or has changed, and "
                f"nothing of it was kept. Try again, or set {FOLDER_VARIABLE} to a folder that "
                f"holds the original as {source.path}. The check said: {error}"
            ) from error
        extracted.replace(destination)
    return contents


def _extract(archive: Path, destination: Path) -> None:
    """Write the member of that name, in whatever folder of the archive it lies."""
    with zipfile.ZipFile(archive) as members:
        named = [name for name in members.namelist() if Path(name).name == destination.name]
        if not named:
            raise ValueError(f"The archive holds no {destination.name}.")
        with members.open(named[0]) as stream, destination.open("wb") as out:
            shutil.copyfileobj(stream, out)


def _cache_folder() -> Path:
    return Path(_pooch().os_cache("kexpfam"))


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "Downloading tables needs pooch: pip install 'kexpfam[datasets]'. Or set "
            f"{FOLDER_VARIABLE} to a folder that holds the files."
        ) from error
    return pooch
