"""Commands and their options; the work is done elsewhere.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kexpfam.cli import when_imported
from kexpfam.cli.terminal import Terminal
from kexpfam.version import __version__

__all__ = ["app"]

_EPILOGUE = (
    "Data are CSV (with a line of names), Parquet, Arrow (.arrow, .feather, .ipc) or .npy files; "
    "- reads CSV from standard input. Exit codes: 0 done, 1 files or settings that cannot be used, "
    "2 wrong options, 130 interrupted."
)

app = typer.Typer(
    help="Density and score estimation with kernel exponential families, in closed form.",
    epilog=_EPILOGUE,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# -- options that several commands share --------------------------------------------------------

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

_FAMILY = "Settings of --estimator family"
_DIFFUSION = "Settings of --estimator diffusion"
_CONDITIONAL = "Settings with --target"


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


# -- fit ----------------------------------------------------------------------------------------


@app.command()
def fit(
    data: DataPaths,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
    ],
    columns: Columns = None,
    exclude: Exclude = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column that holds the weights of the rows."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Fit the density of this column given the other columns."
        ),
    ] = None,
    estimator: Annotated[
        Literal["diffusion", "family", "conditional"] | None,
        typer.Option(
            help="KernelDiffusion (the default), whose likelihood needs no normalizing constant, "
            "KernelExponentialFamily, or with --target ConditionalKernelExponentialFamily."
        ),
    ] = None,
    n_components: Annotated[
        int | None,
        typer.Option(min=1, help="The number of functions. The default is the estimator's."),
    ] = None,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save progress to this file, so that an interrupted fit can continue.",
        ),
    ] = None,
    force: Force = False,
    marginals: Annotated[
        Literal["auto", "gaussianize", "yeo_johnson", "none"] | None,
        typer.Option(help="The map applied to each column.", rich_help_panel=_DIFFUSION),
    ] = None,
    levels: Annotated[
        int | None,
        typer.Option(min=2, help="The number of noise levels.", rich_help_panel=_DIFFUSION),
    ] = None,
    noise_range: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="The lowest and highest noise level.",
            rich_help_panel=_DIFFUSION,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="The error allowed in a log density, in nats.", rich_help_panel=_DIFFUSION
        ),
    ] = None,
    basis: Annotated[
        Literal["fourier", "grid", "nystrom", "exact", "arc_cosine"] | None,
        typer.Option(help="The kind of functions.", rich_help_panel=_FAMILY),
    ] = None,
    kernel: Annotated[
        Literal["rbf", "matern", "rational_quadratic"] | None,
        typer.Option(help="The kernel.", rich_help_panel=_FAMILY),
    ] = None,
    length_scale: Annotated[
        str | None,
        typer.Option(
            metavar="auto|S|S,S,…",
            help="In standard deviations of each column.",
            rich_help_panel=_FAMILY,
        ),
    ] = None,
    base: Annotated[
        Literal["mixture", "averaged_mixture", "gaussian", "uniform", "boxes", "auto"] | None,
        typer.Option(help="The base density.", rich_help_panel=_FAMILY),
    ] = None,
    noise: Annotated[
        Literal["auto", "gaussian", "laplace", "uniform", "none"] | None,
        typer.Option(
            help="The distribution of the noise; 'none' is plain score matching.",
            rich_help_panel=_FAMILY,
        ),
    ] = None,
    noise_scale: Annotated[
        str | None,
        typer.Option(
            metavar="auto|S", help="The standard deviation of the noise.", rich_help_panel=_FAMILY
        ),
    ] = None,
    penalty: Annotated[
        str | None,
        typer.Option(metavar="auto|P", help="The ridge penalty.", rich_help_panel=_FAMILY),
    ] = None,
    solution: Annotated[
        Literal["closed_form", "likelihood"] | None,
        typer.Option(
            help="How the coefficients are found: likelihood for one or two columns, or a target.",
        ),
    ] = None,
    criterion: Annotated[
        Literal["score_matching", "likelihood"] | None,
        typer.Option(help="The loss that tuning minimizes.", rich_help_panel=_FAMILY),
    ] = None,
    tuning: Annotated[
        Literal["adam", "folds"] | None,
        typer.Option(help="The method of tuning.", rich_help_panel=_FAMILY),
    ] = None,
    normalizer: Annotated[
        Literal["auto", "importance", "quadrature"] | None,
        typer.Option(
            help="The method that estimates the normalizing constant.", rich_help_panel=_FAMILY
        ),
    ] = None,
    standardize: Annotated[
        bool | None,
        typer.Option(
            "--standardize/--no-standardize",
            help="Whether to standardize the columns first.",
            rich_help_panel=_FAMILY,
        ),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="The smallest and largest value that the target can have; 0, has no upper one.",
            rich_help_panel=_CONDITIONAL,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a density to the rows of files and save it.

    Settings that are not given are chosen on held-out rows. The default estimator is
    KernelDiffusion: its likelihood is normalized by construction, and it draws samples without
    Markov chains. Use `--estimator family` for the methods of the paper, and `--target` for the
    distribution of one column given the others (see `kexpfam predict`). With `--checkpoint`, a
    fit of very many rows can be interrupted: the same command continues where it stopped and gives
    the same model.

    Examples:

      kexpfam fit rows.csv -o model.kexpfam

      kexpfam fit day*.parquet -o model.kexpfam --exclude id,date --weights count

      kexpfam fit houses.csv -o prices.kexpfam --target price --bounds 0,

      cat rows.csv | kexpfam fit - -o model.kexpfam --estimator family --penalty 1e-4
    """
    given = {
        "n_components": n_components,
        "random_state": seed,
        "marginals": marginals,
        "n_levels": levels,
        "noise_range": noise_range,
        "tolerance": tolerance,
        "basis": basis,
        "kernel": kernel,
        "length_scale": length_scale,
        "base": base,
        "noise": noise,
        "noise_scale": noise_scale,
        "penalty": penalty,
        "solution": solution,
        "criterion": criterion,
        "tuning": tuning,
        "normalizer": normalizer,
        "standardize": standardize,
        "bounds": bounds,
    }
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.fitting import Source, Target, fit_model

        when_imported()
        source = Source(data, columns, exclude, weights, target)
        fit_model(source, Target(output, force, checkpoint), estimator, given, terminal)


# -- with a model -------------------------------------------------------------------------------


@app.command()
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
            help="Also write how surprising each value is, given the other values of its row.",
        ),
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compute the log density of every row, or of its target given the other columns.

    Columns are found by name, in any order, and others ignored. The table has the row's number,
    counted from 1, `log_density`, and as asked `gradient_NAME`, `laplacian` and `surprise_NAME`:
    3 for a value that is one in twenty given the row's others, 4.6 for one in a hundred. Memory
    does not grow with the data.

    Examples:

      kexpfam score model.kexpfam rows.csv -o scores.parquet --gradient --laplacian

      cat rows.csv | kexpfam score model.kexpfam - | sort -t, -k2 -g | head
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.scoring import score_rows

        when_imported()
        score_rows(
            model,
            data,
            output,
            terminal,
            gradient=gradient,
            laplacian=laplacian,
            surprise=surprise,
            force=force,
        )


@app.command()
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
        from kexpfam.cli.predicting import predict_rows

        when_imported()
        predict_rows(
            model, data, output, terminal, interval=interval, quantiles=quantiles, force=force
        )


@app.command()
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
            metavar="FILE", help="With a model of a target: the rows to draw the target for."
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
) -> None:
    """Draw rows from a model, in the units of its data.

    Examples:

      kexpfam sample model.kexpfam -n 10000 -o draws.parquet

      kexpfam sample model.kexpfam -n 5

      kexpfam sample prices.kexpfam --given houses.csv -n 20
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.sampling import sample_rows

        when_imported()
        sample_rows(
            model,
            n_rows,
            output,
            terminal,
            seed=seed,
            method=method,
            given=given or [],
            force=force,
        )


@app.command("test")
def judge(
    model: ModelPath,
    data: DataPaths,
    method: Annotated[
        Literal["auto", "kernel", "finite_set"],
        typer.Option(
            help="'kernel' takes quadratic time and 'finite_set' linear time; 'auto' uses the "
            "latter from 5000 rows."
        ),
    ] = "auto",
    seed: Seed = 0,
    fail_below: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="P", help="Exit with code 3 if the p-value is below P."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Test whether rows come from a model (kernel Stein tests).

    Use rows that the model was not fitted to, because it agrees too well with those that it was
    fitted to. The exit code is 0 for any p-value unless --fail-below is given.

    Examples:

      kexpfam test model.kexpfam fresh.csv

      kexpfam test model.kexpfam today.parquet --fail-below 0.01 || echo "the rows have changed"
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.testing import judge_rows

        when_imported()
        p_value = judge_rows(model, data, terminal, method=method, seed=seed)
        if fail_below is not None and p_value < fail_below:
            raise typer.Exit(3)


@app.command()
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


@app.command()
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
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The HTML page to write.")
    ] = "report.html",
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a report about a model, or fit a model to data and write a report about it.

    The report is one HTML page that opens offline.

    Examples:

      kexpfam report rows.csv -o rows.html --exclude id

      kexpfam report model.kexpfam --data fresh.csv -o model.html
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.reporting import Subject, report_on

        when_imported()
        chosen = Subject(subject, data or [], columns, exclude)
        report_on(chosen, output, terminal, title=title, seed=seed, force=force)


# -- examples -----------------------------------------------------------------------------------


def _densities(incomplete: str) -> list[str]:
    from kexpfam.datasets import DENSITIES

    return [name for name in DENSITIES if name.startswith(incomplete)]


@app.command()
def demo(
    density: Annotated[
        str,
        typer.Option(
            help="The embedded density: cosine, ring, banana, …", autocompletion=_densities
        ),
    ] = "cosine",
    rows: Annotated[int, typer.Option(min=20, help="The number of rows to fit.")] = 1000,
    seeds: Annotated[
        int, typer.Option(min=1, help="The number of times to draw rows and fit.")
    ] = 5,
    seed: Seed = 0,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The figure to write; an existing file is replaced."),
    ] = Path("kexpfam-demo.png"),
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit an embedded density with and without noise, print a table and draw a figure.

    Example: kexpfam demo --density mixture_of_rings --seeds 3
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.demo import run_demo

        when_imported()
        run_demo(density, rows, seeds, seed, output, terminal)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="A table or figure, or 'all' of those in the paper.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="The number of seeds.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use small sizes, to see it run.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder for the results.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the tables and figures.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Reproduce a table or figure of the paper, or one of ours.

    Results go to experiments/results (with --quick to experiments/results/quick) as JSON, a
    Markdown table and a picture. What is already in the JSON file is not run again: an interrupted
    experiment goes on where it stopped.

    Example: kexpfam reproduce figure_1 --quick
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.reproducing import list_experiments, run_experiments

        when_imported()
        if list_:
            list_experiments(terminal)
        else:
            run_experiments(name, runs, quick, output, terminal)
