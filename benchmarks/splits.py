"""The tables that benchmarks are run on, split into rows to train, to validate and to test with.

All are z-scored by their training rows. Wine and MiniBooNE follow `kexpfam.datasets.protocols`; of
the others, distinct rows are shuffled and a tenth each validates and tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn import datasets as bundled

from kexpfam.datasets import (
    load_gas_turbine,
    load_miniboone,
    load_wine_quality,
    make_density,
    make_thin_table,
)


class Rows(NamedTuple):
    """Training, validation and test rows."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def wine(color: str, seed: int) -> Rows:
    split = load_wine_quality(color, protocol="deduplicated", random_state=seed)
    return Rows(split.train, split.validation, split.test)


def miniboone(seed: int) -> Rows:
    split = load_miniboone(protocol="maf_40_columns")
    return Rows(split.train, split.validation, split.test)


def shuffled(rows: np.ndarray, seed: int) -> Rows:
    """Distinct rows, a tenth each for testing and validating, z-scored by the training rows."""
    rows = np.unique(rows, axis=0)
    rows = np.random.default_rng(seed).permutation(rows)
    tenth = len(rows) // 10
    test, validation, train = rows[:tenth], rows[tenth : 2 * tenth], rows[2 * tenth :]
    center, scale = train.mean(axis=0), train.std(axis=0)
    return Rows(*((part - center) / scale for part in (train, validation, test)))


def known(name: str, seed: int) -> Rows:
    density = make_density(name)
    return Rows(*(density.sample(2000, random_state=10 * seed + part) for part in range(3)))


def thin(name: str, seed: int) -> Rows:
    return shuffled(make_thin_table(name, 5000, random_state=seed), seed)


def gaussian(seed: int) -> Rows:
    """Six correlated normal columns: nothing for a tilt to find."""
    generator = np.random.default_rng(seed)
    return shuffled(generator.standard_normal((5000, 6)) @ generator.standard_normal((6, 6)), seed)


REAL: dict[str, Callable[[int], Rows]] = {
    "red_wine": lambda seed: wine("red", seed),
    "white_wine": lambda seed: wine("white", seed),
    "miniboone_40": miniboone,
    "gas_turbine": lambda seed: shuffled(load_gas_turbine().rows, seed),
    "breast_cancer": lambda seed: shuffled(bundled.load_breast_cancer().data, seed),
    "wine_recognition": lambda seed: shuffled(bundled.load_wine().data, seed),
    "diabetes_continuous": lambda seed: shuffled(
        bundled.load_diabetes(scaled=False).data[:, [2, 3, 4, 5, 6, 8]], seed
    ),
}
KNOWN: dict[str, Callable[[int], Rows]] = {
    name: lambda seed, name=name: known(name, seed)
    for name in ("cosine", "mixture_of_rings", "mixture_of_uniforms")
}
THIN: dict[str, Callable[[int], Rows]] = {
    name: lambda seed, name=name: thin(name, seed)
    for name in ("ratio", "product", "smooth", "powers", "sheet", "sphere")
}
