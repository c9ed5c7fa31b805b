"""Commands that come to a verdict, with their options: compare and test.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kexpfam.cli import when_imported
from kexpfam.cli.first_look import first_look, first_look_at_two
from kexpfam.cli.options import (
    Columns,
    DataPaths,
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

__all__ = ["compare", "judge"]

FailBelow = Annotated[
    float | None,
    typer.Option(min=0, max=1, metavar="P", help="Exit with code 3 if the p-value is below P."),
]


@reads_tables
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A table, or - for standard input.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another table.")],
    columns: Columns = None,
    exclude: Exclude = None,
    kinds: Kinds = None,
    level: Annotated[
        float,
        typer.Option(
            min=0.0001, max=0.5, metavar="P", help="Report changes whose p-value is at most P."
        ),
    ] = 0.05,
    permutations: Annotated[
        int,
        typer.Option(
            min=19,
            help="The number of permutations N; no p-value can be smaller than 1 / (N + 1).",
        ),
    ] = 999,
    divergence: Annotated[
        bool,
        typer.Option(
            "--divergence/--no-divergence",
            help="Whether to estimate how far apart the tables are, which takes most of the time.",
        ),
    ] = True,
    picture: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw what was found: a .png, .svg or .pdf file."),
    ] = None,
    seed: Seed = 0,
    fail_below: FailBelow = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Compare two tables: do they differ, how far, and which columns moved?

    The p-value is that of a permutation test, which is exact for tables of any size. Columns are
    found by name, in any order, and may hold numbers, categories and empty cells; a column that
    only one table has must be left out with `--exclude`. The p-values of columns and of pairs of
    columns are corrected for their number. Divergences are in nats per row, estimated by densities
    that were fitted to other rows; they can be negative where the tables are nearly the same. The
    exit code is 0 for any p-value unless `--fail-below` is given.

    Examples:

      kexpfam compare last_week.csv today.csv --picture drift.png

      kexpfam compare train.parquet live.csv --no-divergence --fail-below 0.01 --json
    """
    with Terminal(as_json, quiet, debug) as terminal:
        first_look_at_two(
            (first, second),
            dialect,
            columns=columns,
            exclude=exclude,
            kinds=[one.partition("=")[0] for one in kinds or ()],
        )
        from kexpfam.cli.comparing import Request, compare_tables

        when_imported()
        request = Request(
            (first, second), columns, exclude, kinds or [], level, permutations, divergence, seed,
            dialect,
        )  # fmt: skip
        p_value = compare_tables(request, picture, terminal, force=force)
        _exit(p_value, fail_below)


@reads_tables
def judge(
    model: ModelPath,
    data: DataPaths,
    method: Annotated[
        Literal["auto", "kernel", "finite_set"],
        typer.Option(
            help="'kernel' takes quadratic time and 'finite_set' linear time; 'auto' uses "
            "'finite_set' for 5000 rows or more."
        ),
    ] = "auto",
    seed: Seed = 0,
    fail_below: FailBelow = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Test whether rows come from a model (kernel Stein tests).

    The test needs columns of real numbers. Use rows that the model was not fitted to, because a
    model agrees too well with its own training rows. The exit code is 0 for any p-value unless
    `--fail-below` is given.

    Examples:

      kexpfam test model.kexpfam fresh.csv

      kexpfam test model.kexpfam today.parquet --fail-below 0.01 || echo "the rows have changed"
    """
    with Terminal(as_json, quiet, debug) as terminal:
        first_look(data, dialect)
        from kexpfam.cli.testing import judge_rows

        when_imported()
        p_value = judge_rows(model, data, terminal, method=method, seed=seed, dialect=dialect)
        _exit(p_value, fail_below)


def _exit(p_value: float, fail_below: float | None) -> None:
    """End with a code of its own if a p-value is too small."""
    if fail_below is not None and p_value < fail_below:
        raise typer.Exit(3)
