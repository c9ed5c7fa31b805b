"""Linear algebra without Python's lock, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam.unlocked import (
    add_products,
    factored,
    invert_factored,
    invert_lower,
    inverted_triangles,
    solve_lower,
)


@pytest.fixture
def matrix(generator):
    rows = generator.standard_normal((7, 9))
    return rows @ rows.T


def test_factors_and_inverses(matrix):
    factor = np.asfortranarray(np.tril(matrix))
    assert factored(factor)
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), rtol=1e-10)
    inverse, half = factor.copy(order="F"), factor.copy(order="F")
    invert_lower(inverse)
    np.testing.assert_allclose(inverse @ factor, np.eye(7), atol=1e-9)
    invert_factored(half)
    np.testing.assert_allclose(half, np.tril(np.linalg.inv(matrix)), rtol=1e-8)
    assert not factored(-np.eye(3, order="F"))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 48, 49, 150])
def test_inverses_by_halves(size, kind, generator):
    rows = generator.standard_normal((size, size + 20))
    matrix = rows @ rows.T / size + np.eye(size)
    inverse = np.asfortranarray(np.linalg.cholesky(matrix).astype(kind))
    half, precision = inverse.copy(order="F"), np.finfo(kind).eps
    invert_lower(inverse)
    expected = np.linalg.inv(np.linalg.cholesky(matrix))
    np.testing.assert_allclose(inverse, expected, atol=50 * precision)
    invert_factored(half)
    expected = np.tril(np.linalg.inv(matrix))
    np.testing.assert_allclose(np.tril(half), expected, atol=50 * precision)


@pytest.mark.parametrize("turned", [False, True])
def test_systems_of_a_factor(turned, matrix, generator):
    factor = np.asfortranarray(np.linalg.cholesky(matrix))
    right = np.asfortranarray(generator.standard_normal((7, 3)))
    expected = np.linalg.solve(factor.T if turned else factor, right)
    solve_lower(factor, right, turned=turned)
    np.testing.assert_allclose(right, expected, rtol=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_are_added_to_the_upper_half(order, matrix, generator):
    rows = np.array(generator.standard_normal((7, 4)), order=order)
    total = np.asfortranarray(matrix)
    add_products(total, rows)
    np.testing.assert_allclose(np.triu(total), np.triu(matrix + rows @ rows.T), rtol=1e-12)
    np.testing.assert_array_equal(np.tril(total, -1), np.tril(matrix, -1))


@pytest.mark.parametrize("size", [0, 1, 5, 64, 65])
def test_stacks_of_triangles(size, generator):
    rows = generator.standard_normal((4, size, size + 20))
    factors = np.linalg.cholesky(rows @ rows.transpose(0, 2, 1) / (size + 1) + np.eye(size))
    before = factors.copy()
    # Solved by general elimination, which does not know that they are triangles.
    np.testing.assert_allclose(inverted_triangles(factors), np.linalg.inv(factors), atol=1e-12)
    # Also where they do not lie in memory one after the other.
    slanted = factors.transpose(1, 2, 0).copy().transpose(2, 0, 1)
    np.testing.assert_array_equal(inverted_triangles(slanted), inverted_triangles(factors))
    np.testing.assert_array_equal(factors, before)


def test_a_triangle_without_an_inverse_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="zero on its diagonal"):
        inverted_triangles(np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0])]))
