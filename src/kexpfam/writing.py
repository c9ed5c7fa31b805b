"""Files that are written as a whole or not at all, and whose damage is detected."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np

__all__ = ["digest", "whole_file"]

# Not all systems have these.
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends well and vanishes when not.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "table.csv") as part:
    ...     _ = part.write_text("a,b")
    >>> [found.name for found in folder.iterdir()]
    ['table.csv']
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        # A device or pipe cannot be replaced by a file; a folder says so itself when opened.
        yield target
        return
    target = target.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "There is no such folder to write to", str(target.parent)
        )
    _remove_stale(target)
    part = target.parent / f".{target.stem}.{secrets.token_hex(8)}.part{target.suffix}"
    # Nobody else's file, and with the rights of any new file of this process.
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _lock(handle)
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _remove_stale(target: Path) -> None:
    """Remove what processes that were killed have left beside a file."""
    for part in target.parent.glob(
        f".{glob.escape(target.stem)}.*.part{glob.escape(target.suffix)}"
    ):
        with contextlib.suppress(OSError):
            # In a folder of many users it may be anybody's pipe, or a link to anywhere.
            handle = os.open(part, os.O_RDONLY | _NO_WAITING)
            try:
                # Whoever still writes holds a lock, which ends with its process.
                if _lock(handle):
                    part.unlink(missing_ok=True)
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file; whether nobody else has it, as far as the system knows."""
    try:
        import fcntl
    except ImportError:  # Only POSIX systems have such locks.
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def digest(notes: dict[str, str], arrays: dict[str, np.ndarray]) -> str:
    """The digest of everything in a file except the digest itself."""
    hashed = hashlib.sha256()
    for name in sorted(set(notes) - {"digest"}):
        hashed.update(json.dumps([name, notes[name]]).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hashed.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        hashed.update(array.tobytes())
    return hashed.hexdigest()
