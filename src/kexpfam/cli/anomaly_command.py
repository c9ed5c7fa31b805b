"""The command `anomalies` with its options; the work is done in `kexpfam.cli.detecting`.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kexpfam.cli import when_imported
from kexpfam.cli.first_look import first_look
from kexpfam.cli.options import (
    Columns,
    DataPaths,
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

__all__ = ["anomalies"]


@reads_tables
def anomalies(
    data: DataPaths,
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Rows that are known to be ordinary (repeatable). Without it, every row of DATA "
            "is judged by the other rows.",
        ),
    ] = None,
    false_alarms: Annotated[
        float,
        typer.Option(
            min=0.0001,
            max=0.5,
            help="The share of ordinary rows that may be flagged.",
        ),
    ] = 0.01,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the scores of all rows: a .csv or .parquet file, or - for CSV on standard "
            "output.",
        ),
    ] = None,
    columns: Columns = None,
    exclude: Exclude = None,
    kinds: Kinds = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Find unusual rows, with the column responsible and what was expected there.

    No row is judged by a model that was fitted to it. With `--train`, the rows of that file are
    assumed to be ordinary, and about the share `--false-alarms` of ordinary rows in DATA is flagged
    by mistake. Without `--train`, that share of DATA is flagged: its most unusual rows.

    Flagged rows are shown, the most unusual first: their number, counted from 1, their score
    (higher is more unusual), their p-value, and the value that is least expected given the other
    values of the row. The table that `-o` writes has `row`, `score`, `p_value` and `anomaly` (1 or
    0) for all rows. For flagged rows it also has the responsible `column`, its `value`, and the
    expected range from `low` to `high`, which contains nine out of ten values that go with the
    rest of the row.

    Examples:

      kexpfam anomalies today.csv --train good.csv -o scores.csv

      kexpfam anomalies sensors.parquet --false-alarms 0.001 --exclude id,date
    """
    with Terminal(as_json, quiet, debug) as terminal:
        first_look(
            [*data, *(train or ())],
            dialect,
            columns=columns,
            exclude=exclude,
            takes="tables",
            kinds=[one.partition("=")[0] for one in kinds or ()],
        )
        from kexpfam.cli.detecting import Search, find_anomalies

        when_imported()
        search = Search(
            data, train or [], columns, exclude, kinds or [], false_alarms, seed, dialect
        )
        find_anomalies(search, output, terminal, force=force)
