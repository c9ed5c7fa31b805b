"""`kexpfam reproduce`: the paper's tables and figures, and ours."""

from __future__ import annotations

from pathlib import Path

import typer

from kexpfam.choices import nearest
from kexpfam.cli.models import ready
from kexpfam.cli.terminal import Terminal
from kexpfam.experiments import EXPERIMENTS, PAPER, Options, reproduce, write_page

__all__ = ["list_experiments", "run_experiments"]


def list_experiments(terminal: Terminal) -> None:
    """Name, whose, and title of each."""
    listed = [
        {
            "name": experiment.name,
            "whose": "paper" if experiment.name in PAPER else "ours",
            "title": experiment.title,
        }
        for experiment in EXPERIMENTS.values()
    ]
    lines = [f"{one['name']:<14} {one['whose']:<6} {one['title']}" for one in listed]
    terminal.result({"experiments": listed}, lines)


def run_experiments(
    name: str | None, runs: int | None, quick: bool, output: Path | None, terminal: Terminal
) -> None:
    """Run one experiment, or all of the paper's, and print the tables."""
    if name is None:
        raise typer.BadParameter(f"Name one of {', '.join(EXPERIMENTS)}, or 'all'.")
    if name != "all" and name not in EXPERIMENTS:
        raise typer.BadParameter(
            f"{name!r} is not 'all' or one of: {', '.join(EXPERIMENTS)}."
            f"{nearest(name, EXPERIMENTS)}"
        )
    folder = output or Path("experiments/results") / ("quick" if quick else "")
    tables = {}
    terminal.when_interrupted = lambda: "The same command goes on where it stopped."
    ready()
    for chosen in PAPER if name == "all" else [name]:
        tables[chosen] = reproduce(
            EXPERIMENTS[chosen], Options(runs, quick), folder, terminal.progress
        )
    write_page(EXPERIMENTS.values(), folder)
    record = {"folder": str(folder), "tables": {name: str(path) for name, path in tables.items()}}
    terminal.result(record, [path.read_text("utf-8") for path in tables.values()])
