"""Seconds and memory of conditional fits over the number of rows: linear, and flat.

    python benchmarks/conditional_scaling.py [rows …]

Eight inputs and a target with two branches and a scale that changes, made block by block and given
as an iterator. Every size runs in a process of its own, whose largest resident memory is noted;
what the process has before the fit is subtracted. (The blocks are kept in a temporary file, because
a fit visits its rows several times; its pages count as memory while they are read.) Then a log
density of 10 000 fresh rows. Seconds are those of one processor core.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from measure import RESULTS, machine

SIZES = (10_000, 100_000, 1_000_000)
BLOCK = 50_000


def blocks(n_rows: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(seed)
    for start in range(0, n_rows, BLOCK):
        count = min(BLOCK, n_rows - start)
        X = generator.uniform(-2, 2, (count, 8))
        center = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
        side = np.where(generator.random(count) < 0.5, 1.0, -1.0)
        noise = np.exp(0.5 * X[:, 3]) * generator.standard_normal(count)
        yield X, center + side * (X[:, 4] > 0) + 0.2 * noise


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(n_rows: int, solution: str) -> dict[str, float]:
    from kexpfam import ConditionalKernelExponentialFamily

    model = ConditionalKernelExponentialFamily(solution=solution, random_state=0)
    model.fit(*next(blocks(500, 1)))
    before = megabytes()
    start = time.process_time()
    model.fit(blocks(n_rows, 0))
    seconds = time.process_time() - start
    X, y = next(blocks(10_000, 2))
    model.score_samples(X, y)
    begun = time.process_time()
    score = model.score(X, y)
    scoring = time.process_time() - begun
    return {
        "fit_seconds": seconds,
        "megabytes": megabytes() - before,
        "log_density": score,
        "milliseconds_a_row": 1000 * scoring / len(y),
    }


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] in ("likelihood", "closed_form"):
        print(json.dumps(measured(int(sys.argv[2]), sys.argv[1])))
        return
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    path = RESULTS / "conditional_scaling.json"
    record = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": []}
    record = {"command": "python benchmarks/conditional_scaling.py", "machine": machine(), **record}
    for n_rows in sizes:
        for solution in ("likelihood", "closed_form"):
            command = [sys.executable, __file__, solution, str(n_rows)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            run = {"rows": n_rows, "solution": solution, **json.loads(out.splitlines()[-1])}
            others = [
                one
                for one in record["runs"]
                if (one["rows"], one["solution"]) != (n_rows, solution)
            ]
            record["runs"] = [*others, run]
            print(run, flush=True)
            path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
