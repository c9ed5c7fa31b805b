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
            "(not of a KernelChain).",
        ),
    ] = False,
    contributions: Annotated[
        bool,
        typer.Option(
            "--contributions",
            help="Also write what each column adds to the log density of a KernelChain, given the "
            "columns before it.",
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

    Columns are found by name, in any order, and others ignored. The table has the row's number,
    counted from 1, `log_density`, and as asked `gradient_NAME` (of columns that have a density),
    `laplacian`, `surprise_NAME` (3 for a value that is one in twenty given the row's others, 4.6
    for one in a hundred) and `contribution_NAME`, the terms of the chain rule, which add up to the
    log density. Memory does not grow with the data.

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
        typer.Option(min=0.01, max=0.99, help="The probability of the interval that is written."),
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

    The model must have been fitted with `--target`. Columns are found by name, in any order, and
    others ignored. The table has the row's number, counted from 1, the target's `mean`, its
    standard `deviation`, and the `lower` and `upper` end of an interval that holds it with the
    given probability. Memory does not grow with the data.

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
            help="The number of rows to draw, 1000 by default; with --given, of draws at each row "
            "there, 1 by default.",
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Rows to draw the rest of: the target, or what the file does not have.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A value that all rows have; the other columns are drawn given it (repeatable).",
        ),
    ] = None,
    require: Require = None,
    privacy: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="TRAIN HELDOUT",
            help="Compare the distances to the nearest row that the model was fitted to (TRAIN) "
            "with those of rows that it has not seen (HELDOUT).",
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

    Categories, whole numbers and bounds come back as such. With `--given` every row of the file is
    completed: columns of the model that the file does not have, and empty cells, are drawn given
    the others. Rows that fail a condition of `--require` are drawn again. `--privacy` says whether
    the rows are nearer to training rows than held-out rows are, and how many are exact copies.

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
        typer.Option(min=1, help="The number of times to draw what is missing."),
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

    The table has all columns of the data; those that the model does not know stay as they are. With
    `--draws` there are several completed rows for each, and their `row` and `draw` come first:
    multiple imputation. What is missing is taken to be missing at random. What fails a condition of
    `--require` is drawn again.

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
