"""Length-scales tuned with 256 of 512 functions, beside all: the same likelihood in less time.

    python benchmarks/tuned_functions.py

Mean test log-likelihoods of fits with tuning (60 steps) on the deduplicated wines, three splits
each, and on four densities, 1000 rows each. "difference" is that of the means over all tables, with
the standard error of a paired comparison over tables.
"""

from __future__ import annotations

import time
import warnings

import jax
import numpy as np

import kexpfam.features.fourier as fourier
from kexpfam import KernelExponentialFamily, Tuning
from kexpfam.datasets import make_density
from measure import save
from splits import wine

DENSITIES = ("ring", "cosine", "mixture_of_rings", "banana")


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {}
    for color in ("red", "white"):
        for seed in range(3):
            split = wine(color, seed)
            found[f"{color} wine, split {seed}"] = (split.train, split.test)
    for name in DENSITIES:
        density = make_density(name)
        train, test = (density.sample(n, random_state=s) for n, s in ((1000, 0), (5000, 1)))
        found[name] = (train, test)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    usual, likelihoods, seconds = fourier._FREQUENCIES_FOR_TUNING, {}, {}
    for name, most in (("256 functions", usual), ("all functions", 512)):
        fourier._FREQUENCIES_FOR_TUNING = most
        jax.clear_caches()  # the number is part of what was compiled
        start = time.perf_counter()
        likelihoods[name] = {
            table: KernelExponentialFamily(
                n_components=512, tuning=Tuning(n_steps=60), random_state=0
            )
            .fit(train)
            .score(test)
            for table, (train, test) in tables().items()
        }
        seconds[name] = time.perf_counter() - start
    some, every = (np.array(list(one.values())) for one in likelihoods.values())
    save(
        "tuned_functions",
        {
            "command": "python benchmarks/tuned_functions.py",
            "log_likelihoods": likelihoods,
            "seconds": seconds,
            "difference": float((some - every).mean()),
            "difference_error": float((some - every).std() / np.sqrt(len(some))),
        },
    )


if __name__ == "__main__":
    main()
