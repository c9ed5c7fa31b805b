"""Commands that describe a model, with their options: info, report.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kexpfam.cli import when_imported
from kexpfam.cli.first_look import first_look, is_data
from kexpfam.cli.options import (
    Columns,
    Debug,
    Exclude,
    Force,
    Json,
    Kinds,
    ModelPath,
    Quiet,
    Seed,
    reads_tables,
)
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect

__all__ = ["info", "report"]


def info(
    model: ModelPath, as_json: Json = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Show what a model file holds: its columns, settings, fitted values, health and versions.

    Example: kexpfam info model.kexpfam --json
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.describing import describe_model

        when_imported()
        describe_model(model, terminal)


@reads_tables
def report(
    subject: Annotated[
        list[str], typer.Argument(metavar="MODEL|DATA", help="A model file, or data files.")
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="With a model: the rows to judge it by."),
    ] = None,
    columns: Columns = None,
    exclude: Exclude = None,
    estimator: Annotated[
        Literal["chain", "diffusion", "family"] | None,
        typer.Option(help="With data: the estimator to fit, KernelChain by default."),
    ] = None,
    kinds: Kinds = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The HTML page to write.")
    ] = "report.html",
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Write a report about a model, or fit a model to data and write a report about it.

    The report is one HTML page that opens offline.

    Examples:

      kexpfam report rows.csv -o rows.html --exclude id

      kexpfam report model.kexpfam --data fresh.csv -o model.html
    """
    with Terminal(as_json, quiet, debug) as terminal:
        is_table = all(map(is_data, subject))
        takes = "tables" if estimator in (None, "chain") else "numbers"
        first_look(
            subject if is_table else data or [],
            dialect,
            **{"columns": columns, "exclude": exclude},
            takes=takes if is_table else None,
            kinds=[one.partition("=")[0] for one in kinds or ()],
        )
        from kexpfam.cli.reporting import Subject, report_on

        when_imported()
        chosen = Subject(subject, data or [], columns, exclude, estimator, kinds or [], dialect)
        report_on(chosen, output, terminal, title=title, seed=seed, force=force)
