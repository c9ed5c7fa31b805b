"""Figure 1 of the paper: what noise does between modes and at the edge of a bounded support."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kexpfam.datasets import make_density
from kexpfam.estimators import KernelExponentialFamily
from kexpfam.exceptions import NormalizerWarning
from kexpfam.metrics import fisher_divergence
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table

__all__ = ["EXPERIMENT"]

PROTOCOL = """
1000 rows, 300 random Fourier features, a Gaussian base, no tuning: a fixed penalty
of 3·10⁻⁴ and two length-scales (*narrow* 0.3, *wide* 0.5 standard deviations), as in the paper's
first experiment, which gives neither its mixture nor its penalty. The paper's "noise variance σ =
5·10⁻⁴" is read as a variance, σ = 0.022 standard deviations; σ = 5·10⁻⁴ as a standard deviation is
in the table too. *loss* is the noise-free score matching loss of 5000 fresh rows, mean Δlog p +
½|∇log p|² in standardized units (lower is better; the mean of five seeds in the table, the first
seed under the panels), the paper's SM. The paper's figures on its own mixture: −0.68 without and
−0.99 with noise, −0.49 and −0.67 with the wide kernel. *F* is the Fisher divergence to the truth
(on its support). On bounded support the loss is not F up to a constant: integration by parts leaves
a boundary term, and the loss rewards steepness at the edge. Noise is averaged in closed form; the
paper used its Taylor expansion here.

How the setting was chosen. Penalty and length-scales were picked by us after looking at test
losses: penalties from 10⁻⁷ to 10⁻³ and length-scales 0.3, 0.5 and 1 were swept, and these show
the effect while the density in the window stays visible (at 10⁻⁶ spikes outside it carry all
mass). It is not there everywhere: for the mixture with length-scale 1 and λ = 10⁻³ the loss rises
with noise, from −9.33 to −9.30 at σ = 0.05 and −9.14 at σ = 0.1, and for the uniform with 0.5 and
10⁻³ a small noise changes nothing (one to three seeds each, from the sweep, not in the table).
"""

DENSITIES = {"gaussian_mixture": "separated modes", "uniform": "bounded support"}
WIDTHS = {"narrow": 0.3, "wide": 0.5}
NOISES = {
    "none": 0.0,
    "5e-4 as a standard deviation": 5e-4,
    "5e-4 as a variance": 5e-4**0.5,
    "larger": 0.1,
}
PENALTY = 3e-4
_SIDE = 61
_REACH = 4.5
_SHOWN = {"none": "no noise", "5e-4 as a variance": "σ² = 5·10⁻⁴", "larger": "σ = 0.1"}


def _cells(options: Options) -> list[tuple[str, ...]]:
    return [
        (name, width, noise, str(run))
        for name in DENSITIES
        for width in WIDTHS
        for noise in NOISES
        for run in range(options.n_runs(5))
    ]


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    name, width, noise, run = cell
    density, seed = make_density(name), int(run)
    model = KernelExponentialFamily(
        n_components=options.size(300, 32),
        base="gaussian",
        length_scale=WIDTHS[width],
        noise="gaussian",
        noise_scale=NOISES[noise],
        penalty=PENALTY,
        normalizer="importance",
        gate=False,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormalizerWarning)
        model.fit(density.sample(options.size(1000, 150), random_state=seed))
    test = density.sample(options.size(5000, 150), random_state=1000 + seed)
    record: Record = {
        "loss": model.score_matching_loss(test, standardized=True),
        "base_loss": float(_base_loss(model, test)),
        "fisher": fisher_divergence(model, test, density.gradient(test)),
    }
    if seed == 0 and noise in _SHOWN:
        logs = model.score_samples(_grid())
        record["grid"] = [round(float(value), 3) for value in logs]
    return record


def _base_loss(model: KernelExponentialFamily, rows: np.ndarray) -> float:
    squared = model.density_.standardizer.scale**2
    curvature = np.broadcast_to(model.base_.hessian(rows), (len(rows), 2, 2))
    diagonal = np.diagonal(curvature, axis1=1, axis2=2)
    return float(((diagonal + model.base_.gradient(rows) ** 2 / 2) @ squared).mean())


def _grid() -> np.ndarray:
    axis = np.linspace(-_REACH, _REACH, _SIDE)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def _table(results: Results) -> str:
    rows = []
    for name, what in DENSITIES.items():
        for width in WIDTHS:
            base = results.records[name, width, "none", "0"]["base_loss"]
            losses, divergences = (
                [_mean(results, (name, width, noise), field) for noise in NOISES]
                for field in ("loss", "fisher")
            )
            rows.append([f"{name} ({what})", width, "loss", float(base), *losses])
            rows.append(["", "", "F", None, *divergences])
    headings = ["density", "kernel", "", "base", *(f"σ {noise}" for noise in NOISES)]
    return markdown_table(headings, rows)


def _mean(results: Results, cell: tuple[str, ...], field: str) -> float:
    """Over runs."""
    return float(np.mean([r[field] for key, r in results.records.items() if key[:3] == cell]))


def _draw(results: Results) -> Any:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 7, figsize=(15.5, 5.2), sharex=True, sharey=True)
    extent = (-_REACH, _REACH, -_REACH, _REACH)
    for line, name in zip(panels, DENSITIES, strict=True):
        truth = make_density(name).log_density(_grid()).reshape(_SIDE, _SIDE)
        shown = [("truth", truth, None)]
        for width in WIDTHS:
            for noise, label in _SHOWN.items():
                record = results.records[name, width, noise, "0"]
                logs = np.reshape(record["grid"], (_SIDE, _SIDE))
                shown.append((f"{width}, {label}", logs, record["loss"]))
        for panel, (title, logs, loss) in zip(line, shown, strict=True):
            panel.imshow(
                np.clip(logs, -10, None), extent=extent, origin="lower", cmap="viridis",
                vmin=-10, vmax=float(truth.max()) + 0.5,
            )  # fmt: skip
            panel.set_title(title, fontsize=10)
            panel.set(xticks=[], yticks=[])
            if loss is not None:
                panel.set_xlabel(f"loss {loss:.2f}")
        line[0].set_ylabel(name.replace("_", " "))
    figure.suptitle("log density, clipped below −10", y=1.0)
    figure.tight_layout(h_pad=1.5)
    plt.close(figure)
    return figure


EXPERIMENT = Experiment(
    name="figure_1",
    title="Figure 1: score matching with and without noise",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
    draw=_draw,
)
