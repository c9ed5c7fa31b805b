"""The figures of two-dimensional densities: truth, DSM RFF, SM RFF."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.datasets import DENSITIES, make_density
from kexpfam.metrics import fisher_divergence
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table
from kexpfam_experiments.systems import QUICK_TUNING, fit_system

__all__ = ["EXPERIMENT"]

PROTOCOL = """
1000 rows, 512 random Fourier features, mixture base, 60 Adam steps at rate 0.1, then penalty and
noise scale by five folds; one seed. The pictures show densities (not their logarithms) on one
scale for each row. LL is the mean log-likelihood of 5000 fresh rows, F the Fisher divergence to
the truth. The paper prints no figures here; what its pictures claim is that noise helps where the
support is bounded or thin (cosine, mixture of uniforms) and that there is little difference
elsewhere.
"""

SYSTEMS = ("DSM RFF", "SM RFF")
_SIDE = 61


def _cells(options: Options) -> list[tuple[str, ...]]:
    names = ["cosine"] if options.quick else list(DENSITIES)
    return [(name, system) for name in names for system in SYSTEMS]


def _grid(name: str) -> tuple[np.ndarray, tuple[float, ...]]:
    """A window that holds nearly all of the density, the same for every picture of it."""
    rows = make_density(name).sample(2000, random_state=5)
    low, high = np.quantile(rows, [0.002, 0.998], axis=0)
    margin = 0.12 * (high - low)
    axes = [np.linspace(a, b, _SIDE) for a, b in zip(low - margin, high + margin, strict=True)]
    extent = (axes[0][0], axes[0][-1], axes[1][0], axes[1][-1])
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2), extent


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    name, system = cell
    density = make_density(name)
    train = density.sample(options.size(1000, 150), random_state=0)
    test = density.sample(5000, random_state=1000)
    extra: dict[str, Any] = {"tuning": QUICK_TUNING} if options.quick else {}
    model, seconds = fit_system(system, train, 0, n_components=options.size(512, 32), **extra)
    values = np.exp(model.score_samples(_grid(name)[0]))
    return {
        "log_likelihood": model.score(test),
        "truth": float(density.log_density(test).mean()),
        "fisher": fisher_divergence(model, test, density.gradient(test)),
        "seconds": seconds,
        "grid": [float(f"{value:.3g}") for value in values],
    }


def _table(results: Results) -> str:
    rows: list[list[Any]] = []
    for name in dict.fromkeys(name for name, _ in results.records):
        pair = [results.records[name, system] for system in SYSTEMS]
        rows.append(
            [
                name,
                pair[0]["truth"],
                *(r["log_likelihood"] for r in pair),
                *(r["fisher"] for r in pair),
            ]
        )
    headings = [
        "density",
        "LL, truth",
        *(f"LL, {s}" for s in SYSTEMS),
        *(f"F, {s}" for s in SYSTEMS),
    ]
    return markdown_table(headings, rows)


def _draw(results: Results) -> Any:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _ in results.records))
    columns = max(1, len(names) // 4)
    lines = -(-len(names) // columns)
    figure, panels = plt.subplots(
        lines, 3 * columns, figsize=(2.3 * 3 * columns, 2.3 * lines), squeeze=False
    )
    for number, name in enumerate(names):
        line, start = number % lines, 3 * (number // lines)
        points, extent = _grid(name)
        truth = np.exp(make_density(name).log_density(points))
        shown = [("truth", truth)]
        shown += [(system, np.array(results.records[name, system]["grid"])) for system in SYSTEMS]
        top = 1.3 * float(np.quantile(truth, 0.995))
        for offset, (title, values) in enumerate(shown):
            panel = panels[line, start + offset]
            panel.imshow(
                values.reshape(_SIDE, _SIDE), extent=extent, origin="lower", cmap="viridis",
                vmin=0, vmax=top, aspect="auto",
            )  # fmt: skip
            panel.set(xticks=[], yticks=[])
            if line == 0:
                panel.set_title(title, fontsize=10)
        panels[line, start].set_ylabel(name.replace("_", " "), fontsize=9)
    figure.tight_layout(w_pad=0.4, h_pad=0.4)
    plt.close(figure)
    return figure


EXPERIMENT = Experiment(
    name="densities",
    title="Two-dimensional densities, with and without noise",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
    draw=_draw,
)
