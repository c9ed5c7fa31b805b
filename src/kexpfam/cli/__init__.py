"""The command `kexpfam`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        from kexpfam.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "matplotlib"}:
            raise
        sys.exit(f"The command line needs {error.name}: pip install 'kexpfam[all]'")
    app(prog_name="kexpfam")
