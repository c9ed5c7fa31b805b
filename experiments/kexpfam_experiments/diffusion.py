"""KernelDiffusion on two-dimensional densities: draws, mass and likelihood."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from kexpfam.datasets import make_density
from kexpfam.estimators import KernelDiffusion
from kexpfam.metrics import wasserstein_distance
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table

__all__ = ["EXPERIMENT"]

PROTOCOL = """
`KernelDiffusion` with its defaults on 20 000 rows of each density. W₁ is the exact Wasserstein
distance of 2000 draws to 2000 fresh rows, *floor* that of 2000 other rows to the same ones, both
averaged over ten repetitions; their ratio is one for a perfect model. *mass* is the integral of the
density by the midpoint rule. *functions* is how many Fourier features were worth fitting over the
base density of averaged mixtures; where there are none the base stands alone.
"""

SHOWN = ("mixture_of_rings", "checkerboard", "cosine", "mixture_of_uniforms")
_SIDE = 80


def _cells(options: Options) -> list[tuple[str, ...]]:
    return [("cosine",)] if options.quick else [(name,) for name in SHOWN]


def _grid(name: str, side: int, margin: float) -> tuple[np.ndarray, tuple[float, ...]]:
    """Middles of the cells of a window around the density."""
    rows = make_density(name).sample(5000, random_state=5)
    low, high = rows.min(axis=0), rows.max(axis=0)
    low, high = low - margin * (high - low), high + margin * (high - low)
    steps = (np.arange(side) + 0.5) / side
    axes = [a + steps * (b - a) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2), (low[0], high[0], low[1], high[1])


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    (name,) = cell
    density = make_density(name)
    train = density.sample(options.size(20_000, 300), random_state=0)
    start = time.perf_counter()
    model = KernelDiffusion(random_state=0).fit(train)
    seconds = time.perf_counter() - start
    test = density.sample(options.size(5000, 300), random_state=1000)
    count = options.size(2000, 100)
    distances, floors = [], []
    for seed in range(options.n_runs(10)):
        fresh, others = (density.sample(count, random_state=2000 + 2 * seed + k) for k in (0, 1))
        draws = model.sample(count, random_state=seed)
        distances.append(wasserstein_distance(draws, fresh))
        floors.append(wasserstein_distance(others, fresh))
    points, extent = _grid(name, options.size(200, 60), 0.4)
    area = (extent[1] - extent[0]) * (extent[3] - extent[2]) / len(points)
    record: Record = {
        "log_likelihood": model.score(test),
        "truth": float(density.log_density(test).mean()),
        "wasserstein": float(np.mean(distances)),
        "floor": float(np.mean(floors)),
        "mass": float(np.exp(model.score_samples(points)).sum() * area),
        "functions": int(model.has_tilt_) * model.density_.field.basis.n_features,
        "seconds": seconds,
    }
    draws = model.sample(1500, random_state=0)
    logs = model.score_samples(_grid(name, _SIDE, 0.15)[0])
    record["draws"] = [float(f"{value:.3g}") for value in draws.ravel()]
    record["grid"] = [float(f"{value:.3g}") for value in logs]
    return record


def _table(results: Results) -> str:
    rows = [
        [
            name,
            record["truth"],
            record["log_likelihood"],
            record["wasserstein"],
            record["floor"],
            record["wasserstein"] / record["floor"],
            record["mass"],
            record["functions"],
            record["seconds"],
        ]
        for (name,), record in results.records.items()
    ]
    headings = [
        "density", "LL, truth", "LL", "W₁", "floor", "ratio", "mass", "functions", "seconds",
    ]  # fmt: skip
    return markdown_table(headings, rows)


def _draw(results: Results) -> Any:
    import matplotlib.pyplot as plt

    names = [name for name in SHOWN if (name,) in results.records]
    figure, panels = plt.subplots(len(names), 3, figsize=(7.5, 2.5 * len(names)), squeeze=False)
    for line, name in zip(panels, names, strict=True):
        record, (_, extent) = results.records[(name,)], _grid(name, _SIDE, 0.15)
        data = make_density(name).sample(1500, random_state=0)
        draws = np.array(record["draws"]).reshape(-1, 2)
        for panel, rows in zip(line, (data, draws), strict=False):
            panel.scatter(*rows.T, s=1.5, color="k", alpha=0.6, linewidths=0)
            panel.set(xlim=extent[:2], ylim=extent[2:])
        logs = np.array(record["grid"]).reshape(_SIDE, _SIDE)
        top = float(np.quantile(logs, 0.999))
        shown = line[2].imshow(
            logs, extent=extent, origin="lower", aspect="auto", vmin=top - 8, vmax=top
        )
        figure.colorbar(shown, ax=line[2])
        for panel in line:
            panel.set(xticks=[], yticks=[])
        line[0].set_ylabel(name.replace("_", " "))
    for panel, title in zip(panels[0], ("data", "draws", "log density"), strict=True):
        panel.set_title(title)
    figure.tight_layout()
    plt.close(figure)
    return figure


EXPERIMENT = Experiment(
    name="diffusion",
    title="KernelDiffusion on two-dimensional densities",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
    draw=_draw,
)
