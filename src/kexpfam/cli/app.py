"""Commands and their options; the work is done elsewhere.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

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
    typer.Option("--json", help="One JSON object on standard output; text to standard error."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an output that exists.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
ModelPath = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, made by fit.")]
DataPaths = Annotated[
    list[str], typer.Argument(metavar="DATA", help="Files of one table, or - for CSV.")
]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="Columns to take; all by default.")
]
Exclude = Annotated[str | None, typer.Option(metavar="A,B,…", help="Columns to leave out.")]
TableOutput = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help=".parquet, .csv or .npy; - is CSV on output."
    ),
]

_FAMILY = "Settings of --estimator family"
_DIFFUSION = "Settings of --estimator diffusion"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kexpfam {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
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
        str | None, typer.Option(metavar="COLUMN", help="The column of the rows' weights.")
    ] = None,
    estimator: Annotated[
        Literal["diffusion", "family"],
        typer.Option(
            help="A ladder of noise levels, whose likelihood needs no normalising constant, or the "
            "paper's family of one level."
        ),
    ] = "diffusion",
    n_components: Annotated[
        int | None, typer.Option(min=1, help="Number of functions. [default: the estimator's]")
    ] = None,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save the pass over the rows here, to go on after an end too soon."
        ),
    ] = None,
    force: Force = False,
    marginals: Annotated[
        Literal["auto", "gaussianize", "yeo_johnson", "none"] | None,
        typer.Option(help="Map of each column.", rich_help_panel=_DIFFUSION),
    ] = None,
    levels: Annotated[
        int | None, typer.Option(min=2, help="Noise levels.", rich_help_panel=_DIFFUSION)
    ] = None,
    noise_range: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="Of the noise levels.", rich_help_panel=_DIFFUSION),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Error of a log density, in nats.", rich_help_panel=_DIFFUSION),
    ] = None,
    basis: Annotated[
        Literal["fourier", "grid", "nystrom", "exact", "arc_cosine"] | None,
        typer.Option(help="The functions.", rich_help_panel=_FAMILY),
    ] = None,
    kernel: Annotated[
        Literal["rbf", "matern", "rational_quadratic"] | None,
        typer.Option(help="The kernel.", rich_help_panel=_FAMILY),
    ] = None,
    length_scale: Annotated[
        str | None,
        typer.Option(
            metavar="tuned|S|S,S,…", help="In deviations of each column.", rich_help_panel=_FAMILY
        ),
    ] = None,
    base: Annotated[
        Literal["mixture", "averaged_mixture", "gaussian", "uniform"] | None,
        typer.Option(help="The base density.", rich_help_panel=_FAMILY),
    ] = None,
    noise: Annotated[
        Literal["auto", "gaussian", "laplace", "uniform", "none"] | None,
        typer.Option(help="Law of the noise; none is plain matching.", rich_help_panel=_FAMILY),
    ] = None,
    noise_scale: Annotated[
        str | None,
        typer.Option(metavar="tuned|S", help="Its deviation.", rich_help_panel=_FAMILY),
    ] = None,
    penalty: Annotated[
        str | None,
        typer.Option(metavar="tuned|P", help="The ridge penalty.", rich_help_panel=_FAMILY),
    ] = None,
    criterion: Annotated[
        Literal["score_matching", "likelihood"] | None,
        typer.Option(help="What tuning minimises.", rich_help_panel=_FAMILY),
    ] = None,
    tuning: Annotated[
        Literal["adam", "folds"] | None,
        typer.Option(help="How settings are found.", rich_help_panel=_FAMILY),
    ] = None,
    normalizer: Annotated[
        Literal["importance", "quadrature"] | None,
        typer.Option(help="How the constant is found.", rich_help_panel=_FAMILY),
    ] = None,
    standardize: Annotated[
        bool | None,
        typer.Option(
            "--standardize/--no-standardize", help="Of the columns.", rich_help_panel=_FAMILY
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a density to the rows of files and save it.

    Settings that are not given are chosen on held-out rows. The default estimator has a likelihood
    that is normalised by construction and draws without Markov chains. Take `family` for the
    paper's systems. With `--checkpoint` a fit of very many rows can be interrupted: the same
    command goes on where the pass over the rows stopped, and ends with the same coefficients.

    Examples:

      kexpfam fit rows.csv -o model.kexpfam

      kexpfam fit day*.parquet -o model.kexpfam --exclude id,date --weights count

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
        "criterion": criterion,
        "tuning": tuning,
        "normalizer": normalizer,
        "standardize": standardize,
    }
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.fitting import Source, Target, fit_model

        source = Source(data, columns, exclude, weights)
        fit_model(source, Target(output, force, checkpoint), estimator, given, terminal)


# -- with a model -------------------------------------------------------------------------------


@app.command()
def score(
    model: ModelPath,
    data: DataPaths,
    output: TableOutput = "-",
    gradient: Annotated[bool, typer.Option("--gradient", help="∇log p, a column each.")] = False,
    laplacian: Annotated[bool, typer.Option("--laplacian", help="Δlog p.")] = False,
    surprise: Annotated[
        bool,
        typer.Option("--surprise", help="How surprising each value is, given the row's others."),
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Log density (and its derivatives) at every row of the data.

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
def sample(
    model: ModelPath,
    n_rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Rows to draw.")] = 1000,
    output: TableOutput = "-",
    seed: Seed = 0,
    method: Annotated[
        Literal["flow", "sde", "mala", "nuts"] | None,
        typer.Option(help="flow or sde of a diffusion, mala or nuts of a family."),
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
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.sampling import sample_rows

        sample_rows(model, n_rows, output, terminal, seed=seed, method=method, force=force)


@app.command("test")
def judge(
    model: ModelPath,
    data: DataPaths,
    method: Annotated[
        Literal["auto", "kernel", "finite_set"],
        typer.Option(help="Quadratic or linear in the rows; auto changes at 5000 rows."),
    ] = "auto",
    seed: Seed = 0,
    fail_below: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="P", help="End with code 3 for a p-value below P."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Test whether rows come from a model (kernel Stein tests).

    Take rows that the model was not fitted to: those it was fitted to agree with it too well.
    The exit code is 0 whatever the verdict, unless --fail-below asks for it.

    Examples:

      kexpfam test model.kexpfam fresh.csv

      kexpfam test model.kexpfam today.parquet --fail-below 0.01 || echo "the rows have changed"
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.testing import judge_rows

        p_value = judge_rows(model, data, terminal, method=method, seed=seed)
        if fail_below is not None and p_value < fail_below:
            raise typer.Exit(3)


@app.command()
def info(
    model: ModelPath, as_json: Json = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """What a model file holds: kind, columns, settings, what was fitted, health, versions.

    Example: kexpfam info model.kexpfam --json
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.describing import describe_model

        describe_model(model, terminal)


@app.command()
def report(
    subject: Annotated[
        list[str], typer.Argument(metavar="MODEL|DATA", help="A model file, or files of data.")
    ],
    data: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="With a model: rows to judge it by.")
    ] = None,
    columns: Columns = None,
    exclude: Exclude = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = "report.html",
    title: Annotated[str | None, typer.Option(help="Its heading.")] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a page about a model, or about data after fitting a model to them.

    The page is one HTML file with all its pictures.

    Examples:

      kexpfam report rows.csv -o rows.html --exclude id

      kexpfam report model.kexpfam --data fresh.csv -o model.html
    """
    with Terminal(as_json, quiet, debug) as terminal:
        from kexpfam.cli.reporting import Subject, report_on

        chosen = Subject(subject, data or [], columns, exclude)
        report_on(chosen, output, terminal, title=title, seed=seed, force=force)


# -- examples -----------------------------------------------------------------------------------


def _densities(incomplete: str) -> list[str]:
    from kexpfam.datasets import DENSITIES

    return [name for name in DENSITIES if name.startswith(incomplete)]


@app.command()
def demo(
    density: Annotated[
        str, typer.Option(help="An embedded density: ring, banana, …", autocompletion=_densities)
    ] = "cosine",
    rows: Annotated[int, typer.Option(min=20, help="Rows to draw and fit.")] = 1000,
    seeds: Annotated[int, typer.Option(min=1, help="How often to draw rows and fit.")] = 5,
    seed: Seed = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the figure goes; replaced if there.")
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

        run_demo(density, rows, seeds, seed, output, terminal)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which table or figure, or 'all' of the paper's.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Seeds, where there are several.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see it run.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="What there is.")] = False,
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

        if list_:
            list_experiments(terminal)
        else:
            run_experiments(name, runs, quick, output, terminal)
