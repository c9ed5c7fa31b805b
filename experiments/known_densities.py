"""The eight known densities: closed form and likelihood beside a kernel density estimate.

Run from the root of the repository:

    python experiments/known_densities.py [--rows 1000] [--seeds 10] [--again likelihood]
    python experiments/known_densities.py --picture

The table goes to experiments/results/known_densities.md, with the mean test log-likelihood (5000
fresh rows) over seeds and, for what is compared, the standard error of the mean difference to
scikit-learn's KernelDensity, whose bandwidth is chosen by five folds. The picture of the densities
of the first seed goes to known_densities.png beside it. Figures of every seed are kept in
known_densities.json, from which an interrupted run goes on; `--again` forgets those of one setting.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.console import Console

from kexpfam import KernelExponentialFamily, NormalizerWarning
from kexpfam.datasets import DENSITIES, make_density
from kexpfam.metrics import cross_validated_kernel_density

RESULTS = Path(__file__).parent / "results"
TABLE, KEPT, PICTURE = (RESULTS / f"known_densities.{end}" for end in ("md", "json", "png"))
SETTINGS: dict[str, dict[str, Any]] = {
    "closed form": {},
    "likelihood": {"solution": "likelihood", "base": "auto", "n_components": 1024},
}
PEER = "KernelDensity"


def rows_of(name: str, n_rows: int, seed: int) -> np.ndarray:
    return make_density(name).sample(n_rows, random_state=seed)


def fitted(label: str, rows: np.ndarray, seed: int) -> KernelExponentialFamily:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormalizerWarning)
        return KernelExponentialFamily(random_state=seed, **SETTINGS[label]).fit(rows)


def figures(name: str, n_rows: int, seed: int, known: dict[str, float]) -> dict[str, float]:
    """Mean test log-likelihoods of one density and one seed, and CPU seconds to fit.

    What is known is not found again.
    """
    train, test = rows_of(name, n_rows, seed), rows_of(name, 5000, 1000 + seed)
    found = {"truth": float(make_density(name).log_density(test).mean())} | known
    for label in SETTINGS:
        if label in found:
            continue
        start = time.process_time()
        model = fitted(label, train, seed)
        found[f"{label}, seconds"] = time.process_time() - start
        found[label] = model.score(test)
        if label == "closed form":
            found["base"] = float(model.base_.log_density(test).mean())
    if PEER not in found:
        found[PEER] = float(cross_validated_kernel_density(train).score(test) / len(test))
    return found


def write_table(kept: dict[str, dict[str, float]], n_rows: int, n_seeds: int) -> None:
    columns = ["truth", "base", *SETTINGS, PEER]
    lines = [
        f"| density | {' | '.join(columns)} | likelihood − {PEER} |",
        "|---" * (len(columns) + 2) + "|",
    ]
    wins = dict.fromkeys(SETTINGS, 0)
    for name in DENSITIES:
        runs = [kept[f"{name} {n_rows} {seed}"] for seed in range(n_seeds)]
        means = {column: np.mean([run[column] for run in runs]) for column in columns}
        for label in SETTINGS:
            wins[label] += int(means[label] > means[PEER])
        gains = np.array([run["likelihood"] - run[PEER] for run in runs])
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        cells = [f"{means[column]:.3f}" for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} | {gains.mean():+.3f} ± {error:.3f} |")
    seconds = {
        label: np.mean([run[f"{label}, seconds"] for run in kept.values()]) for label in SETTINGS
    }
    said = "; ".join(f"{label} {seconds[label]:.1f}" for label in SETTINGS)
    better = "; ".join(f"{label} on {wins[label]} of {len(DENSITIES)}" for label in SETTINGS)
    lines += [
        "",
        f"{n_rows} rows, {n_seeds} seeds. Better than {PEER}: {better}. Mean CPU seconds "
        f"to fit: {said}.",
        "",
        "Made by `python experiments/known_densities.py`.",
        "",
    ]
    TABLE.write_text("\n".join(lines), "utf-8")


def draw_picture(n_rows: int) -> None:
    """Truth, ours and the kernel density, as images of the density."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = ["truth", *SETTINGS, PEER]
    figure, axes = pyplot.subplots(
        len(labels), len(DENSITIES), figsize=(15, 8.5), layout="constrained"
    )
    for column, name in enumerate(DENSITIES):
        rows = rows_of(name, n_rows, 0)
        low, high = rows.min(axis=0), rows.max(axis=0)
        margin = 0.08 * (high - low)
        ends = [np.linspace(a, b, 161) for a, b in zip(low - margin, high + margin, strict=True)]
        points = np.stack(np.meshgrid(*ends), axis=-1).reshape(-1, 2)
        truth = np.exp(make_density(name).log_density(points))
        top = np.quantile(truth[np.isfinite(truth)], 0.995)
        for line, label in enumerate(labels):
            if label == "truth":
                values = truth
            elif label == PEER:
                values = np.exp(cross_validated_kernel_density(rows).score_samples(points))
            else:
                values = np.exp(fitted(label, rows, 0).score_samples(points))
            panel = axes[line, column]
            panel.pcolormesh(*ends, values.reshape(161, 161), vmin=0, vmax=top, rasterized=True)
            panel.set(xticks=[], yticks=[], aspect="equal")
            if line == 0:
                panel.set_title(name.replace("_", " "))
            if column == 0:
                panel.set_ylabel(label.replace(", ", ",\n"))
    figure.savefig(PICTURE, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--picture", action="store_true", help="draw the densities instead")
    parser.add_argument("--again", choices=SETTINGS, help="fit this setting again")
    arguments = parser.parse_args()
    if arguments.picture:
        draw_picture(arguments.rows)
        return
    console = Console(width=110)
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    for known in kept.values():
        known.pop(arguments.again, None)
    for seed in range(arguments.seeds):
        for name in DENSITIES:
            cell = f"{name} {arguments.rows} {seed}"
            known = kept.get(cell, {})
            if not {*SETTINGS, PEER} <= set(known):
                kept[cell] = figures(name, arguments.rows, seed, known)
                KEPT.write_text(json.dumps(kept, indent=1), "utf-8")
                console.print(cell, {key: round(one, 3) for key, one in kept[cell].items()})
    write_table(kept, arguments.rows, arguments.seeds)
    console.print(TABLE.read_text("utf-8"))


if __name__ == "__main__":
    main()
