"""Coefficients against a general-purpose minimizer of the loss, and the path against both."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.conftest import columns, make_sketch

from kexpfam import SingularSystemError
from kexpfam.base import GaussianBase
from kexpfam.data.blocks import make_block
from kexpfam.features import FourierFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import block_moments
from kexpfam.noise import GaussianNoise
from kexpfam.quadratic import QuadraticSystem
from kexpfam.solve import ridge_path, solve_ridge, system_at


@pytest.fixture
def random_system(generator):
    root = generator.standard_normal((12, 12))
    return QuadraticSystem(root @ root.T / 12, generator.standard_normal(12))


def test_the_coefficients_minimise_the_loss_of_the_rows(two_clusters, generator):
    """The loss is written out at each row: Δf + ½|∇f|² + ∇f·∇log q0, plus the ridge."""
    base = GaussianBase().fit(make_sketch(two_clusters), generator)
    basis = FourierFeatures().build(8, columns(2), RadialBasis(), generator)
    penalty = 0.01
    angles = two_clusters @ basis.frequencies.T
    cos, sin = np.cos(angles) * basis.amplitudes, np.sin(angles) * basis.amplitudes
    lengths = (basis.frequencies**2).sum(axis=1)

    def loss(beta):
        b_cos, b_sin = np.split(beta, 2)
        gradient = (cos * b_sin - sin * b_cos) @ basis.frequencies
        laplacian = -(cos * lengths) @ b_cos - (sin * lengths) @ b_sin
        rows = laplacian + (gradient**2).sum(axis=1) / 2
        rows += (gradient * base.gradient(two_clusters)).sum(axis=1)
        return rows.mean() + penalty / 2 * beta @ beta

    block = make_block(two_clusters, np.ones(300), base, np.eye(2), 512)
    system = system_at(
        basis, block_moments(basis, block, GaussianNoise(), 0.0), GaussianNoise(), 0.0
    )
    found = solve_ridge(system, penalty)
    best = minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-8})
    # The minimizer's gradient is good to about 1e-7 and the curvature at least the penalty's.
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert loss(found) <= best.fun + 1e-12


@pytest.mark.parametrize("with_matrix", [False, True])
def test_the_path_passes_through_every_single_solution(random_system, with_matrix, generator):
    root = generator.standard_normal((12, 12))
    matrix = root @ root.T / 12 + np.eye(12) if with_matrix else None
    penalties = np.array([1e-4, 1e-1, 10.0])
    columns = ridge_path(random_system, penalties, matrix)
    for penalty, column in zip(penalties, columns.T, strict=True):
        np.testing.assert_allclose(column, solve_ridge(random_system, penalty, matrix), rtol=1e-8)


def test_an_infinite_penalty_leaves_the_base_density(random_system):
    assert not solve_ridge(random_system, np.inf).any()


@pytest.mark.parametrize(
    "quadratic",
    [np.ones((3, 3)), np.diag([1.0, 1.0, -1.0]), np.zeros((3, 3)), np.full((3, 3), np.nan)],
    ids=["singular", "indefinite", "zero", "nan"],
)
def test_what_cannot_be_solved_is_refused(quadratic):
    with pytest.raises(SingularSystemError, match=r"penalty|finite"):
        solve_ridge(QuadraticSystem(quadratic, np.ones(3)), 0.0)
