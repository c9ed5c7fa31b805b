"""The command `fit` with its options; the work is done in `kexpfam.cli.fitting`.

What a command needs is imported inside it: help and completion must not wait for JAX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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

__all__ = ["fit"]

_FAMILY = "Settings of --estimator family"
_DIFFUSION = "Settings of --estimator diffusion"
_CONDITIONAL = "Settings with --target"


@reads_tables
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
        Literal["chain", "diffusion", "family", "conditional"] | None,
        typer.Option(
            help="KernelChain (the default) for tables as they are, KernelDiffusion for scores at "
            "every noise level, KernelExponentialFamily for the paper's methods, or with --target "
            "ConditionalKernelExponentialFamily."
        ),
    ] = None,
    kinds: Kinds = None,
    n_components: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of functions (diffusion, family, --target). By default the estimator "
            "decides.",
        ),
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
        typer.Option(help="The map applied to each column of numbers (chain, diffusion)."),
    ] = None,
    tilt: Annotated[
        Literal["auto", "fast", "none"] | None,
        typer.Option(
            help="What improves the base density (chain): 'fast' tries less; 'none' is faster "
            "still, and leaves a mixture."
        ),
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
            help="The length-scale of the kernel, in standard deviations of each column.",
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
            help="How the coefficients are found. 'likelihood' needs one or two columns, or a "
            "target.",
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
            help="The smallest and largest value that the target can have; '0,' sets no upper "
            "bound.",
            rich_help_panel=_CONDITIONAL,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
    *,
    dialect: Dialect,
) -> None:
    """Fit a density to the rows of files and save it.

    The default estimator, KernelChain, takes a table as it is: numbers, counts, grades, words,
    truth values and empty cells. It shows what it took each column for; use `--kind` to correct it.
    Settings that are not given are chosen on held-out rows. Use `--estimator diffusion` for scores
    at every noise level, `--estimator family` for the methods of the paper, and `--target` for the
    distribution of one column given the others (see `kexpfam predict`); these take complete tables
    of numbers, of any length. With `--checkpoint`, such a fit of very many rows can be interrupted:
    the same command continues where it stopped and gives the same model.

    Examples:

      kexpfam fit rows.csv -o model.kexpfam

      kexpfam fit people.csv -o model.kexpfam --exclude name --kind age=count

      kexpfam fit day*.parquet -o model.kexpfam --estimator diffusion --exclude id,date

      kexpfam fit houses.csv -o prices.kexpfam --target price --bounds 0,

      cat rows.csv | kexpfam fit - -o model.kexpfam --estimator family --penalty 1e-4
    """
    given = {
        "n_components": n_components,
        "random_state": seed,
        "columns": kinds or None,
        "marginals": marginals,
        "tilt": tilt,
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
        first_look(
            data,
            dialect,
            **{"columns": columns, "exclude": exclude, "weights": weights},
            target=target,
            takes="tables" if target is None and estimator in (None, "chain") else "numbers",
            kinds=[one.partition("=")[0] for one in kinds or ()],
        )
        from kexpfam.cli.fitting import Source, Target, fit_model

        when_imported()
        source = Source(data, columns, exclude, weights, target, dialect)
        fit_model(source, Target(output, force, checkpoint), estimator, given, terminal)
