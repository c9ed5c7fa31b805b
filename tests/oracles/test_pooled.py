"""Robust units and the pool of smooth densities, beside SciPy's normal distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from kexpfam.base.ordered import OrderedMixture
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.layout import layout_of
from kexpfam.data.marginals import Marginals
from kexpfam.data.standardize import Standardizer
from kexpfam.data.tails import robust_tails
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import CategoryTerm, NumberTerm, Scores
from kexpfam.model.expected import expected_values
from kexpfam.model.pooled import Neighbors, PooledDensity, noisy

SHARES = np.array([0.7, 0.3])
WEIGHTS = np.array([0.4, 0.6])
MEANS = np.array([[0.0, 1.0], [2.0, -1.0]])
COVARIANCES = np.array([[[1.0, 0.5], [0.5, 0.8]], [[0.5, -0.2], [-0.2, 0.4]]])
NOISE = 0.3


def identity(n_columns):
    """No map at all."""
    zeros, ones = np.zeros(n_columns), np.ones(n_columns)
    plain = ones[:, None]
    return Marginals(Standardizer(zeros, ones), ones, zeros, ones, plain, 0 * plain, plain)


@pytest.fixture(scope="module")
def density():
    """A category by itself, and a mixture of two numbers."""
    layout = layout_of((ColumnKind("category", levels=("a", "b")), *[ColumnKind("real")] * 2))
    chain = ChainDensity(
        layout,
        Scores(np.zeros(1), np.zeros((1, 0))),
        identity(2),
        OrderedMixture(WEIGHTS, MEANS, COVARIANCES),
        (CategoryTerm(np.log(SHARES), None, None),),
        (NumberTerm(), NumberTerm()),
    )
    return noisy(chain, np.full(2, NOISE**2))


def mixture_log_density(rows, columns=slice(None), more=(0.0, 0.0)):
    each = [
        multivariate_normal(
            mean[columns], (covariance + NOISE**2 * np.eye(2) + np.diag(more))[columns][:, columns]
        ).logpdf(rows)
        for mean, covariance in zip(MEANS, COVARIANCES, strict=True)
    ]
    return logsumexp(np.stack(each, axis=-1) + np.log(WEIGHTS), axis=-1)


def test_tails_are_undone_and_keep_the_order():
    generator = np.random.default_rng(0)
    rows = generator.standard_t(1, (500, 2)) * [3.0, 1e5]
    tails = robust_tails(rows, np.array([True, True]))
    mapped = tails.forward(rows)
    np.testing.assert_allclose(tails.backward(mapped), rows, rtol=1e-10)
    np.testing.assert_array_equal(np.argsort(mapped, axis=0), np.argsort(rows, axis=0))
    assert np.abs(mapped).max() < 3 + np.log(np.abs(rows).max())


def test_units_do_not_follow_gross_values_or_repeated_ones():
    rows = np.random.default_rng(0).normal(5.0, 2.0, (2000, 3))
    rows[0, 1] = 1e12
    # Most values are equal: the middle half has no width.
    rows[:1600, 2] = 5.0
    tails = robust_tails(rows, np.ones(3, bool))
    # Errors of a quartile of 2000 rows are 3 % of a deviation; three of them.
    np.testing.assert_allclose(tails.scale[:2], 2.0, rtol=0.1)
    # A fifth of the values has a variance of 4: 2 · sqrt(0.2), less what is beyond percentiles.
    assert tails.scale[2] == pytest.approx(2 * np.sqrt(0.2), rel=0.15)


def test_units_of_nearly_constant_columns_are_those_of_all_values_wherever_they_lie():
    rare = np.repeat([[0.0], [1.0]], [997, 3], axis=0)
    for shift, factor in ((0.0, 1.0), (-0.0378, 0.3), (5.1, 1e-3)):
        # Of equal values, rounding leaves no unit: 0.1 of a thousand has a deviation of 1e-17.
        rows = np.concatenate([rare * factor + shift, np.full((1000, 1), shift)], axis=1)
        tails = robust_tails(rows, np.ones(2, bool))
        np.testing.assert_allclose(tails.scale, [factor * rare.std(), 1.0])
        np.testing.assert_array_equal(tails.center, shift)


DEVIATION = 0.4


@pytest.fixture(scope="module")
def neighbors():
    """Two numbers and the second level of a category, in three folds."""
    generator = np.random.default_rng(0)
    levels = generator.integers(2, size=(30, 1)) / DEVIATION
    points = np.concatenate([generator.standard_normal((30, 2)), levels], axis=1)
    return Neighbors(points, np.arange(30) % 3, np.array([1, 2, 0]), np.array([DEVIATION]), 0.2)


def neighbor_log_density(neighbors, row, fold):
    """Distances one by one, in the columns that are there."""
    there = ~np.isnan(row)
    others = neighbors.points[neighbors.point_folds != fold][:, there]
    squares = sorted(((row[there] - other) ** 2).sum() for other in others)
    return -(there.sum() + 1) / 2 * np.log(there.sum() * 0.2**2 + np.mean(squares[:5]))


def test_abnormality_is_half_of_the_mixtures_and_half_of_the_neighbors(density, neighbors):
    numbers = np.random.default_rng(1).normal(0, 2, (6, 2))
    codes = np.column_stack([[0.0, 1.0, np.nan, np.inf, 0.0, 1.0], numbers])
    more = np.array([0.0, 0.7])
    pool = PooledDensity(((density,) * 3,), more, neighbors, 99)
    found = pool.abnormality(codes)
    levels = np.array([0.0, 1.0, np.nan, np.nan, 0.0, 1.0]) / DEVIATION
    of_level = np.log([0.7, 0.3, 1.0, 1.0, 0.7, 0.3])
    unknown = np.log([1, 1, 1, 100, 1, 1])
    for fold in range(3):
        near = [
            neighbor_log_density(neighbors, np.append(row, level), fold)
            for row, level in zip(numbers, levels, strict=True)
        ]
        mixtures = of_level + mixture_log_density(numbers, more=more)
        np.testing.assert_allclose(found[:, fold], unknown - (mixtures + near) / 2, rtol=1e-9)


def test_what_is_missing_is_left_out(density, neighbors):
    pool = PooledDensity(((density,) * 3,), np.zeros(2), neighbors, 99)
    numbers = np.array([-1.0, 0.5, 3.0])
    codes = np.column_stack([np.full(3, np.nan), numbers, np.full(3, np.nan)])
    rows = codes[:, [1, 2, 0]]
    near = [neighbor_log_density(neighbors, row, 0) for row in rows]
    expected = -(mixture_log_density(numbers[:, None], [0]) + near) / 2
    np.testing.assert_allclose(pool.abnormality(codes)[:, 0], expected, rtol=1e-9)
    # Nothing is there, and nothing is unusual.
    np.testing.assert_array_equal(pool.abnormality(np.full((1, 3), np.nan)), 0.0)


def test_surprise_and_expected_range_by_quadrature(density):
    row = np.array([0.0, 2.5, 0.3])
    found = expected_values(density, row[None], 0.9)
    grid = np.linspace(-12, 12, 24001)
    for column, place in ((1, 0), (2, 1)):
        moved = np.tile(row[1:], (len(grid), 1))
        moved[:, place] = grid
        logs = mixture_log_density(moved)
        mass = np.exp(logs - logsumexp(logs))
        tail = mass[logs <= mixture_log_density(row[1:])].sum()
        # Straight lines between nodes a quarter of a deviation apart.
        assert found.surprise[0, column] == pytest.approx(-np.log(tail), abs=0.02)
    column = found.columns[0]
    assert column == found.surprise[0].argmax()
    moved = np.tile(row[1:], (len(grid), 1))
    moved[:, column - 1] = grid
    below = np.cumsum(np.exp(mixture_log_density(moved)))
    ends = np.interp([0.05, 0.95], below / below[-1], grid)
    np.testing.assert_allclose([found.low[0], found.high[0]], ends, atol=0.02)


def test_surprise_of_categories(density):
    codes = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [np.inf, 0.0, 1.0], [np.nan, 0.0, 1.0]])
    found = expected_values(density, codes, 0.9, np.log(100))
    # The category does not depend on the numbers here.
    expected = [0.0, -np.log(0.3), np.log(100), 0.0]
    np.testing.assert_allclose(found.surprise[:, 0], expected, atol=1e-9)
    assert found.columns[2] == 0
    assert (found.low[2], found.high[2]) == (0, 0)
    assert found.share[2] == pytest.approx(0.7)
