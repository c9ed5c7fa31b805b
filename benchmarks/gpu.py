"""Moments of ten million rows on an accelerator, beside its own float64 matrix product.

    python benchmarks/gpu.py [--rows 10000000]

Rows are streamed from the host block by block, through the very code of a fit. The product of two
8192 × 8192 matrices of random numbers gives the rate that the device reaches in float64; ones,
which take less power, run faster, and any numbers slower after a second: both are written down too.
Moments of n rows and m functions need n·m² flops, the upper half of the products. The mixed
precision is compared with double precision, mean by mean, and in what fits with either say of rows
that they have not seen, for ever smaller penalties.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np

from kexpfam import FourierFeatures, KernelExponentialFamily
from kexpfam.base import GaussianMixtureDensity
from kexpfam.data.rows import ArrayRows
from kexpfam.features import FourierBasis
from kexpfam.moments import BasisSummation
from kexpfam.moments.fold import largest_block
from kexpfam.noise import GaussianNoise
from measure import save, seconds

COLUMNS = 11
PRECISIONS = ("double", "mixed")
FIT_FUNCTIONS, FIT_ROWS, HELD_OUT = 2048, 300_000, 20_000
PENALTIES = (1e-4, 1e-6, 1e-8)


def product_rate(*, ones: bool = False, products: int = 1) -> float:
    """Flops per second of large float64 products, one after the other."""
    size = 8192
    numbers = np.random.default_rng(0).standard_normal((size, size))
    with jax.enable_x64(True):
        matrix = jax.numpy.asarray(np.ones_like(numbers) if ones else numbers)
        product = jax.jit(lambda one: one @ one)

    def repeated() -> None:
        with jax.enable_x64(True):
            for _ in range(products):
                found = product(matrix)
            found.block_until_ready()

    return 2 * size**3 * products / seconds(repeated)


def mixture(count: int) -> GaussianMixtureDensity:
    generator = np.random.default_rng(1)
    means = generator.standard_normal((count, COLUMNS))
    return GaussianMixtureDensity(
        np.full(count, 1 / count), means, np.tile(np.eye(COLUMNS), (count, 1, 1))
    )


def summed(summation: BasisSummation, rows: np.ndarray, repeats: int = 3) -> tuple[Any, float]:
    """Moments, and the median of the seconds they take."""
    weights, times = np.ones(len(rows)), []
    some = 4 * largest_block()
    summation(ArrayRows(rows[:some], weights[:some]).chunks())
    for _ in range(repeats):
        start = time.perf_counter()
        moments = summation(ArrayRows(rows, weights).chunks())[0]
        times.append(time.perf_counter() - start)
    return moments, float(np.median(times))


def errors(found: Any, exact: Any) -> dict[str, float]:
    """Of the means that products and features have."""
    means = np.triu(found.gram - exact.gram)[np.triu_indices(len(exact.gram))] / exact.weight
    diagonal = np.diagonal(found.gram - exact.gram) / exact.weight
    return {
        "largest_error_of_a_mean_product": float(np.abs(means).max()),
        "root_mean_square_error_of_mean_products": float(np.sqrt((means**2).mean())),
        "mean_error_of_mean_squares": float(diagonal.mean()),
        "largest_error_of_a_mean": float(np.abs(found.total - exact.total).max() / exact.weight),
    }


def moments(rows: np.ndarray, rate: float) -> list[dict[str, Any]]:
    generator, records = np.random.default_rng(2), []
    for count in (2048, 4096):
        frequencies = 0.5 * generator.standard_normal((count // 2, COLUMNS))
        for components in (1, 10):
            exact: Any = None
            for precision in PRECISIONS:
                phases, ones = np.zeros(count // 2), np.ones(count // 2)
                basis = FourierBasis(frequencies, phases, ones, mixed=precision == "mixed")
                base = mixture(components)
                summation = BasisSummation(basis, GaussianNoise(), base, 0.0, largest_block())
                found, taken = summed(summation, rows)
                flops = len(rows) * count**2
                record = {
                    "rows": len(rows),
                    "functions": count,
                    "precision": precision,
                    "base_components": components,
                    "seconds": taken,
                    "rows_per_second": len(rows) / taken,
                    "tera_flops_per_second": flops / taken / 1e12,
                    "fraction_of_float64_product": flops / taken / rate,
                }
                if exact is None:
                    exact = found
                else:
                    record |= errors(found, exact)
                records.append(record)
                print(record, flush=True)
    return records


def bent_rows(n_rows: int) -> np.ndarray:
    """Columns that depend on each other by more than covariances."""
    generator = np.random.default_rng(3)
    rows = generator.standard_normal((n_rows, COLUMNS))
    rows[:, 1::2] += rows[:, :-1:2] ** 2 / 2
    return rows


def fits(n_rows: int) -> list[dict[str, Any]]:
    """Held-out mean log densities of fits with the same seed."""
    rows, records = bent_rows(n_rows + HELD_OUT), []
    for penalty in PENALTIES:
        scores = {}
        for precision in PRECISIONS:
            model = KernelExponentialFamily(
                n_components=FIT_FUNCTIONS,
                basis=FourierFeatures(precision=precision),
                base="gaussian",
                length_scale=2.0,
                noise_scale=0.1,
                penalty=penalty,
                gate=False,
                random_state=0,
            ).fit(rows[HELD_OUT:])
            scores[precision] = model.score_samples(rows[:HELD_OUT])
        difference = scores["mixed"] - scores["double"]
        record = {
            "rows": n_rows,
            "functions": FIT_FUNCTIONS,
            "held_out": HELD_OUT,
            "penalty": penalty,
            "mean_log_density": float(scores["double"].mean()),
            "standard_error": float(scores["double"].std() / HELD_OUT**0.5),
            "difference": float(difference.mean()),
            "largest_difference_of_a_row": float(np.abs(difference).max()),
        }
        records.append(record)
        print(record, flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    rows = np.random.default_rng(0).standard_normal((arguments.rows, COLUMNS))
    rate = product_rate()
    record = {
        "command": "python benchmarks/gpu.py",
        "float64_product_tera_flops": rate / 1e12,
        "float64_product_of_ones_tera_flops": product_rate(ones=True) / 1e12,
        "float64_product_sustained_tera_flops": product_rate(products=100) / 1e12,
        "moments": moments(rows, rate),
        "fits": fits(min(arguments.rows, FIT_ROWS)),
    }
    save("gpu", record)


if __name__ == "__main__":
    main()
