"""Commands that show the method at work, with their options: demo, reproduce.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kexpfam.cli import when_imported
from kexpfam.cli.options import Debug, Json, Quiet, Seed
from kexpfam.cli.terminal import Terminal

__all__ = ["demo", "reproduce"]


def _densities(incomplete: str) -> list[str]:
    from kexpfam.datasets import DENSITIES

    return [name for name in DENSITIES if name.startswith(incomplete)]


def demo(
    density: Annotated[
        str,
        typer.Option(
            help="The embedded density: cosine, ring, banana, …", autocompletion=_densities
        ),
    ] = "cosine",
    rows: Annotated[int, typer.Option(min=20, help="The number of rows to fit.")] = 1000,
    seeds: Annotated[
        int, typer.Option(min=1, help="The number of times to draw rows and fit.")
    ] = 5,
    seed: Seed = 0,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The figure to write; an existing file is replaced."),
    ] = Path("kexpfam-demo.png"),
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit an embedded density with and without noise, print a table and draw a figure.

    Example: kexpfam demo --density mixture_of_rings --seeds 3
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.demo import run_demo

        when_imported()
        run_demo(density, rows, seeds, seed, output, terminal)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="A table or figure, or 'all' of those in the paper.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="The number of seeds.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use small sizes for a trial run.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder for the results.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the tables and figures.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Reproduce a table or figure of the paper, or one of ours.

    Results go to experiments/results (with --quick to experiments/results/quick) as JSON, a
    Markdown table and a picture. What is already in the JSON file is not run again, so an
    interrupted experiment continues where it stopped.

    Example: kexpfam reproduce figure_1 --quick
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.reproducing import list_experiments, run_experiments

        when_imported()
        if list_:
            list_experiments(terminal)
        else:
            run_experiments(name, runs, quick, output, terminal)
