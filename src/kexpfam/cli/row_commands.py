"""Commands that take a model to rows, with their options: score, predict, sample, impute.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kexpfam.cli import when_imported
from kexpfam.cli.first_look import first_look
from kexpfam.cli.options import (
    DataPaths,
    Debug,
    Force,
    Json,
    ModelPath,
    Quiet,
    Require,
    Seed,
    TableOutput,
    reads_tables,
)
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect

__all__ = ["impute", "predict", "sample", "score"]


@reads_tables
def score(
    model: ModelPath,
    data: DataPaths,
    output: TableOutput = "-",
    gradient: Annotated[
        bool, typer.Option("--gradient", help="Also write the gradient of the log density.")
    ] = False,
    laplacian: Annotated[
        bool, typer.Option("--laplacian", help="Also write the Laplacian of the log density.")
    ] = False,
    surprise: Annotated[
        bool,
        typer.Option(
            "--surprise",
            help="Also write how surprising each value is, given the other values of its row "
            "(not for a KernelChain).",
        ),
    ] = False,
    contributions: Annotated[
        bool,
        typer.Option(
            "--contributions",
            help="Also write how much each column adds to the log density of a KernelChain, given "
            "the columns before it.",
        ),
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Compute the log density of every row, or of its target given the other columns.

    Columns are found by name, in any order; others are ignored. The output has the row's number,
    counted from 1, and `log_density`. With the options it also has `gradient_NAME` (for columns
    that have a density), `laplacian`, `surprise_NAME` (3 for a value as unusual as one in twenty,
    given the rest of the row; 4.6 for one in a hundred) and `contribution_NAME`, the terms of the
    chain rule, which add up to the log density. Memory does not grow with the data.

    Examples:

      kexpfam score model.kexpfam rows.csv -o scores.parquet --contributions

      cat rows.csv | kexpfam score model.kexpfam - | sort -t, -k2 -g | head
    """
    with Terminal(as_json, quiet, debug) as terminal:
        first_look(data, dialect)
        from kexpfam.cli.scoring import Wanted, score_rows

        when_imported()
        wanted = Wanted(gradient, laplacian, surprise, contributions)
        score_rows(model, data, output, terminal, wanted, force=force, dialect=dialect)


@reads_tables
def predict(
    model: ModelPath,
    data: DataPaths,
    output: TableOutput = "-",
    interval: Annotated[
        float,
        typer.Option(min=0.01, max=0.99, help="The coverage probability of the interval."),
    ] = 0.9,
    quantiles: Annotated[
        str | None, typer.Option(metavar="P,P,…", help="Also write these quantiles.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Predict the target of every row, with an interval.

    The model must have been fitted with `--target`. Columns are found by name, in any order; others
    are ignored. The output has the row's number, counted from 1, the `mean` and the
    `standard_deviation` of the target, and the `lower` and `upper` end of an interval that contains
    it with the given probability. Memory does not grow with the data.

    Examples:

      kexpfam predict prices.kexpfam houses.csv -o prices.csv --interval 0.9

      kexpfam predict prices.kexpfam houses.csv --quantiles 0.1,0.5,0.9
    """
    with Terminal(as_json, quiet, debug) as terminal:
        first_look(data, dialect)
        from kexpfam.cli.predicting import predict_rows

        when_imported()
        predict_rows(
            model,
            data,
            output,
            terminal,
            interval=interval,
            quantiles=quantiles,
            force=force,
            dialect=dialect,
        )


@reads_tables
def sample(
    model: ModelPath,
    n_rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            "-n",
            min=1,
            help="The number of rows to draw, 1000 by default; with --given, the number of draws "
            "for each row of the file, 1 by default.",
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Rows to complete: the target, or the columns that the file lacks, are drawn.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A value for all rows; the other columns are drawn given it (repeatable).",
        ),
    ] = None,
    require: Require = None,
    privacy: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="TRAIN HELDOUT",
            help="Two files: the rows that the model was fitted to, and rows that it has not seen. "
            "Says whether the draws lie closer to the first than the second do.",
        ),
    ] = None,
    output: TableOutput = "-",
    seed: Seed = 0,
    method: Annotated[
        Literal["flow", "sde", "mala", "nuts"] | None,
        typer.Option(
            help="'flow' or 'sde' for a KernelDiffusion, 'mala' or 'nuts' for a "
            "KernelExponentialFamily."
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Draw rows from a model, in the units of its data.

    Categories stay categories, whole numbers stay whole, and bounds are respected. With `--given`,
    every row of the file is completed: columns of the model that the file lacks, and empty cells,
    are drawn given the others. Rows that fail a condition of `--require` are drawn again.
    `--privacy` says whether the draws lie closer to training rows than held-out rows do, and how
    many are exact copies.

    Examples:

      kexpfam sample model.kexpfam -n 10000 -o draws.parquet --privacy train.csv held_out.csv

      kexpfam sample model.kexpfam -n 5 --set city=north --require "min_price <= price"

      kexpfam sample prices.kexpfam --given houses.csv -n 20
    """
    with Terminal(as_json, quiet, debug) as terminal:
        first_look([*(given or ()), *(privacy or ())], dialect)
        from kexpfam.cli.sampling import Wishes, sample_rows

        when_imported()
        sample_rows(
            model,
            n_rows,
            output,
            terminal,
            seed=seed,
            method=method,
            given=given or [],
            wishes=Wishes(settings or [], require or [], privacy),
            force=force,
            dialect=dialect,
        )


@reads_tables
def impute(
    model: ModelPath,
    data: DataPaths,
    output: TableOutput = "-",
    draws: Annotated[
        int,
        typer.Option(min=1, help="The number of completed copies of each row."),
    ] = 1,
    require: Require = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Fill in empty cells, drawn given the other values of their row.

    The output has all columns of the data; those that the model does not know stay as they are.
    With `--draws`, every row is completed several times (multiple imputation), and the columns
    `row` and `draw` come first. Values are assumed to be missing at random. Draws that fail a
    condition of `--require` are repeated.

    Examples:

      kexpfam impute model.kexpfam people.csv -o complete.csv

      kexpfam impute model.kexpfam people.csv -o complete.parquet --draws 20
    """
    with Terminal(as_json, quiet, debug) as terminal:
        first_look(data, dialect)
        from kexpfam.cli.imputing import impute_rows

        when_imported()
        impute_rows(
            model,
            data,
            output,
            terminal,
            draws=draws,
            require=require or [],
            seed=seed,
            force=force,
            dialect=dialect,
        )
