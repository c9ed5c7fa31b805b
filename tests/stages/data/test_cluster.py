"""Rows on a cluster, without one; `tests/test_cluster.py` has real workers."""

import dask.array
import numpy as np
import pytest
from distributed.scheduler import KilledWorker

from kexpfam import KernelExponentialFamily


def test_workers_that_die_of_their_partition_are_explained():
    def too_large(block):
        # What Dask says when workers were killed for their memory, one after the other.
        raise KilledWorker("rows", None, 3)

    rows = dask.array.zeros((40, 2), chunks=(20, 2)).map_blocks(too_large, meta=np.zeros((0, 2)))
    model = KernelExponentialFamily(n_components=4, random_state=0)
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(MemoryError, match="Take smaller partitions"),
    ):
        model.fit(rows)
