"""Moments on a Dask cluster of one and of two workers with one thread each, and whole fits.

    python benchmarks/cluster.py [moments | KernelExponentialFamily | KernelDiffusion | …]

Every estimator is fitted on two workers twice, and the second time one of them is killed in the
middle; then in memory. The figures for 10⁹ rows and more follow from `costs.py`.
"""

from __future__ import annotations

import os

# One thread each, for the workers and for the comparison.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
os.environ["NPROC"] = "1"

import json  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

import kexpfam  # noqa: E402
from growing_tables import conditional_block, mixed_block, number_block  # noqa: E402
from kexpfam.base import GaussianMixtureDensity  # noqa: E402
from kexpfam.data.cluster import dask_rows  # noqa: E402
from kexpfam.data.rows import ArrayRows  # noqa: E402
from kexpfam.features import FourierBasis  # noqa: E402
from kexpfam.moments import MomentSource  # noqa: E402
from kexpfam.noise import GaussianNoise  # noqa: E402
from measure import RESULTS, save  # noqa: E402

PARTITION, COLUMNS, FUNCTIONS = 50_000, 11, 1024


class Task(NamedTuple):
    """What an estimator is fitted to on the cluster."""

    settings: dict[str, Any]
    make: Any
    columns: list[str]
    rows: int
    partitions: int
    target: str | None = None

    def part(self, number: int) -> pd.DataFrame:
        return self.make(self.rows, 100 + number)[self.columns]

    def given(self, frame: Any) -> tuple[Any, ...]:
        return (
            (frame,)
            if self.target is None
            else (frame.drop(columns=[self.target]), frame[self.target])
        )


NUMBERS = [f"x{number}" for number in range(4)]
TASKS = {
    "KernelExponentialFamily": Task(
        {"n_components": 512, "gate": False}, number_block, NUMBERS, 20_000, 8
    ),
    "KernelDiffusion": Task({"n_components": 256, "gate": False}, number_block, NUMBERS, 10_000, 6),
    "ConditionalKernelExponentialFamily": Task(
        {"solution": "closed_form"}, conditional_block, ["x0", "x3", "x4", "y"], 10_000, 6, "y"
    ),
    # More than 50,000 distinct rows: its mixtures are fitted in passes over all of them.
    "KernelChain": Task({}, mixed_block, ["x0", "x1", "x2", "sector"], 5500, 10),
}


def rows_of(block_id) -> np.ndarray:
    return np.random.default_rng(block_id[0]).standard_normal((PARTITION, COLUMNS))


def fitted(name: str, tasks_to_live: int | None = None) -> tuple[Any, float, int]:
    """A model on two workers, its seconds, and how many tasks one of them was seen with.

    That one is killed at its last one, where it has a number of tasks to live.
    """
    task = TASKS[name]
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        parts = dd.from_map(task.part, range(task.partitions), meta=task.part(0)[:0])
        of_cluster = (parts,) if task.target is None else (parts, task.target)
        address, victim = next(iter(client.run(os.getpid).items()))
        seen: set[Any] = set()
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.005):
                working = client.processing().get(address, ())
                seen.update(working)
                if tasks_to_live is not None and working and len(seen) >= tasks_to_live:
                    os.kill(victim, signal.SIGKILL)
                    return

        thread = threading.Thread(target=watch, daemon=True)
        start = time.perf_counter()
        thread.start()
        model = getattr(kexpfam, name)(**task.settings, random_state=0).fit(*of_cluster)
        taken = time.perf_counter() - start
        done.set()
        thread.join()
        if tasks_to_live is not None:
            assert victim not in client.run(os.getpid).values()
    return model, taken, len(seen)


def whole_fits(name: str) -> dict[str, Any]:
    """Two fits on a cluster, one in memory, and what fresh rows make of them."""
    task = TASKS[name]
    fresh = task.given(task.part(-1)[:2000])
    whole, seconds, n_tasks = fitted(name)
    wounded, longer, _ = fitted(name, max(1, n_tasks // 2))
    frame = pd.concat([task.part(number) for number in range(task.partitions)], ignore_index=True)
    local = getattr(kexpfam, name)(**task.settings, random_state=0).fit(*task.given(frame))
    logs = [model.score_samples(*fresh) for model in (whole, wounded, local)]
    there = np.isfinite(logs[0])
    return {
        "rows": len(frame),
        "columns": len(task.columns),
        "seconds": seconds,
        "seconds_with_a_worker_killed": longer,
        "largest_difference_with_a_worker_killed": float(np.abs(logs[1] - logs[0])[there].max()),
        "mean_difference_from_memory": float(np.abs(logs[2] - logs[0])[there].mean()),
        "largest_difference_from_memory": float(np.abs(logs[2] - logs[0])[there].max()),
        "log_density": [float(one[there].mean()) for one in logs],
    }


def main() -> None:
    wanted = sys.argv[1:] or ["moments", *TASKS]
    path = RESULTS / "cluster.json"
    record = json.loads(path.read_text("utf-8")) if path.exists() else {}
    record.pop("machine", None)
    for name in wanted:
        if name == "moments":
            record |= moments()
        else:
            record.setdefault("fits", {})[name] = whole_fits(name)
        save("cluster", record)


def moments() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    pairs = FUNCTIONS // 2
    frequencies = 0.5 * generator.standard_normal((pairs, COLUMNS))
    basis = FourierBasis(frequencies, np.zeros(pairs), np.ones(pairs))
    base = GaussianMixtureDensity(np.ones(1), np.zeros((1, COLUMNS)), np.eye(COLUMNS)[None])
    records, sums = [], {}
    for workers in (1, 2):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            Client(cluster),
        ):
            for partitions in (4, 16):
                rows = da.map_blocks(
                    lambda block_id=None: rows_of(block_id),
                    chunks=((PARTITION,) * partitions, (COLUMNS,)),
                    dtype=float,
                )
                source = MomentSource(basis, GaussianNoise(), base, dask_rows(rows, None))
                start = time.perf_counter()
                found = source.at(0.0)[0]
                taken = time.perf_counter() - start
                sums[workers, partitions] = found
                record = {
                    "workers": workers,
                    "rows": partitions * PARTITION,
                    "seconds": taken,
                    "rows_per_second_and_worker": partitions * PARTITION / taken / workers,
                    "bytes_moved_at_most": partitions * 8 * FUNCTIONS**2,
                }
                print(record, flush=True)
                # The first of each size pays for compilation.
                if partitions == 16:
                    records.append(record)
    local = [np.random.default_rng(k).standard_normal((PARTITION, COLUMNS)) for k in range(16)]
    whole = MomentSource(
        basis, GaussianNoise(), base, ArrayRows(np.concatenate(local), np.ones(16 * PARTITION))
    ).at(0.0)[0]
    difference = max(
        float(np.abs(np.triu(sums[workers, 16].gram - whole.gram)).max()) for workers in (1, 2)
    )
    return {
        "command": "python benchmarks/cluster.py",
        "functions": FUNCTIONS,
        "runs": records,
        "speed_up_from_one_to_two": records[0]["seconds"] / records[1]["seconds"],
        "largest_difference_of_a_mean": difference / (16 * PARTITION),
    }


if __name__ == "__main__":
    main()
