"""The command `kexpfam`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

__all__ = ["main", "when_imported"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, or say which extra it needs."""
    # A polite end cleans up like an interruption does; files are whole or not there.
    signal.signal(signal.SIGTERM, _terminated)
    # An exception in the middle of an import can be swallowed there, or crash what it leaves half
    # done. There is nothing to clean up before a command has begun.
    signal.signal(signal.SIGINT, _ended_at_once)
    _require_streams()
    try:
        import typer

        from kexpfam.cli.app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("The command line needs typer: pip install 'kexpfam[cli]'")
    try:
        code = app(prog_name="kexpfam", standalone_mode=False)
    except Exception as error:
        # Typer's own complaints about options and arguments.
        if not hasattr(error, "format_message"):
            raise
        typer.echo(_usage_line(error), err=True)
        code = getattr(error, "exit_code", 2)
    sys.exit(code or 0)


def _usage_line(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "kexpfam"
    text = " ".join(error.format_message().split()).removeprefix("Invalid value: ")
    # Some of Typer's sentences name the kind of error first and end without a full stop.
    text = text.replace(": Value error, ", ": ")
    end = "" if text.endswith((".", "?", "!")) else "."
    return f"Error: {text}{end} See: {command} --help"


def _require_streams() -> None:
    """Standard output must be there; what would go to a closed standard error goes nowhere."""
    closed = [number for number in (0, 1, 2) if not _is_open(number)]
    for _ in closed:
        # The lowest free number: the next file that is opened must not be taken for a stream.
        os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.exit("Error: standard output is closed, and there is nowhere to write results to.")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def when_imported() -> None:
    """From here on Ctrl-C is an exception, which a command answers in its own words."""
    if signal.getsignal(signal.SIGINT) is _ended_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _ended_at_once(*_: Any) -> None:
    os._exit(_INTERRUPTED)


def _terminated(*_: Any) -> None:
    sys.exit(128 + signal.SIGTERM)
