"""Prediction per row by every estimator, beside a kernel density estimate.

python benchmarks/prediction.py [KernelDiffusion ...]

All are fitted to the same table of 11 columns; of the conditional density the last column is the
target. Tilts are kept whatever the gates say of them: without one, log densities are those of the
base density, and take microseconds. Times are processor seconds, all cores together, the median of
three calls (or one, if it takes long) after one that is not counted (it compiles). Results are
saved as they come; what is named is measured anew.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.neighbors import KernelDensity

from kexpfam import (
    ConditionalKernelExponentialFamily,
    KernelChain,
    KernelDiffusion,
    KernelExponentialFamily,
)
from measure import RESULTS, save

TRAINING, COLUMNS, ROWS = 10_000, 11, 20_000
SETTINGS: dict[str, dict[str, Any]] = {
    "KernelExponentialFamily": {
        "n_components": 512,
        "penalty": 1e-3,
        "noise_scale": 0.2,
        "length_scale": 2.0,
        "gate": False,
    },
    "KernelDiffusion": {"n_components": 1024, "gate": False},
    "KernelChain": {"columns": "real", "gate": False},
    "ConditionalKernelExponentialFamily": {},
}
KINDS = {
    kind.__name__: kind
    for kind in (
        KernelExponentialFamily,
        KernelDiffusion,
        KernelChain,
        ConditionalKernelExponentialFamily,
    )
}
# Rows that are asked for, so that a call takes seconds.
ASKED = {
    "KernelExponentialFamily": {"score_samples": 20_000, "gradient": 20_000, "laplacian": 20_000},
    "KernelDiffusion": {"score_samples": 1000, "gradient": 256, "laplacian": 64, "sample": 1000},
    "KernelChain": {"score_samples": 2000, "gradient": 500, "laplacian": 500, "sample": 1000},
    "ConditionalKernelExponentialFamily": {
        "score_samples": 2000,
        "gradient": 2000,
        "laplacian": 2000,
        "sample": 2000,
    },
}
LONG = 2.0
PEER = "scikit-learn's KernelDensity"
PEER_ROWS = {"score_samples": 500, "sample": 5000}


def processor_seconds(function: Callable[[], Any]) -> float:
    """The median of three calls, or one where it takes long, after one that is not counted."""
    function()
    times: list[float] = []
    while len(times) < 3 and sum(times) < LONG:
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times)


def microseconds(model: Any, asked: dict[str, int], rows: np.ndarray) -> dict[str, float]:
    """A row, by each method."""
    conditional = isinstance(model, ConditionalKernelExponentialFamily)

    def call(method: str, some: np.ndarray) -> Callable[[], Any]:
        if method != "sample":
            given = (some[:, :-1], some[:, -1]) if conditional else (some,)
            return lambda: getattr(model, method)(*given)
        if conditional:
            return lambda: model.sample(some[:, :-1], 1, random_state=0)
        return lambda: model.sample(len(some), random_state=0)

    return {
        method: round(1e6 * processor_seconds(call(method, rows[:count])) / count, 2)
        for method, count in asked.items()
    }


def table() -> np.ndarray:
    """Rows to train with, and rows that are asked for."""
    generator = np.random.default_rng(0)
    mixing = generator.standard_normal((COLUMNS, COLUMNS))
    every = np.tanh(generator.standard_normal((TRAINING + ROWS, COLUMNS)) @ mixing / 2)
    every += 0.15 * generator.standard_normal(every.shape)
    # Two thin, bent columns, so that there is something to tilt.
    every[:, 3] = every[:, 0] ** 2 + 0.1 * every[:, 3]
    every[:, 7] = np.sin(2 * every[:, 1]) + 0.2 * every[:, 7]
    return every


def main() -> None:
    every = table()
    training, rows = every[:TRAINING], every[TRAINING:]
    named = sys.argv[1:]
    found: dict[str, Any] = {}
    if named:
        found = json.loads((RESULTS / "prediction.json").read_text("utf-8"))["microseconds_per_row"]
    for name in named or [*KINDS, PEER]:
        if name == PEER:
            peer = KernelDensity(bandwidth=0.5).fit(training)
            found[name] = {"methods": microseconds(peer, PEER_ROWS, rows)}
        else:
            found[name] = figures(name, training, rows)
        save(
            "prediction",
            {
                "command": "python benchmarks/prediction.py",
                "training_rows": TRAINING,
                "columns": COLUMNS,
                "microseconds_per_row": found,
            },
        )


def figures(name: str, training: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Of one of our estimators."""
    model = KINDS[name](**SETTINGS[name], random_state=0)
    conditional = isinstance(model, ConditionalKernelExponentialFamily)
    given = (training[:, :-1], training[:, -1]) if conditional else (training,)
    start = time.process_time()
    model.fit(*given)
    found: dict[str, Any] = {
        "settings": SETTINGS[name],
        "fit_seconds": time.process_time() - start,
        "methods": microseconds(model, ASKED[name], rows),
    }
    if isinstance(model, KernelDiffusion):
        found["flow_steps"] = model.n_steps_
    return found


if __name__ == "__main__":
    main()
