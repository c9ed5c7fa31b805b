"""`kexpfam info`: what is in a model file."""

from __future__ import annotations

from pathlib import Path

from kexpfam.cli.models import described, loaded, shown
from kexpfam.cli.terminal import Terminal
from kexpfam.store import read_model_file
from kexpfam.version import __version__

__all__ = ["describe_model"]


def describe_model(path: str, terminal: Terminal) -> None:
    """Kind, columns, settings, what was fitted, health and versions."""
    model = loaded(path, terminal)
    versions = {
        "written_by": f"kexpfam {read_model_file(Path(path)).library_version}",
        "read_by": f"kexpfam {__version__}",
    }
    size = Path(path).stat().st_size
    description = {"path": path, "bytes": size, **described(model), "versions": versions}
    terminal.result(description, [f"{path} ({size / 1e6:.2g} MB)", *shown(description)])
