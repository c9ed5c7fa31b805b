"""Commands and their options; the work is done elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kexpfam
from kexpfam.cli.demo import run_demo
from kexpfam.datasets import DENSITIES

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
