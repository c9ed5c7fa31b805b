"""What each part of KernelDiffusion adds on MiniBooNE (40 columns).

Run from the root of the repository:

    python benchmarks/ablation.py

One seed; fitted to training and validation rows, judged on the first 1000 test rows, the same for
all lines, so that differences are far more certain than the figures themselves (standard error
about 0.4). Writes benchmarks/results/ablation.md.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np

from kexpfam import FlowWarning, KernelDiffusion
from kexpfam.base.averaged import AverageSearch, fit_average
from kexpfam.data.coordinates import fit_coordinates
from kexpfam.data.rows import ArrayRows
from kexpfam.data.standardize import fit_standardizer
from kexpfam.datasets import load_miniboone

SIZE = 32
BASES = {
    f"one mixture of {SIZE}, after Yeo–Johnson": ("yeo_johnson", 1e-3, 1),
    "… covariances shrunk to the common one by 20 rows": ("yeo_johnson", 20.0, 1),
    "… gaussianized marginals instead": ("gaussianize", 20.0, 1),
    "… average of two": ("gaussianize", 20.0, 2),
    "… average of five": ("gaussianize", 20.0, 5),
}
MODELS = {
    "KernelDiffusion, no tilt": {"n_components": 1},
    "KernelDiffusion, defaults (1024 functions, 10 levels)": {},
    "KernelDiffusion, 2560 functions, 20 levels": {"n_components": 2560, "n_levels": 20},
}


def base_likelihood(
    rows: np.ndarray, test: np.ndarray, kind: str, shrinkage: float, n_averaged: int
) -> float:
    weights, held = np.ones(len(rows)), np.arange(len(rows)) % 5 == 0
    coordinates = fit_coordinates(
        rows, weights, held, fit_standardizer(ArrayRows(rows, weights)), kind
    )
    search = AverageSearch(SIZE, shrinkage, 0.0, 0.0)
    average = fit_average(coordinates.forward(rows), weights, search, 0, n_averaged)
    logs = average.density().log_density(coordinates.forward(test))
    return float((logs + coordinates.log_jacobian(test)).mean())


def main() -> None:
    warnings.simplefilter("ignore", FlowWarning)
    split = load_miniboone(protocol="maf_40_columns")
    rows, test = np.concatenate([split.train, split.validation]), split.test[:1000]
    rows = np.random.default_rng(0).permutation(rows)
    lines = ["| | log-likelihood | seconds to fit |", "|---|---|---|"]
    for name, settings in BASES.items():
        start = time.perf_counter()
        found = base_likelihood(rows, test, *settings)
        lines.append(f"| {name} | {found:.2f} | {time.perf_counter() - start:.0f} |")
        print(lines[-1], flush=True)
    for name, options in MODELS.items():
        start = time.perf_counter()
        model = KernelDiffusion(random_state=0, **options).fit(rows)
        seconds = time.perf_counter() - start
        lines.append(f"| {name} | {model.score(test):.2f} | {seconds:.0f} |")
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    target = Path(__file__).parent / "results" / "ablation.md"
    target.write_text(
        "MiniBooNE, 40 columns: mean log-likelihood of 1000 test rows. Made by "
        f"`python benchmarks/ablation.py`.\n\n{text}\n",
        "utf-8",
    )


if __name__ == "__main__":
    main()
