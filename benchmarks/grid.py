"""The grid basis beside random frequencies: two columns, thousands of functions.

    python benchmarks/grid.py [--rows 10000000]

The grid's moments are measured at all rows; those of random frequencies at a two-hundredth of them
and multiplied, since time is linear in rows (see scaling.py).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from kexpfam.base import GaussianMixtureDensity
from kexpfam.data.rows import ArrayRows
from kexpfam.data.sketch import row_keys, sketch_rows
from kexpfam.features import FourierFeatures, GridFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import MomentSource
from kexpfam.noise import GaussianNoise
from measure import save

FUNCTIONS, LESS = 4224, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((arguments.rows, 2))
    weights = np.ones(len(rows))
    some = rows[:10_000]
    sketch = sketch_rows(some, np.ones(10_000), row_keys(some, 0), 10_000)
    base = GaussianMixtureDensity(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    figures = {}
    for name, family, share in (("grid", GridFeatures(), 1), ("random", FourierFeatures(), LESS)):
        basis = family.build(FUNCTIONS, sketch, RadialBasis(), generator)
        basis = basis.rescaled(np.full(2, 0.3))
        count = len(rows) // share
        source = ArrayRows(rows[:count], weights[:count])
        MomentSource(basis, GaussianNoise(), base, ArrayRows(some, np.ones(10_000))).at(0.0)
        start = time.perf_counter()
        MomentSource(basis, GaussianNoise(), base, source).at(0.0)
        taken = time.perf_counter() - start
        figures[name] = {
            "functions": basis.n_features,
            "rows": count,
            "seconds": taken,
            "seconds_for_all_rows": taken * share,
        }
        print(name, figures[name], flush=True)
    ratio = figures["random"]["seconds_for_all_rows"] / figures["grid"]["seconds_for_all_rows"]
    save("grid", {"command": "python benchmarks/grid.py", **figures, "times_faster": ratio})


if __name__ == "__main__":
    main()
