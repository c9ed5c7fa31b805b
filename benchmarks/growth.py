"""Seconds, memory and held-out log density of every estimator over the number of rows.

    python benchmarks/growth.py [--only KernelDiffusion …] [--rows 10000 …] [--beside 8]

Each fits Parquet files of a table that suits it (`growing_tables.py`), at its defaults but for
1024 functions where there is such a number. Every fit runs in a process of its own with one thread,
after a small one that compiles; the largest resident memory during the fit is noted, less what the
process had before. Then the mean log density of 5000 fresh rows. Seconds are those of one core,
which the process is bound to; `--beside` is the number of cores on which fits run at a time.
Results are saved as they come; where some are named, the others stay as they were. On Linux.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from growing_tables import conditional_block, mixed_block, number_block, written
from measure import RESULTS, save

# `costs.py` draws a line through the second and the last, and checks it at the third.
SIZES = (10_000, 100_000, 300_000, 1_000_000)
SMALL, FRESH = 1000, 5000
# One process of one thread; a higher load average means that others worked, too.
QUIET = 1.5
# An estimator, its settings, what its table is made by, and the target's column.
TASKS: dict[str, tuple[str, dict[str, Any], Any, str | None]] = {
    "KernelExponentialFamily": (
        "KernelExponentialFamily",
        {"n_components": 1024},
        number_block,
        None,
    ),
    "KernelDiffusion": ("KernelDiffusion", {"n_components": 1024}, number_block, None),
    "ConditionalKernelExponentialFamily": (
        "ConditionalKernelExponentialFamily",
        {},
        conditional_block,
        "y",
    ),
    "ConditionalKernelExponentialFamily, closed form": (
        "ConditionalKernelExponentialFamily",
        {"solution": "closed_form"},
        conditional_block,
        "y",
    ),
    "KernelChain": ("KernelChain", {}, mixed_block, None),
}


def megabytes(kind: str) -> float:
    """Resident memory: now ("VmRSS"), or the most since the peak was last forgotten ("VmHWM")."""
    found = re.search(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text("utf-8"))
    assert found is not None
    return int(found[1]) / 1024


def forget_peak() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", "utf-8")


def given(frame: pd.DataFrame, target: str | None) -> tuple[Any, ...]:
    return (frame,) if target is None else (frame.drop(columns=target), frame[target])


def measured(name: str, n_rows: int) -> dict[str, float]:
    import kexpfam

    warnings.simplefilter("ignore")
    kind, settings, make, target = TASKS[name]
    model = getattr(kexpfam, kind)(**settings, random_state=0)
    model.fit(*given(make(SMALL, 1), target))
    with tempfile.TemporaryDirectory() as folder:
        files = written(make, n_rows, folder)
        forget_peak()
        before, begun = megabytes("VmRSS"), time.process_time()
        model.fit(files, *([] if target is None else [target]))
        seconds = time.process_time() - begun
        grown = megabytes("VmHWM") - before
    fresh = given(make(FRESH, 2), target)
    model.score_samples(*(one[:300] for one in fresh))
    begun = time.process_time()
    logs = model.score_samples(*fresh)
    scoring = time.process_time() - begun
    there = np.isfinite(logs)
    return {
        "fit_seconds": seconds,
        "megabytes": grown,
        "log_density": float(logs[there].mean()),
        "log_density_error": float(logs[there].std() / np.sqrt(there.sum())),
        "has_tilt": bool(model.has_tilt_),
        "milliseconds_a_row": 1000 * scoring / FRESH,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--rows", nargs="*", type=int, default=list(SIZES))
    parser.add_argument(
        "--beside", type=int, default=1, help="fits at a time, each on its own core"
    )
    parser.add_argument("--one", nargs=2, metavar=("NAME", "ROWS"))
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.one[0], int(arguments.one[1]))))
        return
    path = RESULTS / "growth.json"
    # What is named goes beside what was there; all of it begins anew.
    named = any(one.startswith(("--only", "--rows")) for one in sys.argv[1:])
    kept = json.loads(path.read_text("utf-8"))["runs"] if named and path.exists() else []
    runs = {(run["estimator"], run["rows"]): run for run in kept}
    order = list(TASKS)

    def keep(run: dict[str, Any]) -> None:
        runs[run["estimator"], run["rows"]] = run
        known = sorted(runs.values(), key=lambda one: (order.index(one["estimator"]), one["rows"]))
        save("growth", {"command": "python benchmarks/growth.py", "runs": known})

    # The longest first, so that the last ones end together.
    tasks = sorted(
        ((name, n_rows) for name in arguments.only for n_rows in arguments.rows),
        key=lambda task: (-task[1], -order.index(task[0])),
    )
    cores = queue.Queue[int]()
    for core in sorted(os.sched_getaffinity(0))[: arguments.beside]:
        cores.put(core)

    def measured_apart(task: tuple[str, int]) -> dict[str, Any]:
        core = cores.get()
        try:
            command = [sys.executable, __file__, "--one", task[0], str(task[1])]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                command,
                **{"env": environment, "stdout": subprocess.PIPE, "text": True, "check": True},
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )
        finally:
            cores.put(core)
        run = {"estimator": task[0], "rows": task[1], **json.loads(done.stdout.splitlines()[-1])}
        if os.getloadavg()[1] > QUIET * arguments.beside:
            run["note"] = "measured while other processes ran"
        return run

    with ThreadPoolExecutor(arguments.beside) as pool:
        for found in as_completed([pool.submit(measured_apart, task) for task in tasks]):
            keep(found.result())


if __name__ == "__main__":
    main()
