"""The demonstration: a known density, estimated with and without noise, over several seeds."""

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
from kexpfam.cli.outputs import check_output, naming
from kexpfam.cli.terminal import Terminal
from kexpfam.datasets import DENSITIES, KnownDensity, make_density
from kexpfam.estimators import KernelExponentialFamily
from kexpfam.exceptions import NormalizerWarning
from kexpfam.metrics import cross_validated_kernel_density, fisher_divergence
from kexpfam.plotting import plot_density
from kexpfam.plotting.canvas import pyplot_or_error
from kexpfam.plotting.grids import checked_window
from kexpfam.writing import whole_file

__all__ = ["run_demo"]

_TEST_ROWS = 5000
_GRID = 200
# Seeds of the fresh rows begin here, far from those of the rows that are fitted to.
_FRESH = 1_000_000
# What a line is called, and the noise of the model.
_LABELS = {
    "denoised": ("kexpfam, denoised", "gaussian"),
    "plain": ("kexpfam, plain", None),
    "base": ("its base density", None),
    "kernel density": ("KernelDensity", None),
}


class _Figures(NamedTuple):
    """What one seed says of one model."""

    log_likelihood: float
    fisher: float
    seconds: float


class _Line(NamedTuple):
    """One line of the table: means over seeds."""

    name: str
    log_likelihood: float
    fisher: float | None = None
    seconds: float | None = None


def run_demo(
    name: str, n_rows: int, n_seeds: int, seed: int, output: Path, terminal: Terminal
) -> None:
    """Fit, print the table, draw the figure and say where it is."""
    if name not in DENSITIES:
        raise typer.BadParameter(
            f"{name!r} is not one of: {', '.join(DENSITIES)}.{nearest(name, DENSITIES)}"
        )
    check_output(output, force=True)
    # Before the work begins, not after it.
    pyplot_or_error()
    # The table is for people: beside JSON it goes where remarks go.
    console = Console(stderr=terminal.as_json, quiet=terminal.as_json and terminal.quiet)
    truth = make_density(name)
    seeds = range(seed, seed + n_seeds)
    console.print(
        f"{n_rows} rows of the density {name!r} are fitted and {_TEST_ROWS} fresh rows judge the "
        f"fit, with {n_seeds} seeds.\n"
    )
    found: dict[str, list[_Figures]] = {label: [] for label in _LABELS}
    shown: dict[str, KernelExponentialFamily] = {}
    for number in terminal.progress.track(seeds, "seeds"):
        train = truth.sample(n_rows, random_state=number)
        test = truth.sample(_TEST_ROWS, random_state=_FRESH + number)
        models = {label: _model(label, number) for label in ("denoised", "plain")}
        for label, model in models.items():
            found[label].append(_judged(model, train, test, truth))
        found["base"].append(_judged_base(models["denoised"], test, truth))
        found["kernel density"].append(_judged_kernel_density(train, test))
        shown = shown or models
    lines = [_Line("truth", _truth(truth, seeds), 0.0), *_lines(found)]
    console.print(_table(lines))
    console.print(
        "Mean log-likelihood and Fisher divergence on the fresh rows; seconds to fit, compilation "
        "included. KernelDensity has its bandwidth chosen by folds.\n"
    )
    verdict = _verdict(found)
    console.print(verdict)
    _draw(truth, shown, truth.sample(n_rows, random_state=seed), output)
    console.print(f"\nFigure, of the first seed: {output}", soft_wrap=True)
    if terminal.as_json:
        record = {"density": name, "output": str(output), "verdict": verdict}
        terminal.result({**record, "models": [line._asdict() for line in lines]}, [])


def _model(label: str, seed: int) -> KernelExponentialFamily:
    return KernelExponentialFamily(noise=_LABELS[label][1], random_state=seed)


def _judged(model: KernelExponentialFamily, train: Any, test: Any, truth: KnownDensity) -> _Figures:
    start = time.perf_counter()
    with warnings.catch_warnings():
        # A plain fit often has a normalizer that cannot be relied on: its figures say so.
        warnings.simplefilter("ignore", NormalizerWarning)
        model.fit(train)
    seconds = time.perf_counter() - start
    fisher = fisher_divergence(model, test, truth.gradient(test))
    return _Figures(model.score(test), fisher, seconds)


def _judged_base(model: KernelExponentialFamily, test: Any, truth: KnownDensity) -> _Figures:
    log_likelihood = float(model.base_.log_density(test).mean())
    fisher = fisher_divergence(model.base_, test, truth.gradient(test))
    return _Figures(log_likelihood, fisher, float("nan"))


def _judged_kernel_density(train: Any, test: Any) -> _Figures:
    start = time.perf_counter()
    density = cross_validated_kernel_density(train)
    seconds = time.perf_counter() - start
    return _Figures(float(density.score(test) / len(test)), float("nan"), seconds)


def _truth(truth: KnownDensity, seeds: range) -> float:
    tests = (truth.sample(_TEST_ROWS, random_state=_FRESH + seed) for seed in seeds)
    return float(np.mean([truth.log_density(test).mean() for test in tests]))


def _lines(found: dict[str, list[_Figures]]) -> list[_Line]:
    lines = []
    for label, figures in found.items():
        log_likelihood, *others = np.mean(figures, axis=0)
        fisher, seconds = (None if np.isnan(one) else float(one) for one in others)
        lines.append(_Line(_LABELS[label][0], float(log_likelihood), fisher, seconds))
    return lines


def _verdict(found: dict[str, list[_Figures]]) -> str:
    """Whether denoising helps here, in a sentence."""
    denoised, plain = (
        np.array([one.log_likelihood for one in found[label]]) for label in ("denoised", "plain")
    )
    gains = denoised - plain
    gain, better = float(gains.mean()), int((gains > 0).sum())
    if len(gains) == 1:
        return f"Denoising gains {gain:+.3f} nats per row; one seed is not enough to say more."
    error = float(gains.std(ddof=1) / np.sqrt(len(gains)))
    said = f"{gain:+.3f} ± {error:.3f} nats per row over plain score matching"
    if gain > 2 * error:
        return f"Denoising helps here: {said}, and in {better} of {len(gains)} seeds."
    if gain < -2 * error:
        return f"Denoising does not help here: {said}."
    return f"Denoising makes no clear difference here: {said}."


def _table(lines: list[_Line]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for heading in ("log-likelihood", "Fisher", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            line.name,
            f"{line.log_likelihood:.3f}",
            "" if line.fisher is None else f"{line.fisher:.2f}",
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
