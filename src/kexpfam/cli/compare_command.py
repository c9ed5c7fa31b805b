"""The command `compare` with its options; the work is done in `kexpfam.cli.comparing`.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kexpfam.cli import when_imported
from kexpfam.cli.first_look import first_look_at_two
from kexpfam.cli.options import (
    Columns,
    Debug,
    Exclude,
    Force,
    Json,
    Kinds,
    Quiet,
    Seed,
    reads_tables,
)
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect

__all__ = ["compare"]


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
            min=0.0001, max=0.5, metavar="P", help="Call changes sure whose p-value is at most P."
        ),
    ] = 0.05,
    permutations: Annotated[
        int,
        typer.Option(min=19, help="No p-value is below 1 / (1 + the number of permutations)."),
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
    fail_below: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="P", help="Exit with code 3 if the p-value is below P."),
    ] = None,
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
    of other rows; they can be negative where the tables are nearly the same. The exit code is 0 for
    any p-value unless `--fail-below` is given.

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
        if fail_below is not None and p_value < fail_below:
            raise typer.Exit(3)
