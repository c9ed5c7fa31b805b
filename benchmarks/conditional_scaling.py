"""Seconds and memory of conditional fits over the number of rows: linear, and flat.

    python benchmarks/conditional_scaling.py [rows …]

Eight inputs and a target with two branches and a scale that changes, made block by block. Both
solutions are given them as an iterator, as arrays and as a Parquet file. Of more than 20 000 rows a
fit looks at a sample by keys, and keeps sums over all rows for the location and, in closed form,
for the tilt. Every fit runs in a process of its own, on Linux, whose largest resident memory during
the fit is noted; what the process has before the fit, arrays included, is subtracted. (The blocks
of an iterator are kept in a temporary file, because a fit visits its rows several times.) Then a
log density of 10 000 fresh rows. Seconds are those of one processor core.
"""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from measure import RESULTS, machine

SIZES = (10_000, 100_000, 1_000_000)
RUNS = tuple(product(("likelihood", "closed_form"), ("iterator", "arrays", "file")))
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


def megabytes(kind: str) -> float:
    """Resident memory: now ("VmRSS"), or the most since the peak was last forgotten ("VmHWM")."""
    found = re.search(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text("utf-8"))
    assert found is not None
    return int(found[1]) / 1024


def forget_peak() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", "utf-8")


def given(n_rows: int, source: str, folder: str) -> tuple[Any, ...]:
    """What `fit` is called with."""
    if source == "iterator":
        return (blocks(n_rows, 0),)
    if source == "arrays":
        parts = list(blocks(n_rows, 0))
        return tuple(np.concatenate([part[place] for part in parts]) for place in (0, 1))
    import pyarrow as pa
    from pyarrow import parquet

    path = Path(folder) / "rows.parquet"
    names = [*(f"x{number}" for number in range(8)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:
        for X, y in blocks(n_rows, 0):
            columns = [*X.T, y]
            writer.write_table(pa.table(dict(zip(names, columns, strict=True)), schema))
    return path, "y"


def measured(n_rows: int, solution: str, source: str) -> dict[str, float]:
    from kexpfam import ConditionalKernelExponentialFamily

    model = ConditionalKernelExponentialFamily(solution=solution, random_state=0)
    model.fit(*next(blocks(500, 1)))
    with tempfile.TemporaryDirectory() as folder:
        arguments = given(n_rows, source, folder)
        forget_peak()
        before = megabytes("VmRSS")
        start = time.process_time()
        model.fit(*arguments)
        seconds = time.process_time() - start
        peak = megabytes("VmHWM")
    density = model.density_
    X, y = next(blocks(10_000, 2))
    density.log_density(X, y)
    begun = time.process_time()
    score = density.log_density(X, y).mean()
    scoring = time.process_time() - begun
    return {
        "fit_seconds": seconds,
        "megabytes": peak - before,
        "log_density": float(score),
        "milliseconds_a_row": 1000 * scoring / len(y),
    }


def main() -> None:
    if sys.argv[1:2] in (["likelihood"], ["closed_form"]):
        solution, n_rows, source = sys.argv[1:4]
        print(json.dumps(measured(int(n_rows), solution, source)))
        return
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    path = RESULTS / "conditional_scaling.json"
    record: dict[str, Any] = {
        "command": "python benchmarks/conditional_scaling.py",
        "machine": machine(),
        "runs": [],
    }
    for solution, source in RUNS:
        for n_rows in sizes:
            command = [sys.executable, __file__, solution, str(n_rows), source]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            figures = json.loads(out.splitlines()[-1])
            run = {"rows": n_rows, "solution": solution, "source": source, **figures}
            record["runs"].append(run)
            print(run, flush=True)
            path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
