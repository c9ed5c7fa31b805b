"""Fits as rows grow, beside density estimators that people use, and what tuning adds.

    python benchmarks/peers.py

In eleven columns: scikit-learn's variational mixture of ten Gaussians, and the same mixture with a
tilt of 512 functions, with hyper-parameters given and tuned. In two columns: KDEpy's FFT estimate
on a grid of 256 × 256 points, and the grid basis with about 1000 functions. Tuning works on a
sketch of the rows: what it adds is measured as the difference of the two fits.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from KDEpy import FFTKDE
from sklearn.mixture import BayesianGaussianMixture

from kexpfam import KernelExponentialFamily
from measure import save

GIVEN = {"penalty": 1e-3, "noise_scale": 0.2, "length_scale": 2.0}
ROWS = (10_000, 100_000, 1_000_000)


def taken(fit: Callable[[np.ndarray], Any], rows: np.ndarray) -> float:
    start = time.perf_counter()
    fit(rows)
    return time.perf_counter() - start


def table(count: int, columns: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    mixing = generator.standard_normal((columns, columns))
    return np.tanh(generator.standard_normal((count, columns)) @ mixing)


def main() -> None:
    # Whether a normalizer is good is not what is timed here.
    warnings.simplefilter("ignore")
    wide = {
        "BayesianGaussianMixture": lambda rows: BayesianGaussianMixture(
            n_components=10, max_iter=500, random_state=0
        ).fit(rows),
        "given": KernelExponentialFamily(n_components=512, random_state=0, **GIVEN).fit,
        "tuned": KernelExponentialFamily(n_components=512, random_state=0).fit,
    }
    flat = {
        "FFTKDE": lambda rows: FFTKDE(bw=0.1).fit(rows).evaluate((256, 256)),
        "grid basis": KernelExponentialFamily(
            basis="grid", n_components=1024, base="gaussian", random_state=0, **GIVEN
        ).fit,
    }
    records: dict[str, list[dict[str, Any]]] = {"eleven columns": [], "two columns": []}
    for name, columns, fits in (("eleven columns", 11, wide), ("two columns", 2, flat)):
        for fit in fits.values():
            fit(table(ROWS[0], columns))  # compiles
        for count in ROWS:
            rows = table(count, columns)
            seconds = {label: taken(fit, rows) for label, fit in fits.items()}
            records[name].append({"rows": count, "seconds": seconds})
            print(name, records[name][-1], flush=True)
    for record in records["eleven columns"]:
        record["tuning_seconds"] = record["seconds"]["tuned"] - record["seconds"]["given"]
    save("peers", {"command": "python benchmarks/peers.py", **records})


if __name__ == "__main__":
    main()
