"""KernelDiffusion on an accelerator: sums of all noise levels, and log densities by the flow.

    python benchmarks/gpu_diffusion.py [--rows 1000000] [--name gpu_diffusion]

Eleven columns of `gpu_growth.py`. A model with 1024 functions is fitted to 20 000 rows, ungated, so
that it has a tilt. `levels` is one pass of its sums (all noise levels) over many rows in memory,
`flow` are log densities of rows by its flow, all transfers included; once compiled. Run it with
JAX_PLATFORMS=cpu for the same on the cores of the processor.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from gpu_growth import table
from kexpfam import KernelDiffusion
from kexpfam.data.rows import ArrayRows
from measure import save, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--name", default="gpu_diffusion")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    model = KernelDiffusion(n_components=1024, gate=False, random_state=0).fit(table(20_000, 0))
    fitted = time.perf_counter() - begun
    rows = table(arguments.rows, 1)
    sums = model.fitted_.sums
    summation = sums.summation
    source = ArrayRows(rows, np.ones(len(rows)))

    def levels() -> None:
        sums.added(source, 1.0)

    some = rows[:32_768]
    save(
        arguments.name,
        {
            "command": "python benchmarks/gpu_diffusion.py",
            "rows": arguments.rows,
            "nodes": len(summation.nodes),
            "copies": 2 * summation.n_directions,
            "components": len(summation.base.log_weights),
            "steps": int(model.n_steps_),
            "fit_seconds": fitted,
            "levels_seconds": seconds(levels, repeats=1),
            "flow_rows": len(some),
            "flow_seconds": seconds(lambda: model.score_samples(some), repeats=2),
        },
    )


if __name__ == "__main__":
    main()
