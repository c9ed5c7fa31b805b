"""Prediction per row, beside a kernel density estimate and the cost of one matrix product.

python benchmarks/prediction.py
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KernelDensity

from kexpfam import KernelExponentialFamily
from measure import save, seconds

TRAINING, COLUMNS, ROWS, FUNCTIONS = 10_000, 11, 50_000, 512


def main() -> None:
    generator = np.random.default_rng(0)
    mixing = generator.standard_normal((COLUMNS, COLUMNS))
    training = np.tanh(generator.standard_normal((TRAINING, COLUMNS)) @ mixing)
    rows = np.tanh(generator.standard_normal((ROWS, COLUMNS)) @ mixing)
    model = KernelExponentialFamily(
        n_components=FUNCTIONS, penalty=1e-3, noise_scale=0.2, length_scale=2.0, random_state=0
    ).fit(training)
    few = rows[:500]
    density = KernelDensity(bandwidth=0.5).fit(training)
    peer = seconds(lambda: density.score_samples(few)) / len(few)
    figures = {}
    for name in ("score_samples", "gradient", "laplacian"):
        taken = seconds(lambda method=name: getattr(model, method)(rows)) / ROWS
        figures[name] = {"microseconds_per_row": 1e6 * taken, "kernel_density_ratio": peer / taken}
    save(
        "prediction",
        {
            "command": "python benchmarks/prediction.py",
            "training_rows": TRAINING,
            "columns": COLUMNS,
            "functions": FUNCTIONS,
            "base_components": len(model.density_.base.weights),
            "kernel_density_microseconds_per_row": 1e6 * peer,
            "ours": figures,
        },
    )


if __name__ == "__main__":
    main()
