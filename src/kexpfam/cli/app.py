"""The command line: all commands, in the order of the help."""

from __future__ import annotations

from typing import Annotated

import typer

from kexpfam.cli.anomaly_command import anomalies
from kexpfam.cli.example_commands import demo, reproduce
from kexpfam.cli.fit_command import fit
from kexpfam.cli.page_commands import info, report
from kexpfam.cli.row_commands import impute, predict, sample, score
from kexpfam.cli.verdict_commands import compare, judge
from kexpfam.version import __version__

__all__ = ["app"]

_EPILOGUE = (
    "Data are text (.csv, .tsv, .txt), JSON (.jsonl, .json), Excel (.xlsx), Parquet, Arrow "
    "(.arrow, .feather, .ipc) or .npy files; text and JSON may be compressed (.gz, .bz2, .xz, "
    ".zst, .zip), and - reads standard input. Exit codes: 0 done, 1 files or settings that cannot "
    "be used, 2 wrong options, 3 a p-value below --fail-below, 130 interrupted."
)

app = typer.Typer(
    help="Density and score estimation with kernel exponential families, in closed form.",
    epilog=_EPILOGUE,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kexpfam {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Density and score estimation with kernel exponential families, in closed form."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command()(fit)
app.command()(score)
app.command()(predict)
app.command()(sample)
app.command()(impute)
app.command()(anomalies)
app.command()(compare)
app.command("test")(judge)
app.command()(info)
app.command()(report)
app.command()(demo)
app.command()(reproduce)
