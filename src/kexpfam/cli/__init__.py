"""The command `kexpfam`."""

from __future__ import annotations

import signal
import sys
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which extra it needs."""
    # A polite end cleans up like an interruption does; files are whole or not there.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        import typer

        from kexpfam.cli.app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("The command line needs typer: pip install 'kexpfam[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
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


def _terminated(*_: Any) -> None:
    sys.exit(128 + signal.SIGTERM)
