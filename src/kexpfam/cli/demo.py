"""The demonstration: a known density, estimated with and without noise."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kexpfam.choices import nearest
from kexpfam.cli.models import ready
from kexpfam.cli.outputs import check_output, naming
from kexpfam.cli.terminal import Terminal
from kexpfam.datasets import DENSITIES, KnownDensity, make_density
from kexpfam.estimators import KernelExponentialFamily
from kexpfam.exceptions import NormalizerWarning
from kexpfam.metrics import cross_validated_kernel_density, fisher_divergence
from kexpfam.plotting import plot_density
from kexpfam.plotting.grids import checked_window
from kexpfam.writing import whole_file

__all__ = ["run_demo"]

_TEST_ROWS = 5000
_GRID = 200


class _Line(NamedTuple):
    """One line of the table."""

    name: str
    log_likelihood: float
    fisher: float | None = None
    normalizer: str = ""
    seconds: float | None = None


def run_demo(name: str, n_rows: int, seed: int, output: Path, terminal: Terminal) -> None:
    """Fit, print the table, draw the figure and say where it is."""
    if name not in DENSITIES:
        raise typer.BadParameter(
            f"{name!r} is not one of: {', '.join(DENSITIES)}.{nearest(name, DENSITIES)}"
        )
    check_output(output, force=True)
    ready()
    # The table is for people: beside JSON it goes where remarks go.
    console = Console(stderr=terminal.as_json, quiet=terminal.as_json and terminal.quiet)
    truth = make_density(name)
    train = truth.sample(n_rows, random_state=seed)
    test = truth.sample(_TEST_ROWS, random_state=seed + 1)
    console.print(f"{n_rows} rows of the density {name!r}; {_TEST_ROWS} fresh rows to judge by.\n")
    models = {
        "denoised": KernelExponentialFamily(random_state=seed, verbose=terminal.lively),
        "plain": KernelExponentialFamily(noise=None, random_state=seed, verbose=terminal.lively),
    }
    lines = [_Line("truth", float(truth.log_density(test).mean()), 0.0)]
    for label, model in models.items():
        lines.append(_fitted_line(f"kexpfam, {label}", model, train, test, truth))
    base = models["denoised"].base_
    lines.append(
        _Line(
            "its base density",
            float(base.log_density(test).mean()),
            fisher_divergence(base, test, truth.gradient(test)),
        )
    )
    start = time.perf_counter()
    kernel_density = cross_validated_kernel_density(train)
    seconds = time.perf_counter() - start
    log_likelihood = float(kernel_density.score(test) / len(test))
    lines.append(_Line("KernelDensity", log_likelihood, seconds=seconds))
    console.print(_table(lines))
    console.print(
        "Mean log-likelihood and Fisher divergence on the fresh rows; log Z with its error; "
        "seconds to fit, compilation included. KernelDensity has its bandwidth chosen by folds."
    )
    _draw(truth, models, train, output)
    console.print(f"\nFigure: {output}", soft_wrap=True)
    if terminal.as_json:
        lines_as_records = [line._asdict() for line in lines]
        terminal.result({"density": name, "output": str(output), "models": lines_as_records}, [])


def _fitted_line(
    label: str, model: KernelExponentialFamily, train: Any, test: Any, truth: KnownDensity
) -> _Line:
    start = time.perf_counter()
    with warnings.catch_warnings():
        # The table shows the normaliser's health; a plain fit is often the unhealthy one.
        warnings.simplefilter("ignore", NormalizerWarning)
        model.fit(train)
    seconds = time.perf_counter() - start
    return _Line(
        label,
        model.score(test),
        fisher_divergence(model, test, truth.gradient(test)),
        f"{model.log_normalizer_:.3f} ± {model.log_normalizer_error_:.3f}",
        seconds,
    )


def _table(lines: list[_Line]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for heading in ("log-likelihood", "Fisher", "log Z", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            line.name,
            f"{line.log_likelihood:.3f}",
            "" if line.fisher is None else f"{line.fisher:.2f}",
            line.normalizer,
            "" if line.seconds is None else f"{line.seconds:.1f}",
        )
    return table


def _draw(
    truth: KnownDensity,
    models: dict[str, KernelExponentialFamily],
    train: Float[np.ndarray, "n 2"],
    output: Path,
) -> None:
    """Truth, denoised and plain fit side by side, as regions of highest density."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = {
        "Truth": truth,
        "Denoising score matching": models["denoised"],
        "Plain score matching": models["plain"],
    }
    window = checked_window(truth, train, None)
    figure = Figure(figsize=(10.5, 3.7), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, (title, density) in zip(all_axes, panels.items(), strict=True):
        plot_density(
            density,
            train if axes is all_axes[0] else None,
            ax=axes,
            n_points=_GRID,
            limits=np.transpose(window),
            colorbar=all_axes if axes is all_axes[-1] else False,
        )
        axes.set_title(title)
        axes.label_outer()
    with naming(output), whole_file(output) as part:
        figure.savefig(part, dpi=150, format=output.suffix.lstrip(".") or "png")
