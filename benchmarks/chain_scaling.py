"""Seconds, memory and held-out log density of `KernelChain` over the number of rows.

    python benchmarks/chain_scaling.py [rows …]

Ten columns in Parquet files: six numbers on folded curves with fine structure, two categories, a
count and a truth value, which depend on them; a tenth of three columns is missing. Every size runs
in a process of its own, whose largest resident memory is noted; what the process has before the fit
(after a small one) is subtracted. Then the mean log density of 5000 fresh rows, under the chain and
under its mixture alone. Seconds are those of one processor core.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from measure import RESULTS, machine

SIZES = (10_000, 100_000, 1_000_000)
BLOCK, FRESH = 50_000, 5000


def block(n_rows: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    turn, height = generator.uniform(0, 4 * np.pi, n_rows), generator.uniform(-1, 1, n_rows)
    curves = np.stack([turn * np.cos(turn) / 6, turn * np.sin(turn) / 6, height], axis=1)
    mixed = np.random.default_rng(99).normal(size=(3, 3))
    numbers = np.concatenate([curves, np.sin(2 * curves @ mixed)], axis=1)
    numbers += 0.05 * generator.standard_normal(numbers.shape)
    frame = pd.DataFrame(numbers, columns=[f"x{number}" for number in range(6)])
    sector = (turn / np.pi + 0.3 * generator.standard_normal(n_rows)).astype(int) % 4
    frame["sector"] = np.array(["north", "east", "south", "west"])[sector]
    frame["level"] = np.where(height + 0.2 * generator.standard_normal(n_rows) > 0, "up", "down")
    frame["steps"] = generator.poisson(np.exp(1.0 + height))
    frame["far"] = turn + generator.standard_normal(n_rows) > 2 * np.pi
    for name in ("x1", "x4", "sector"):
        frame.loc[generator.random(n_rows) < 0.1, name] = None
    return frame


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(n_rows: int) -> dict[str, float]:
    from kexpfam import KernelChain

    KernelChain(random_state=0).fit(block(500, 1))
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, start in enumerate(range(0, n_rows, BLOCK)):
            files.append(Path(folder) / f"part{number}.parquet")
            block(min(BLOCK, n_rows - start), 100 + number).to_parquet(files[-1])
        before, begun = megabytes(), time.process_time()
        model = KernelChain(random_state=0).fit(files)
        seconds = time.process_time() - begun
    grown = megabytes() - before
    fresh = block(FRESH, 2)
    begun = time.process_time()
    logs = model.score_samples(fresh)
    scoring = time.process_time() - begun
    mixture = model.density_.untilted().log_density(model.as_numbers(fresh))
    there = np.isfinite(logs)
    return {
        "fit_seconds": seconds,
        "megabytes": grown,
        "log_density": float(logs[there].mean()),
        "log_density_error": float(logs[there].std() / np.sqrt(there.sum())),
        "mixture_log_density": float(mixture[there].mean()),
        "components": len(model.density_.mixture.weights),
        "milliseconds_a_row": 1000 * scoring / FRESH,
    }


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "one":
        print(json.dumps(measured(int(sys.argv[2]))))
        return
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    path = RESULTS / "chain_scaling.json"
    record = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": []}
    record = {"command": "python benchmarks/chain_scaling.py", "machine": machine(), **record}
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for n_rows in sizes:
        command = [sys.executable, __file__, "one", str(n_rows)]
        out = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        ).stdout
        run = {"rows": n_rows, **json.loads(out.splitlines()[-1])}
        others = [one for one in record["runs"] if one["rows"] != n_rows]
        record["runs"] = sorted([*others, run], key=lambda one: one["rows"])
        print(run, flush=True)
        path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
