"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Columns",
    "DataPaths",
    "Debug",
    "Exclude",
    "Force",
    "Json",
    "Kinds",
    "ModelPath",
    "Quiet",
    "Seed",
    "TableOutput",
]

Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Write one JSON object to standard output, and text to standard error."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no remarks.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output file if it exists.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of all random numbers.")]
ModelPath = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file written by 'kexpfam fit'.")
]
DataPaths = Annotated[
    list[str],
    typer.Argument(metavar="DATA", help="Files of one table, or - for CSV on standard input."),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="A,B,…", help="The columns to use. The default is all of them."),
]
Exclude = Annotated[str | None, typer.Option(metavar="A,B,…", help="The columns to leave out.")]
TableOutput = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A .parquet, .csv or .npy file, or - for CSV on standard output.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="NAME=KIND",
        help="What a column is, where the guess is wrong (repeatable): real, bounded, whole, "
        "count, grade, category or boolean. Bounds, atoms or levels follow: share=bounded,0,1.",
    ),
]
