"""Differences of means under permuted labels, by brute force; functions of pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from kexpfam.comparison.additive import beyond_additive
from kexpfam.comparison.evidence import weighed
from kexpfam.comparison.functions import column_functions, interactions, residuals
from kexpfam.comparison.permutations import relabelings
from kexpfam.comparison.statistics import leveled, ranked, squares_evidence, two_sided
from kexpfam.data.kinds import ColumnKind

REAL, CATEGORY = ColumnKind("real"), ColumnKind("category", levels=("a", "b", "c"))


def standardized(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


@pytest.mark.parametrize("sizes", [(30, 20), (20, 30), (2300, 2750), (2101, 9000)])
def test_the_first_line_is_the_difference_of_means(sizes):
    # Beyond a thousand rows blocks are permuted, and some rows are left over.
    generator = np.random.default_rng(0)
    functions = standardized(generator.standard_normal((sum(sizes), 3)))
    is_second = generator.permutation(np.repeat([False, True], sizes))
    labels = relabelings(is_second, 20, generator)
    first, second = functions[~is_second].mean(axis=0), functions[is_second].mean(axis=0)
    total = sum(sizes)
    scale = np.sqrt(sizes[0] * sizes[1] * (total - 1)) / total
    np.testing.assert_allclose(labels.differences(functions)[0], (second - first) * scale)
    # Every permutation takes as many rows as the smaller table has.
    rows = labels.chosen @ (labels.gathering @ np.ones(total))
    np.testing.assert_array_equal(rows, min(sizes))


def test_differences_have_deviation_one_over_all_permutations():
    functions = standardized(np.random.default_rng(0).exponential(size=(7, 1)))
    found = []
    for members in combinations(range(7), 3):
        is_second = np.isin(np.arange(7), members)
        found.append(relabelings(is_second, 1, np.random.default_rng(0)).differences(functions)[0])
    np.testing.assert_allclose(np.mean(found), 0, atol=1e-12)
    np.testing.assert_allclose(np.mean(np.square(found)), 1, rtol=1e-12)


def test_interactions_are_no_sums_of_functions_of_the_columns():
    generator = np.random.default_rng(1)
    number = generator.standard_normal(500)
    level = (number + generator.standard_normal(500) > 0).astype(float) + (number > 1)
    columns = [column_functions(number, REAL), column_functions(level, CATEGORY)]
    found = interactions(*columns)
    assert found.shape[1] == 4
    for column in columns:
        # The penalty of 1e-6 leaves that much of the additive part, times a condition number.
        np.testing.assert_allclose(found.T @ column.additive / 500, 0, atol=1e-3)


def test_residuals_are_those_of_a_regression_on_the_others():
    generator = np.random.default_rng(2)
    numbers = generator.standard_normal((4000, 3)) @ generator.standard_normal((3, 3))
    columns = [column_functions(column, REAL) for column in numbers.T]
    factors = np.concatenate([column.factors for column in columns], axis=1)
    others = np.delete(factors, 0, axis=1)
    left = factors[:, 0] - others @ np.linalg.lstsq(others, factors[:, 0], rcond=None)[0]
    # The penalty is a few times 1e-4 of the factors' variance.
    assert np.corrcoef(left, residuals(columns)[:, 0])[0, 1] > 0.999


def test_evidence_is_minus_the_logarithm_of_a_p_value():
    quantiles = np.array([1.959964, -2.575829])
    np.testing.assert_allclose(np.exp(-two_sided(quantiles)), [0.05, 0.01], rtol=1e-5)
    z = np.random.default_rng(3).standard_normal((20_000, 5))
    for evidence in (squares_evidence(z), leveled(two_sided(z).max(axis=1))):
        for level in (0.5, 0.1, 0.01):
            share = np.mean(np.exp(-evidence) <= level)
            # Wilson and Hilferty's root is good to a few percent, chance is half of that.
            assert abs(share - level) < 0.1 * level + 3 * np.sqrt(level / 20_000)


def test_ranks_count_figures_at_least_as_large():
    np.testing.assert_allclose(ranked(np.array([3.0, 1.0, 2.0, 3.0])), [0.5, 1.0, 0.75, 0.5])


def test_the_level_is_kept_by_tiny_tables():
    n_pairs, count = 100, 0
    kinds = [REAL, REAL, CATEGORY]
    for seed in range(n_pairs):
        generator = np.random.default_rng(seed)
        codes = generator.standard_normal((17, 3))
        codes[:, 1] = np.exp(codes[:, 0] + codes[:, 1])
        codes[:, 2] = generator.integers(0, 3, 17)
        codes[generator.random((17, 3)) < 0.1] = np.nan
        found = weighed(codes, kinds, np.arange(17) >= 10, None, 39, generator)
        count += found.p_value <= 0.05
    # Binomial(100, 0.05) is above 13 once in two thousand times.
    assert count <= 13


def test_moves_of_both_columns_are_no_move_of_the_pair():
    # Independent columns that both moved: the ratio of the densities is a product. With tables of
    # unequal sizes the plain difference of the products' means is far from zero.
    generator = np.random.default_rng(4)
    z = []
    for _ in range(40):
        rows = generator.standard_normal((600, 2))
        is_second = np.arange(600) >= 450
        rows[is_second] += 0.8
        columns = [column_functions(column, REAL) for column in rows.T]
        additive = np.concatenate([column.additive for column in columns], axis=1)
        z.append(beyond_additive(is_second, additive, interactions(*columns))[0])
    # Forty numbers with mean zero and deviation one: four standard errors.
    assert abs(np.mean(z)) < 4 / np.sqrt(40)
    assert 0.6 < np.std(z) < 1.5
