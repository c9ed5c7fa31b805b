"""A fitted KernelChain of very many rows on an accelerator.

    python benchmarks/gpu_chain.py [--rows 10000000 1000000]

Eleven columns: six clusters of correlated numbers, bent, in memory. The expectation steps of the
mixtures run on the device, block by block; coordinates, places in conditionals and tilts on the
cores of the processor, side by side. The first fit compiles; a later one of the same process finds
most programs made. `step_seconds` is the time of one expectation step over all rows, transfers
included.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

import numpy as np

from kexpfam import KernelChain
from kexpfam.base.clusters import Start
from kexpfam.base.monomial_tables import Expectation, JoinedMixtures, MonomialTable
from kexpfam.base.shrunk import mixture_path
from kexpfam.data.rows import ArrayRows
from measure import save

COLUMNS = 11


def table(n_rows: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    shapes = np.random.default_rng(0).normal(size=(6, COLUMNS, COLUMNS)) / np.sqrt(COLUMNS)
    centers = 2 * np.random.default_rng(1).normal(size=(6, COLUMNS))
    rows = generator.normal(size=(n_rows, COLUMNS))
    kinds = generator.integers(6, size=n_rows)
    for kind in range(6):
        rows[kinds == kind] = rows[kinds == kind] @ shapes[kind] + centers[kind]
    rows[:, 3] += 0.3 * rows[:, 0] ** 2
    rows[:, 7] = np.exp(0.5 * rows[:, 7])
    return rows


def step_seconds(rows: np.ndarray, n_components: int) -> float:
    some = MonomialTable(rows[:20_000], np.ones(20_000))
    step = Expectation.under(
        JoinedMixtures.of(next(mixture_path(some, [Start(n_components, 0)], [6.0])))
    )
    source = ArrayRows(rows, np.ones(len(rows)))
    step(source.chunks())
    begun = time.perf_counter()
    step(source.chunks())
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000_000, 1_000_000])
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    fresh = table(5000, 1)
    records = []
    for count in arguments.rows:
        rows = table(count, 0)
        whitened = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        taken = step_seconds(whitened, 512)
        profile = cProfile.Profile()
        begun = time.perf_counter()
        if arguments.profile:
            profile.enable()
        model = KernelChain(random_state=0).fit(rows)
        profile.disable()
        record = {
            "rows": count,
            "fit_seconds": time.perf_counter() - begun,
            "step_seconds_of_512_components": taken,
            "components": len(model.density_.mixture.weights),
            "log_density": model.score(fresh),
        }
        records.append(record)
        print(record, flush=True)
        if arguments.profile:
            pstats.Stats(profile).sort_stats("cumtime").print_stats("kexpfam", 45)
        save("gpu_chain", {"command": "python benchmarks/gpu_chain.py", "fits": records})


if __name__ == "__main__":
    main()
