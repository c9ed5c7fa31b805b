"""Compiled programs are kept on disk, and the time that compiling takes is counted.

The first fit of a shape (columns, components, base density) compiles for a few seconds. JAX can
keep programs in a folder, for the whole process; here it does so for the library's own programs
alone, while one of them is compiled, and has the user's settings again afterwards. A folder that
the user has given JAX (``JAX_COMPILATION_CACHE_DIR``, ``jax_compilation_cache_dir``) is used
instead, as it is. ``KEXPFAM_COMPILATIONS`` names another folder, or ``off``.

Programs are made for one kind of processor, and homes are shared by machines: folders are named
after the processor's abilities. A folder that cannot be written, a full disk or a damaged file
costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

__all__ = ["CLOCK", "compiling", "keep_compilations"]

_VARIABLE, _OFF = "KEXPFAM_COMPILATIONS", ("off", "0", "none", "")
# Programs that took less long to compile are not worth a file.
_WORTH_KEEPING_S = 0.05
# A folder with more bytes loses its oldest files, until half of that is left.
_MOST_BYTES = 1 << 29
_TROUBLE = "Error (reading|writing) persistent compilation cache"


class _Clock:
    """How many programs this process has compiled, or read from disk, and in how many seconds."""

    def __init__(self) -> None:
        self.programs, self.seconds = 0, 0.0


CLOCK = _Clock()


class _Keeping:
    """How many programs are being compiled now, and JAX's settings for as long."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.settings = contextlib.ExitStack()


_KEEPING = _Keeping()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """While a program is called for the first time: it is read from disk, or written to it."""
    start = time.perf_counter()
    with _on_disk():
        yield
    with _KEEPING.lock:
        CLOCK.programs += 1
        CLOCK.seconds += time.perf_counter() - start


@contextlib.contextmanager
def _on_disk() -> Iterator[None]:
    """JAX keeps what is compiled meanwhile, until the last of those who compile is done."""
    folder = _folder()
    if folder is None:
        yield
        return
    with _KEEPING.lock:
        if _KEEPING.users == 0:
            _KEEPING.settings.enter_context(_settings(folder))
        _KEEPING.users += 1
    try:
        yield
    finally:
        with _KEEPING.lock:
            _KEEPING.users -= 1
            if _KEEPING.users == 0:
                _KEEPING.settings.close()


@contextlib.contextmanager
def _settings(folder: Path) -> Iterator[None]:
    """JAX's settings for a folder, unless the user has given it another one."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    ours = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": _WORTH_KEEPING_S,
    }
    before = {name: getattr(jax.config, name) for name in ours}
    if before["jax_compilation_cache_dir"] is not None:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_TROUBLE)
        for name, value in ours.items():
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)  # type: ignore[no-untyped-call]
            # Else JAX would go on with a folder once found, whatever its settings say.
            compilation_cache.reset_cache()


@functools.cache
def _folder() -> Path | None:
    """Where programs are kept, with room for more; None if nowhere."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is not None and chosen.lower() in _OFF:
        return None
    folder = Path(chosen) if chosen is not None else _default_folder() / _processor()
    return folder if _is_writable(folder) else None


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    # A process without a home gets a folder that does not exist, and cannot be made.
    return Path(base or os.path.expanduser("~/.cache")) / "kexpfam" / "compiled"


def _processor() -> str:
    """A word for all processors that can run the same programs."""
    words = [platform.system(), platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        kinds = ("model name", "flags", "Features")
        words += sorted({line for line in lines if line.startswith(kinds)})
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
        _make_room(folder)
    except OSError:
        return False
    return True


def _make_room(folder: Path) -> None:
    """Removes the oldest files of a folder that has grown too large."""
    files = [(one.stat(), one.path) for one in os.scandir(folder) if one.is_file()]
    excess = sum(about.st_size for about, _ in files) - _MOST_BYTES
    if excess <= 0:
        return
    excess += _MOST_BYTES // 2
    for about, path in sorted(files, key=lambda one: one[0].st_mtime):
        if excess <= 0:
            return
        # Another process may have been faster.
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        excess -= about.st_size


def keep_compilations(folder: str | Path | None = None) -> Path:
    """Choose the folder in which compiled programs are kept for the next process.

    The first fit of a shape (columns, components, base density) compiles for a few seconds, once
    per machine: programs are kept on disk by default, in ``kexpfam/compiled`` in the user's cache
    folder. The environment variable ``KEXPFAM_COMPILATIONS`` names another folder, or turns this
    off (``off``). Where JAX has a folder of its own (``JAX_COMPILATION_CACHE_DIR``), that is used.

    Parameters
    ----------
    folder : path, optional
        By default what has been said above. Do not share it with people whom you do not trust:
        what lies there is run.

    Returns
    -------
    folder : Path

    Examples
    --------
    >>> import kexpfam
    >>> folder = kexpfam.keep_compilations()  # doctest: +SKIP
    """
    if folder is not None:
        os.environ[_VARIABLE] = str(folder)
        _folder.cache_clear()
    chosen = _folder()
    if chosen is None:
        raise OSError(
            "Compiled programs cannot be kept: the folder cannot be written, or the environment "
            f"variable {_VARIABLE} turns it off. Try another folder."
        )
    return chosen
