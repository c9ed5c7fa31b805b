"""The demonstration: a known density, estimated with and without noise."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kexpfam.datasets import KnownDensity, make_density
from kexpfam.estimators import KernelExponentialFamily
from kexpfam.exceptions import NormalizerWarning
from kexpfam.metrics import cross_validated_kernel_density, fisher_divergence

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


def run_demo(name: str, n_rows: int, seed: int, output: Path) -> None:
    """Fit, print the table, draw the figure and say where it is."""
    console, errors = Console(), Console(stderr=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.touch()  # an output that cannot be written is better known now than after the fits
    truth = make_density(name)
    train = truth.sample(n_rows, random_state=seed)
    test = truth.sample(_TEST_ROWS, random_state=seed + 1)
    console.print(f"{n_rows} rows of the density {name!r}; {_TEST_ROWS} fresh rows to judge by.\n")
    models = {
        "denoised": KernelExponentialFamily(random_state=seed, verbose=errors.is_terminal),
        "plain": KernelExponentialFamily(noise=None, random_state=seed, verbose=errors.is_terminal),
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
    console.print(f"\nFigure: {output}")


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
    """Truth, denoised and plain fit side by side on one scale of log density."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    low, high = train.min(axis=0), train.max(axis=0)
    low, high = low - 0.15 * (high - low), high + 0.15 * (high - low)
    axes_points = [np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes_points), axis=-1).reshape(-1, 2)
    panels = {
        "Truth": truth.log_density(grid),
        "Denoising score matching": models["denoised"].score_samples(grid),
        "Plain score matching": models["plain"].score_samples(grid),
    }
    top = np.quantile(panels["Truth"][np.isfinite(panels["Truth"])], 0.999)
    figure = Figure(figsize=(10.5, 3.7), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, (title, logs) in zip(all_axes, panels.items(), strict=True):
        image = axes.imshow(
            np.maximum(logs, top - 6).reshape(_GRID, _GRID),
            extent=(low[0], high[0], low[1], high[1]),
            origin="lower",
            aspect="auto",
            cmap="viridis",
            vmin=top - 6,
            vmax=top + 0.5,
        )
        axes.set_title(title)
        axes.set_xlabel("$x_0$")
    all_axes[0].set_ylabel("$x_1$")
    all_axes[0].scatter(*train.T, s=1.5, color="white", alpha=0.6, linewidths=0)
    figure.colorbar(image, ax=all_axes, label="log density (clipped)", extend="both")
    figure.savefig(output, dpi=150)
