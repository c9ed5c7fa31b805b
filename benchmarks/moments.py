"""The hot kernel: moments of 100 000 rows beside what the machine can do.

    python benchmarks/moments.py

The limit is NumPy's `C.T @ C` (BLAS's symmetric product) for a random C of the features' shape; the
floor adds the cosines and sines. The peers' own way, `features = transform(X); features.T @
features` with scikit-learn's RBFSampler, stands beside.
"""

from __future__ import annotations

import jax
import numpy as np
from sklearn.kernel_approximation import RBFSampler

from kexpfam.base import GaussianMixtureDensity
from kexpfam.data.rows import ArrayRows
from kexpfam.features import FourierBasis
from kexpfam.features.trigonometry import cosine_and_sine
from kexpfam.moments import BasisSummation
from kexpfam.moments.fold import largest_block
from kexpfam.noise import GaussianNoise
from kexpfam.precision import compiled
from measure import save, seconds

ROWS, COLUMNS, FUNCTIONS = 100_000, 11, 1024


@compiled
def both(angles):
    return cosine_and_sine(angles)


@compiled
def library(angles):
    return jax.numpy.cos(angles), jax.numpy.sin(angles)


def symmetric_product(features: np.ndarray) -> float:
    return seconds(lambda: features.T @ features, 5)


def main() -> None:
    generator = np.random.default_rng(0)
    rows, weights = generator.standard_normal((ROWS, COLUMNS)), np.ones(ROWS)
    limit = symmetric_product(generator.standard_normal((ROWS, FUNCTIONS)))
    pairs = FUNCTIONS // 2
    frequencies = 0.5 * generator.standard_normal((pairs, COLUMNS))
    figures = {}
    for name, single, components in (
        ("float64, Gaussian base", False, 1),
        ("float64, mixture of 10", False, 10),
        ("float32 features, Gaussian base", True, 1),
    ):
        base = GaussianMixtureDensity(
            np.full(components, 1 / components),
            generator.standard_normal((components, COLUMNS)),
            np.tile(np.eye(COLUMNS), (components, 1, 1)),
        )
        basis = FourierBasis(frequencies, np.zeros(pairs), np.ones(pairs), True, single)
        summation = BasisSummation(basis, GaussianNoise(), base, 0.0, largest_block())
        taken = seconds(lambda s=summation: s(ArrayRows(rows, weights).chunks()), 5)
        figures[name] = {"seconds": taken, "ratio_to_symmetric_product": taken / limit}
        if not single and components == 1:
            exact = summation(ArrayRows(rows, weights).chunks())[0].gram
        if single:
            rough = summation(ArrayRows(rows, weights).chunks())[0].gram
            error = np.abs(np.triu(rough - exact)).max() / ROWS
            figures[name]["largest_error_of_a_mean"] = float(error)
    sampler = RBFSampler(n_components=FUNCTIONS, random_state=0).fit(rows[:10])

    def by_hand() -> None:
        mapped = sampler.transform(rows)
        mapped.T @ mapped

    angles = generator.standard_normal((pairs, 2048)) * 3
    scale = ROWS / 2048
    save(
        "moments",
        {
            "command": "python benchmarks/moments.py",
            "rows": ROWS,
            "columns": COLUMNS,
            "functions": FUNCTIONS,
            "numpy_symmetric_product_seconds": limit,
            "numpy_symmetric_product_giga_flops": ROWS * FUNCTIONS**2 / limit / 1e9,
            "cosines_and_sines_seconds": scale * seconds(lambda: both(angles), 9),
            "cosines_and_sines_of_xla_seconds": scale * seconds(lambda: library(angles), 9),
            "rbf_sampler_and_product_seconds": seconds(by_hand),
            "moments": figures,
        },
    )


if __name__ == "__main__":
    main()
