"""`kexpfam reproduce`: the paper's tables and figures, and ours."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

import kexpfam
from kexpfam.choices import nearest
from kexpfam.cli.terminal import Terminal

__all__ = ["list_experiments", "run_experiments"]


def _experiments() -> Any:
    """The experiments, which are part of the repository and not of the installed package."""
    folder = Path(kexpfam.__file__).parents[2] / "experiments"
    if not (folder / "kexpfam_experiments").is_dir():
        raise typer.BadParameter(
            "The experiments are not part of the installed package. Clone the repository, run "
            "'make install' there, and run '.venv/bin/kexpfam reproduce'."
        )
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return import_module("kexpfam_experiments")


def list_experiments(terminal: Terminal) -> None:
    """Name, whose, and title of each."""
    found = _experiments()
    listed = [
        {
            "name": experiment.name,
            "whose": "paper" if experiment.name in found.PAPER else "ours",
            "title": experiment.title,
        }
        for experiment in found.EXPERIMENTS.values()
    ]
    lines = [f"{one['name']:<14} {one['whose']:<6} {one['title']}" for one in listed]
    terminal.result({"experiments": listed}, lines)


def run_experiments(
    name: str | None, runs: int | None, quick: bool, output: Path | None, terminal: Terminal
) -> None:
    """Run one experiment, or all of the paper's, and print the tables."""
    found = _experiments()
    names = list(found.EXPERIMENTS)
    if name is None:
        raise typer.BadParameter(f"Name one of {', '.join(names)}, or 'all'.")
    if name != "all" and name not in names:
        raise typer.BadParameter(
            f"{name!r} is not 'all' or one of: {', '.join(names)}.{nearest(name, names)}"
        )
    folder = output or Path("experiments/results") / ("quick" if quick else "")
    tables = {}
    terminal.when_interrupted = lambda: "The same command goes on where it stopped."
    for chosen in found.PAPER if name == "all" else [name]:
        tables[chosen] = found.reproduce(
            found.EXPERIMENTS[chosen], found.Options(runs, quick), folder, terminal.progress
        )
    found.write_page(found.EXPERIMENTS.values(), folder)
    record = {"folder": str(folder), "tables": {name: str(path) for name, path in tables.items()}}
    terminal.result(record, [path.read_text("utf-8") for path in tables.values()])
