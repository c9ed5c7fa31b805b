"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from kexpfam.data.dialects import NAMED_SEPARATORS, Dialect

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
    "Require",
    "Seed",
    "TableOutput",
    "reads_tables",
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
    typer.Argument(metavar="DATA", help="The files of one table, or - for standard input."),
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
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="A condition that every row must meet, such as 'low <= high' or 'age >= 18' "
        "(repeatable).",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="NAME=KIND",
        help="The kind of a column, where the guess is wrong (repeatable): real, bounded, whole, "
        "count, grade, category or boolean. Bounds, atoms or levels follow: share=bounded,0,1.",
    ),
]


# -- how text files are read --------------------------------------------------------------------

_TEXT = "How text files are read (recognized by default)"
_HOW = {
    "separator": Annotated[
        str | None,
        typer.Option(
            "--sep",
            metavar="MARK",
            help="The separator between cells: one character, or comma, semicolon, tab, pipe or "
            "space.",
            rich_help_panel=_TEXT,
        ),
    ],
    "decimal": Annotated[
        Literal[".", ","] | None,
        typer.Option(help="The decimal separator.", rich_help_panel=_TEXT),
    ],
    "encoding": Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The encoding of the text, such as utf-8, utf-16, latin-1 or cp1252.",
            rich_help_panel=_TEXT,
        ),
    ],
    "header": Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line holds the names of the columns. Without names they are "
            "called column_1, column_2, ….",
            rich_help_panel=_TEXT,
        ),
    ],
}


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how text files are read.

    The command has a parameter `dialect`, and gets one `Dialect` of all of them.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters = [one for name, one in signature.parameters.items() if name != "dialect"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [one.replace(kind=keyword) for one in parameters]
    parameters += [
        inspect.Parameter(name, keyword, default=None, annotation=kind)
        for name, kind in _HOW.items()
    ]

    @functools.wraps(command)
    def with_dialect(**options: Any) -> None:
        how = {name: options.pop(name, None) for name in _HOW}
        command(**options, dialect=_dialect(**how))

    with_dialect.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_dialect.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_dialect


def _dialect(
    separator: str | None, decimal: str | None, encoding: str | None, header: bool | None
) -> Dialect:
    if separator is not None:
        separator = NAMED_SEPARATORS.get(separator.lower(), separator)
        if len(separator) != 1:
            raise typer.BadParameter(
                "--sep must be one character, or comma, semicolon, tab, pipe or space; got "
                f"{separator!r}."
            )
    if separator is not None and separator == decimal:
        raise typer.BadParameter("--sep and --decimal must be different characters.")
    return Dialect(separator, decimal, encoding, header)
