"""A real cluster of worker processes, one of which is killed in the middle of a fit."""

from __future__ import annotations

import os
import signal
import threading
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


def slowly(block):
    time.sleep(0.3)
    return block


def test_a_killed_worker_changes_nothing():
    rows = two_humps(4000)
    expected = KernelExponentialFamily(**SETTINGS).fit(rows)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        partitions = da.from_array(rows, chunks=(250, 3)).map_blocks(slowly, dtype=float)
        killed = []

        def kill() -> None:
            os.kill(victim, signal.SIGKILL)
            killed.append(time.monotonic())

        # Sixteen partitions take 2.4 seconds in each of three passes.
        timer = threading.Timer(3.0, kill)
        timer.start()
        found = KernelExponentialFamily(**SETTINGS).fit(partitions)
        finished = time.monotonic()
        timer.join()
        assert killed[0] < finished
        assert victim not in client.run(os.getpid).values()
    np.testing.assert_allclose(found.coefficients_, expected.coefficients_, atol=1e-10)
    np.testing.assert_allclose(found.moments_.gram, expected.moments_.gram, atol=1e-10)
