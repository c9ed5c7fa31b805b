"""The score field of one data set at five noise levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.base import GaussianMixtureDensity
from kexpfam.datasets import make_density
from kexpfam.estimators import KernelDiffusion
from kexpfam.plotting.grids import Window
from kexpfam.plotting.noise_levels import draw_noise_levels, noised_rows
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table

__all__ = ["EXPERIMENT"]

PROTOCOL = """
`KernelDiffusion` on 5000 rows of four Gaussians, with no marginal maps so that the noise is a plain
Gaussian in whitened coordinates and the truth a mixture at every level. Dots are rows with the
level's noise; arrows show the direction of the fitted score and, by their color, its length.
*error* is the root mean square of fitted minus true score at fresh noisy rows, relative to that of
the true score.
"""

_SIDE = 17
_REACH = 5.0


def _cells(_: Options) -> list[tuple[str, ...]]:
    return [("gaussian_mixture",)]


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    density: Any = make_density(cell[0])
    model = KernelDiffusion(marginals=None, random_state=0)
    model.fit(density.sample(options.size(5000, 300), random_state=0))
    lowest, highest = model.noise_scales_[[0, -1]]
    levels = np.geomspace(max(lowest, 0.05), min(highest, 1.5), 5)
    coordinates, generator = model.density_.coordinates, np.random.default_rng(0)
    some = density.sample(1000, random_state=2)
    axis = np.linspace(-_REACH, _REACH, _SIDE)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    # Whitening is linear here: isotropic noise in z has the covariance σ² S in x.
    scales = coordinates.marginals.standardizer.scale
    shape = coordinates.root * scales[:, None]
    record: Record = {"levels": levels.tolist(), "errors": [], "arrows": [], "points": []}
    for level in levels:
        rows = noised_rows(coordinates, some, float(level), generator)
        covariances = density.mixture.covariances + level**2 * shape @ shape.T
        truth = GaussianMixtureDensity(density.mixture.weights, density.mixture.means, covariances)
        found, expected = model.smoothed_gradient(rows, level), truth.gradient(rows)
        error = np.sqrt(((found - expected) ** 2).sum() / (expected**2).sum())
        record["errors"].append(float(error))
        for name, values in (
            ("arrows", model.smoothed_gradient(grid, level)),
            ("points", rows[:400]),
        ):
            record[name].append([float(f"{value:.3g}") for value in values.ravel()])
    return record


def _table(results: Results) -> str:
    (record,) = results.records.values()
    rows = [
        [f"{level:.3f}", error]
        for level, error in zip(record["levels"], record["errors"], strict=True)
    ]
    return markdown_table(["noise scale", "error"], rows)


def _draw(results: Results) -> Any:
    import matplotlib.pyplot as plt

    (record,) = results.records.values()
    figure, panels = plt.subplots(1, 5, figsize=(13, 2.6), layout="constrained")
    axis = np.linspace(-_REACH, _REACH, _SIDE)
    edge = np.full(2, 1.08 * _REACH)
    fields, clouds = (
        [np.array(values).reshape(-1, 2) for values in record[name]]
        for name in ("arrows", "points")
    )
    draw_noise_levels(
        panels, np.array(record["levels"]), [axis, axis], fields, clouds, Window(-edge, edge)
    )
    plt.close(figure)
    return figure


EXPERIMENT = Experiment(
    name="noise_levels",
    title="Several noise levels",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
    draw=_draw,
)
