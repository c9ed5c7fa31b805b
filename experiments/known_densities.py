"""The eight known densities: default settings against the base density and a kernel density.

Run from the root of the repository:

    python experiments/known_densities.py [--rows 1000] [--seeds 3]

The table goes to experiments/results/known_densities.md.

Mean test log-likelihood (5000 fresh rows) over seeds. "ours, checked" repeats our figure with the
normalizing constant by quadrature instead of importance sampling.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from kexpfam import KernelExponentialFamily, NormalizerWarning, QuadratureNormalizer
from kexpfam.datasets import DENSITIES, make_density
from kexpfam.metrics import cross_validated_kernel_density

RESULT = Path(__file__).parent / "results" / "known_densities.md"
COLUMNS = ("truth", "ours", "ours, checked", "base", "KernelDensity", "seconds")


def figures(name: str, n_rows: int, seed: int) -> tuple[float, ...]:
    """The six figures of one density and one seed."""
    density = make_density(name)
    train = density.sample(n_rows, random_state=seed)
    test = density.sample(5000, random_state=1000 + seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormalizerWarning)
        model = KernelExponentialFamily(random_state=seed).fit(train)
    seconds = time.perf_counter() - start
    exact = QuadratureNormalizer(tolerance=1e-4).estimate(model.density_, np.random.default_rng(0))
    ours = model.score(test)
    return (
        float(density.log_density(test).mean()),
        ours,
        ours + model.log_normalizer_ - exact.log_normalizer,
        float(model.base_.log_density(test).mean()),
        float(cross_validated_kernel_density(train).score(test) / len(test)),
        seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    console = Console(width=110)
    table = Table("density", *COLUMNS, title=f"{arguments.rows} rows, {arguments.seeds} seeds")
    lines = [f"| density | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    wins, worst = 0, np.inf
    for name in DENSITIES:
        rows = [figures(name, arguments.rows, seed) for seed in range(arguments.seeds)]
        means = dict(zip(COLUMNS, np.mean(rows, axis=0), strict=True))
        wins += means["ours, checked"] > means["KernelDensity"]
        worst = min(worst, means["ours, checked"] - means["base"])
        table.add_row(name, *(f"{means[column]:.3f}" for column in COLUMNS))
        lines.append(
            f"| {name} | " + " | ".join(f"{means[column]:.3f}" for column in COLUMNS) + " |"
        )
        console.print(f"{name}: done", style="dim")
    made = "Made by `python experiments/known_densities.py`."
    RESULT.write_text("\n".join([*lines, "", made, ""]), "utf-8")
    console.print(table)
    console.print(f"Better than KernelDensity on {wins} of {len(DENSITIES)}.")
    console.print(f"Least gain on its own base density: {worst:+.3f}.")


if __name__ == "__main__":
    main()
