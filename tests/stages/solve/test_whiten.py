"""Penalties with a matrix of their own, in coordinates where it is the identity."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam import SingularSystemError
from kexpfam.quadratic import QuadraticSystem
from kexpfam.solve import ridge_path, solve_ridge


@pytest.fixture
def system(generator):
    root = generator.standard_normal((10, 10))
    return QuadraticSystem(root @ root.T, generator.standard_normal(10))


@pytest.fixture
def matrix(generator):
    root = generator.standard_normal((10, 10))
    return root @ root.T + 0.1 * np.eye(10)


@pytest.mark.parametrize("penalty", [1e-6, 1.0, 1e6])
def test_coefficients_are_those_of_the_normal_equations(system, matrix, penalty):
    direct = -np.linalg.solve(system.quadratic + penalty * matrix, system.linear)
    # Two ways through matrices of condition 1e3 or so.
    np.testing.assert_allclose(solve_ridge(system, penalty, matrix), direct, rtol=1e-8, atol=1e-12)


def test_a_steep_penalty_matrix_costs_no_digits(system, generator):
    """R of condition 1e12, which whitening takes out before anything is factored."""
    scales = np.logspace(0, 6, 10)
    scaled = QuadraticSystem(system.quadratic * np.outer(scales, scales), system.linear * scales)
    found = solve_ridge(scaled, 0.1, np.diag(scales**2))
    plain = solve_ridge(system, 0.1)
    np.testing.assert_allclose(found * scales, plain, rtol=1e-9)


def test_stronger_penalties_never_make_coefficients_larger(system, matrix):
    penalties = np.logspace(-4, 4, 9)
    columns = ridge_path(system, penalties, matrix)
    lengths = np.einsum("il,ij,jl->l", columns, matrix, columns)
    assert (np.diff(lengths) < 0).all()


def test_an_error_says_how_large_a_penalty_would_do():
    quadratic = np.ones((3, 3))
    with pytest.raises(SingularSystemError, match=r"say (\S+) or more") as caught:
        solve_ridge(QuadraticSystem(quadratic, np.ones(3)), 0.0)
    enough = float(str(caught.value).split("say ")[1].split()[0])
    assert np.isfinite(solve_ridge(QuadraticSystem(quadratic, np.ones(3)), enough)).all()
