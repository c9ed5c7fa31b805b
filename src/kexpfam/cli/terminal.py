"""What a command says and how it ends.

Results go to standard output; remarks, warnings, progress and errors to standard error. With
`--json` the result is one JSON object, and its readable form a remark. A command ends with

| code | when                                                              |
|------|-------------------------------------------------------------------|
| 0    | it did what was asked                                             |
| 1    | files, rows or settings cannot be used, or the library is at fault |
| 2    | options or arguments are wrong                                    |
| 3    | a verdict that was asked for as a code (`--fail-below`)           |
| 130  | it was interrupted (Ctrl-C)                                       |
| 141  | whoever read its output has gone (`| head`)                       |
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import typer
from rich.console import Console

from kexpfam.progress import Progress

__all__ = ["STANDARD_OUTPUT", "Terminal"]

STANDARD_OUTPUT = "standard output"

_USER_ERRORS = (ValueError, OSError, ImportError, MemoryError)


class Terminal:
    """Speaks for one command: results, remarks, warnings, and its end."""

    def __init__(self, as_json: bool = False, quiet: bool = False, debug: bool = False) -> None:
        self.as_json, self.quiet, self.debug = as_json, quiet, debug
        self.lively = sys.stderr.isatty() and not quiet
        self.progress = Progress(self.lively)
        self.when_interrupted: Callable[[], str] = str
        self._warned: list[str] = []
        self._kinds: Counter[str] = Counter()
        self._warnings = warnings.catch_warnings()

    # -- speaking -------------------------------------------------------------------------------

    def result(self, record: Mapping[str, Any], lines: Sequence[str]) -> None:
        """The answer: as JSON where that is wanted, and as lines of text."""
        if self.as_json:
            for line in lines:
                self.remark(line)
            whole = {**record, "warnings": self._warned}
            typer.echo(json.dumps(_plain(whole), ensure_ascii=False, allow_nan=False))
        else:
            for line in lines:
                typer.echo(line)

    def done(self, record: Mapping[str, Any], lines: Sequence[str]) -> None:
        """The end of work whose result is a file: remarks, and a JSON object where wanted."""
        if self.as_json:
            self.result(record, lines)
        else:
            for line in lines:
                self.remark(line)

    def remark(self, text: str) -> None:
        """A line on standard error that `--quiet` silences."""
        if not self.quiet:
            typer.echo(text, err=True)

    def warn(self, text: str, kind: str = "") -> None:
        """A warning; of one kind, only the first is shown, and how many followed at the end."""
        text = _one_line(text)
        if text in self._warned:
            return
        self._warned.append(text)
        self._kinds[kind or text] += 1
        if self._kinds[kind or text] == 1:
            typer.secho(f"Warning: {text}", fg="yellow", err=True)

    @contextlib.contextmanager
    def working(self, label: str) -> Iterator[None]:
        """A sign of life for work without a bar."""
        if not self.lively:
            yield
            return
        with Console(stderr=True).status(label):
            yield

    # -- beginning and end ----------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._warnings.__enter__()
        warnings.showwarning = self._show_warning  # type: ignore[assignment]
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._warnings.__exit__(None, None, None)
        if error is None:
            try:
                sys.stdout.flush()
                self._count_warnings()
                return
            except OSError as failed:
                error = failed
        if isinstance(error, BrokenPipeError):
            _abandon_output()
            raise typer.Exit(141) from error
        if isinstance(error, KeyboardInterrupt):
            typer.echo(f"Interrupted. {self.when_interrupted()}".strip(), err=True)
            raise typer.Exit(130) from error
        if not isinstance(error, Exception) or isinstance(error, typer.Exit):
            return
        if hasattr(error, "format_message"):
            return
        if self.debug:
            traceback.print_exception(error)
        typer.secho(f"Error: {_explained(error)}", fg="red", err=True)
        if isinstance(error, OSError) and error.filename in (None, STANDARD_OUTPUT):
            _abandon_output()
        raise typer.Exit(1) from error

    def _show_warning(self, message: Warning | str, category: type[Warning], *_: Any) -> None:
        self.warn(str(message), category.__name__)

    def _count_warnings(self) -> None:
        for kind, count in self._kinds.items():
            if count > 1:
                self.remark(f"({count - 1} more warnings of type {kind}.)")


def _explained(error: Exception) -> str:
    """One line for the user."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "Out of memory. Try fewer components, or fewer rows at a time."
    if isinstance(error, OSError) and error.strerror:
        named = STANDARD_OUTPUT if error.filename is None else os.fsdecode(error.filename)
        return f"{named}: {error.strerror}."
    if isinstance(error, _USER_ERRORS):
        return _one_line(str(error))
    what = _one_line(f"{type(error).__name__}: {error}")
    return f"A fault in kexpfam ({what}). Run the command again with --debug to see where."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _abandon_output() -> None:
    """Point standard output elsewhere: Python would try to write the rest when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: Any) -> Any:
    """A value as JSON has it: arrays as lists, numbers that are none as null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
