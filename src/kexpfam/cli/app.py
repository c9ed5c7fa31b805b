"""Commands and their options; the work is done elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kexpfam
from kexpfam.cli.demo import run_demo
from kexpfam.datasets import DENSITIES
from kexpfam.experiments import EXPERIMENTS, PAPER, Options, reproduce, write_page
from kexpfam.progress import Progress

__all__ = ["app"]

app = typer.Typer(
    help="Density and score estimation with kernel exponential families, in closed form.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kexpfam {kexpfam.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Density and score estimation with kernel exponential families, in closed form."""


@app.command()
def demo(
    density: Annotated[str, typer.Option(help=f"One of: {', '.join(DENSITIES)}.")] = "cosine",
    rows: Annotated[int, typer.Option(min=20, help="Rows to draw and fit.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("kexpfam-demo.png"),
) -> None:
    """Fit an embedded density with and without noise, print a table and draw a figure.

    Example: kexpfam demo --density mixture_of_rings --seed 3
    """
    if density not in DENSITIES:
        raise typer.BadParameter(f"{density!r} is not one of: {', '.join(DENSITIES)}.")
    try:
        run_demo(density, rows, seed, output)
    except OSError as error:
        typer.echo(f"Cannot write {output}: {error.strerror or error}", err=True)
        raise typer.Exit(1) from None


def _list_experiments(wanted: bool) -> None:
    if wanted:
        for experiment in EXPERIMENTS.values():
            whose = "paper" if experiment.name in PAPER else "ours"
            typer.echo(f"{experiment.name:<14} {whose:<6} {experiment.title}")
        raise typer.Exit


@app.command("reproduce")
def reproduce_command(
    name: Annotated[str, typer.Argument(help="Which table or figure, or 'all' of the paper's.")],
    runs: Annotated[int | None, typer.Option(min=1, help="Seeds, where there are several.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see it run.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", callback=_list_experiments, is_eager=True, help="What there is."),
    ] = False,
) -> None:
    """Reproduce a table or figure of the paper, or one of ours.

    Results go to experiments/results (with --quick to experiments/results/quick) as JSON, a
    Markdown table and a picture. What is already in the JSON file is not run again: an interrupted
    experiment goes on where it stopped.

    Example: kexpfam reproduce figure_1 --quick
    """
    if name != "all" and name not in EXPERIMENTS:
        raise typer.BadParameter(f"{name!r} is not 'all' or one of: {', '.join(EXPERIMENTS)}.")
    folder = output or Path("experiments/results") / ("quick" if quick else "")
    for chosen in PAPER if name == "all" else [name]:
        table = reproduce(EXPERIMENTS[chosen], Options(runs, quick), folder, Progress(True))
        typer.echo(table.read_text("utf-8"))
    write_page(EXPERIMENTS.values(), folder)
