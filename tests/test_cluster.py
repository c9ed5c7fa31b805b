"""A real cluster, whose worker is killed or runs out of memory, and replaced by another."""

from __future__ import annotations

import os
import signal
import time

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

from kexpfam import KernelExponentialFamily
from tests.test_streams import two_humps

SETTINGS = {"n_components": 32, "random_state": 0, "tuning": "folds", "base": "gaussian"}

# What Dask says about a worker that dies is no concern of ours.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def cluster():
    """One worker, which Dask ends where it takes more than 0.7 GB; half of that is code."""
    settings = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "700MB"}
    with (
        LocalCluster(processes=True, dashboard_address=None, **settings) as cluster,
        Client(cluster),
    ):
        yield cluster


def mortal(block, visits, block_id):
    """Block number 5 kills its worker when it is read for the second time."""
    if block_id[0] == 5:
        with open(visits, "ab") as file:
            file.write(b".")
            seen = file.tell()
        if seen == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_killed_worker_changes_nothing(cluster, tmp_path):
    rows, visits = two_humps(4000), tmp_path / "visits"
    expected = KernelExponentialFamily(**SETTINGS).fit(rows)
    before = {worker.pid for worker in cluster.workers.values()}
    partitions = da.from_array(rows, chunks=(500, 3)).map_blocks(mortal, visits, dtype=float)
    found = KernelExponentialFamily(**SETTINGS).fit(partitions)
    # Three passes, one of them twice; and another process is there.
    assert visits.stat().st_size == 4
    assert before != {worker.pid for worker in cluster.workers.values()}
    np.testing.assert_allclose(found.coefficients_, expected.coefficients_, atol=1e-10)
    np.testing.assert_allclose(found.moments_.gram, expected.moments_.gram, atol=1e-10)


def greedy(block):
    """Take memory until somebody puts an end to it."""
    taken = []
    while len(taken) < 20:
        taken.append(np.ones(6_000_000))
        # Dask looks ten times a second.
        time.sleep(0.1)
    return block


def test_a_worker_that_runs_out_of_memory_is_explained(cluster, monkeypatch):
    # Dask would try three more workers first.
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    partitions = da.from_array(two_humps(400), chunks=(400, 3)).map_blocks(greedy, dtype=float)
    with pytest.raises(
        MemoryError, match=r"because they ran out of memory\. Use smaller partitions"
    ):
        KernelExponentialFamily(**SETTINGS).fit(partitions)
