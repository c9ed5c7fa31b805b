"""Moments of ten million rows on an accelerator, beside its own float64 matrix product.

    python benchmarks/gpu.py [--rows 10000000]

Rows are streamed from the host block by block, through the very code of a fit. The product of two
8192 × 8192 matrices gives the rate that the device reaches in float64; moments of n rows and m
functions need n·m² flops, the upper half of the products.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

from kexpfam.base import GaussianMixtureDensity
from kexpfam.data.rows import ArrayRows
from kexpfam.features import FourierBasis
from kexpfam.moments import BasisSummation
from kexpfam.moments.fold import largest_block
from kexpfam.noise import GaussianNoise
from measure import save, seconds

COLUMNS = 11


def product_rate(dtype: str) -> float:
    """Flops per second of a large product."""
    with jax.enable_x64(True):
        matrix = jax.numpy.ones((8192, 8192), dtype)
        product = jax.jit(lambda one: one @ one)
        taken = seconds(lambda: product(matrix).block_until_ready())
    return 2 * 8192**3 / taken


def mixture(count: int) -> GaussianMixtureDensity:
    generator = np.random.default_rng(1)
    means = generator.standard_normal((count, COLUMNS))
    return GaussianMixtureDensity(
        np.full(count, 1 / count), means, np.tile(np.eye(COLUMNS), (count, 1, 1))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((arguments.rows, COLUMNS))
    weights = np.ones(len(rows))
    rate = product_rate("float64")
    records = []
    for count in (2048, 4096):
        frequencies = 0.5 * generator.standard_normal((count // 2, COLUMNS))
        for single in (False, True):
            for components in (1, 10):
                basis = FourierBasis(
                    frequencies, np.zeros(count // 2), np.ones(count // 2), True, single
                )
                summation = BasisSummation(
                    basis, GaussianNoise(), mixture(components), 0.0, largest_block()
                )
                some = 4 * largest_block()
                summation(ArrayRows(rows[:some], weights[:some]).chunks())
                start = time.perf_counter()
                summation(ArrayRows(rows, weights).chunks())
                taken = time.perf_counter() - start
                flops = len(rows) * count**2
                record = {
                    "rows": len(rows),
                    "functions": count,
                    "features": "float32" if single else "float64",
                    "base_components": components,
                    "seconds": taken,
                    "rows_per_second": len(rows) / taken,
                    "tera_flops_per_second": flops / taken / 1e12,
                    "fraction_of_float64_product": flops / taken / rate,
                }
                records.append(record)
                print(record, flush=True)
    save(
        "gpu",
        {
            "command": "python benchmarks/gpu.py",
            "float64_product_tera_flops": rate / 1e12,
            "float32_product_tera_flops": product_rate("float32") / 1e12,
            "moments": records,
        },
    )


if __name__ == "__main__":
    main()
