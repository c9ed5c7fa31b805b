"""Frequency draws reproduce their kernels, and spectra their distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from tests.conftest import columns

from kexpfam.features import DRAWS, FourierFeatures
from kexpfam.features.spectra import SPECTRA, Matern, RadialBasis, RationalQuadratic


def matern_five_halves(r):
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


def matern(nu):
    def kernel(r):
        scaled = np.sqrt(2 * nu) * np.maximum(r, 1e-12)
        return 2 ** (1 - nu) / special.gamma(nu) * scaled**nu * special.kv(nu, scaled)

    return kernel


KERNELS = [
    (RadialBasis(), lambda r: np.exp(-(r**2) / 2)),
    (Matern(), matern_five_halves),
    (Matern(3.7), matern(3.7)),
    (RationalQuadratic(1.5), lambda r: (1 + r**2 / 3) ** -1.5),
]


# Every draw with both phases in one, two and five columns, and every kernel once.
CASES = [
    *((*KERNELS[0], draw, phases, n) for draw in sorted(DRAWS) for phases, n in
      (("paired", 1), ("random", 2), ("paired", 5))),
    *((*kernel, "orthogonal", "paired", 2) for kernel in KERNELS[1:]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spectrum", "kernel", "draw", "phases", "n_columns"),
    CASES,
    ids=[f"{case[0]!s:.20}-{'-'.join(map(str, case[2:]))}" for case in CASES],
)
def test_products_of_features_approach_the_kernel(
    spectrum, kernel, draw, phases, n_columns, generator
):
    n_components = 4096
    basis = FourierFeatures(draw, phases).build(
        n_components, columns(n_columns), spectrum, generator
    )
    points = generator.standard_normal((6, n_columns))
    angles = points @ basis.frequencies.T + basis.phases
    phi = np.cos(angles) * basis.amplitudes
    if basis.paired:
        phi = np.hstack([phi, np.sin(angles) * basis.amplitudes])
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    found = phi @ phi.T
    if draw == "quadrature":
        # The rule's node at zero, a constant, is left out of the features: put it back.
        found += 1 - np.trace(found) / 6
    # Monte-Carlo over 2048 pairs, or 4096 random phases: five standard errors. Quadrature weights
    # 1/ρ² have a heavy tail in one column, and its nodes come in correlated groups.
    tolerance = 5 / np.sqrt(n_components / 2)
    tolerance *= 2 if draw == "quadrature" else 1
    np.testing.assert_allclose(found, kernel(distances), atol=tolerance)


def test_orthogonal_rows_are_orthogonal(generator):
    draw = DRAWS["orthogonal"](generator, 8, 4)
    products = draw.normals[:4] @ draw.normals[:4].T
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12)


@pytest.mark.parametrize("draw", ["orthogonal", "quasi", "hadamard"])
def test_dependent_draws_beat_independent_ones(draw):
    """Mean squared error of the kernel at unit distance over forty draws of 64 frequencies."""
    offset = np.full(4, 0.5)

    def error(name):
        estimates = [
            np.cos(DRAWS[name](np.random.default_rng(seed), 64, 4).normals @ offset).mean()
            for seed in range(40)
        ]
        return np.mean((np.array(estimates) - np.exp(-0.5)) ** 2)

    assert error(draw) < error("independent")


def test_an_odd_number_of_paired_features_is_rounded_up(generator):
    assert FourierFeatures().build(7, columns(2), RadialBasis(), generator).n_features == 8
    assert (
        FourierFeatures(phases="random").build(7, columns(2), RadialBasis(), generator).n_features
        == 7
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Matern(2.0), "nu must be a number above 2"),
        (lambda: Matern(1.5), "four derivatives"),
        (lambda: RationalQuadratic(0.0), "positive"),
        (lambda: FourierFeatures(draw="random"), "draw must be .*got 'random'"),
        (lambda: FourierFeatures(phases="sine"), "phases must be"),
    ],
)
def test_impossible_choices_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_every_named_kernel_is_covered_above():
    assert {type(spectrum) for spectrum, _ in KERNELS} == {type(s) for s in SPECTRA.values()}
