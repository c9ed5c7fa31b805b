"""Moments on a Dask cluster of one and of two workers with one thread each.

    python benchmarks/cluster.py

The figures for 10⁹ rows and more follow from the cost model in docs/large_data.md.
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

import time  # noqa: E402

import dask.array as da  # noqa: E402
import numpy as np  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from kexpfam.base import GaussianMixtureDensity  # noqa: E402
from kexpfam.data.cluster import dask_rows  # noqa: E402
from kexpfam.data.rows import ArrayRows  # noqa: E402
from kexpfam.features import FourierBasis  # noqa: E402
from kexpfam.moments import MomentSource  # noqa: E402
from kexpfam.noise import GaussianNoise  # noqa: E402
from measure import save  # noqa: E402

PARTITION, COLUMNS, FUNCTIONS = 50_000, 11, 1024


def rows_of(block_id) -> np.ndarray:
    return np.random.default_rng(block_id[0]).standard_normal((PARTITION, COLUMNS))


def main() -> None:
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
    save(
        "cluster",
        {
            "command": "python benchmarks/cluster.py",
            "functions": FUNCTIONS,
            "runs": records,
            "speed_up_from_one_to_two": records[0]["seconds"] / records[1]["seconds"],
            "largest_difference_of_a_mean": difference / (16 * PARTITION),
        },
    )


if __name__ == "__main__":
    main()
