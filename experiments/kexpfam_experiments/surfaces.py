"""Loss surfaces over the noise scale and the penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.datasets import make_density
from kexpfam.plotting.loss_surface import draw_loss_surface
from kexpfam.tuning import Tuning
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table
from kexpfam_experiments.systems import fit_system
from kexpfam_experiments.table_1 import load

__all__ = ["EXPERIMENT"]

PROTOCOL = """
Held-out noise-free score matching loss, relative to the base density, over noise
scale σ (in standard deviations of the columns) and penalty λ, from the moments of five folds: 512
random Fourier features, mixture base, length-scales tuned by 60 Adam steps; 1000 rows of the known
densities ("two rings" is the mixture of three rings), wine deduplicated, MiniBooNE's 40 columns.
White dots mark the lowest loss, crosses what was chosen: the lowest loss among settings that
held-out likelihood does not reject; a triangle at the upper edge stands for the base density. Along
dotted lines the held-out likelihood is the base density's. Darker is lower, linear as far as the
chosen loss and logarithmic beyond, in each panel; gray is worse than the base density. The paper's
observation is that for bounded support (uniform) the lowest loss is away from σ = 0, and that for
smooth densities the minimum is wide.
"""

KNOWN = ("uniform", "funnel", "mixture_of_rings", "cosine", "banana", "ring")
TABLES = ("miniboone", "red wine, deduplicated", "white wine, deduplicated")


def _cells(options: Options) -> list[tuple[str, ...]]:
    return [(name,) for name in (KNOWN[:1] if options.quick else KNOWN + TABLES)]


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    (name,) = cell
    if name in KNOWN:
        rows = make_density(name).sample(options.size(1000, 150), random_state=0)
    else:
        rows, _ = load(name, 0)
    tuning = Tuning(n_steps=options.size(60, 2))
    model, seconds = fit_system(
        "DSM RFF", rows, 0, n_components=options.size(512, 32), tuning=tuning
    )
    surface: Any = model.loss_surface_
    return {
        "noise_scales": surface.noise_scales.tolist(),
        "penalties": surface.penalties.tolist(),
        "losses": np.round(surface.losses, 5).tolist(),
        "gains": np.round(surface.gains, 5).tolist(),
        "noise_scale": model.noise_scale_,
        "penalty": model.penalty_ if np.isfinite(model.penalty_) else "infinite",
        "seconds": seconds,
    }


def _lowest(record: Record) -> tuple[int, int]:
    losses = np.array(record["losses"])
    row, column = np.unravel_index(np.argmin(losses), losses.shape)
    return int(row), int(column)


def _table(results: Results) -> str:
    rows = []
    for (name,), record in results.records.items():
        row, column = _lowest(record)
        chosen = record["penalty"]
        rows.append(
            [
                name,
                f"{record['losses'][row][column]:.2f}",
                f"{record['noise_scales'][row]:.3f}",
                f"{record['penalties'][column]:.0e}",
                f"{record['noise_scale']:.3f}",
                chosen if isinstance(chosen, str) else f"{chosen:.0e}",
            ]
        )
    headings = ["data", "lowest loss", "at σ", "at λ", "chosen σ", "chosen λ"]
    return markdown_table(headings, rows)


def _draw(results: Results) -> Any:
    import matplotlib.pyplot as plt

    count = len(results.records)
    columns = min(3, count)
    lines = -(-count // columns)
    figure, panels = plt.subplots(
        lines, columns, figsize=(3.7 * columns, 3.0 * lines), squeeze=False
    )
    for panel, ((name,), record) in zip(panels.flat, results.records.items(), strict=False):
        chosen = np.inf if isinstance(record["penalty"], str) else record["penalty"]
        noise_scales, penalties, losses, gains = (
            np.array(record[field]) for field in ("noise_scales", "penalties", "losses", "gains")
        )
        at = (record["noise_scale"], chosen)
        draw_loss_surface(panel, noise_scales, penalties, losses, gains, at)
        panel.set_title(name.replace("_", " "), fontsize=10)
    for panel in list(panels.flat)[count:]:
        panel.set_axis_off()
    figure.tight_layout()
    plt.close(figure)
    return figure


EXPERIMENT = Experiment(
    name="surfaces",
    title="Loss surfaces over noise scale and penalty",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
    draw=_draw,
)
