"""Whole fits of very many rows on an accelerator, estimator by estimator.

    python benchmarks/gpu_growth.py [--only KernelChain …] [--rows 10000000 …]

Eleven columns: six clusters of correlated numbers, bent, in memory; every estimator at its
defaults, but for 1024 functions where there is such a number. Each estimator has a process of its
own, which begins with a fit to 100 000 rows that compiles; later fits find most programs made.
Seconds are those of the clock on the wall, log densities those of 5000 fresh rows. `step_seconds`
is the time of one expectation step of 512 components over all rows, transfers included.

Of a KernelChain, the expectation steps run on the device; coordinates, places in conditionals,
locations and tilts on the cores of the processor, side by side. `seconds_of_tilts` is what the
cores spent in the quadratures by which tilts are fitted, all together. Conditional densities have
no line here: they are NumPy throughout. Results are saved as they come; where some are named, the
others stay as they were.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

import kexpfam
from kexpfam.base.clusters import Start
from kexpfam.base.monomial_tables import Expectation, JoinedMixtures, MonomialTable
from kexpfam.base.shrunk import mixture_path
from kexpfam.data.rows import ArrayRows
from kexpfam.solve.conditional import TiltProblem
from measure import RESULTS, save

COLUMNS, FRESH, FIRST = 11, 5000, 100_000
# `costs.py` draws a line through the least and the most, and checks it at the one in between.
SIZES = (1_000_000, 3_000_000, 10_000_000)
TASKS: dict[str, dict[str, Any]] = {
    "KernelExponentialFamily": {"n_components": 1024},
    "KernelDiffusion": {"n_components": 1024},
    "KernelChain": {},
}


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
    source = ArrayRows((rows - rows.mean(axis=0)) / rows.std(axis=0), np.ones(len(rows)))
    step(source.chunks())
    begun = time.perf_counter()
    step(source.chunks())
    return time.perf_counter() - begun


class Stopwatch:
    """Seconds of the threads that are in a function, all together."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *given: Any) -> Any:
        begun = time.thread_time()
        try:
            return self.function(*given)
        finally:
            self.seconds += time.thread_time() - begun


def measured(name: str, n_rows: int) -> dict[str, Any]:
    rows, fresh = table(n_rows, 0), table(FRESH, 1)
    found: dict[str, Any] = {"estimator": name, "rows": n_rows}
    if name == "KernelChain":
        found["step_seconds"] = step_seconds(rows, 512)
    watch = Stopwatch(TiltProblem.loss)
    TiltProblem.loss = lambda *given: watch(*given)  # type: ignore[method-assign]
    begun = time.perf_counter()
    model = getattr(kexpfam, name)(**TASKS[name], random_state=0).fit(rows)
    found["fit_seconds"] = time.perf_counter() - begun
    TiltProblem.loss = watch.function  # type: ignore[method-assign]
    if name == "KernelChain":
        found["seconds_of_tilts"] = watch.seconds
        found["components"] = len(model.density_.mixture.weights)
    return {**found, "log_density": float(model.score(fresh))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--rows", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--one", choices=list(TASKS), help="print records of one estimator")
    arguments = parser.parse_args()
    if arguments.one:
        first = measured(arguments.one, FIRST)["fit_seconds"]
        for count in arguments.rows:
            found = measured(arguments.one, count)
            print(json.dumps({**found, "first_fit_seconds": first}), flush=True)
        return
    path = RESULTS / "gpu_growth.json"
    kept = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else []
    runs = {(run["estimator"], run["rows"]): run for run in kept}
    for name in arguments.only:
        command = [sys.executable, __file__, "--one", name, "--rows", *map(str, arguments.rows)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not line.startswith("{"):
                    continue
                run = json.loads(line)
                runs[run["estimator"], run["rows"]] = run
                known = sorted(runs.values(), key=lambda one: (one["estimator"], one["rows"]))
                save("gpu_growth", {"command": "python benchmarks/gpu_growth.py", "runs": known})


if __name__ == "__main__":
    main()
