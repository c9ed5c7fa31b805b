"""Keys, sketches and folds depend on the rows' content alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.conftest import make_sketch

from kexpfam.data.sketch import (
    repeated_rows,
    row_keys,
    sketch_rows,
    split_folds,
    uniform_numbers,
)


@pytest.fixture
def rows(generator):
    return generator.standard_normal((1000, 3))


def test_keys_are_distinct_for_distinct_rows_and_equal_for_equal_ones(rows):
    assert len(np.unique(row_keys(rows, 0))) == 1000
    np.testing.assert_array_equal(row_keys(rows, 0), row_keys(rows.copy(), 0))
    assert not np.intersect1d(row_keys(rows, 0), row_keys(rows, 1)).size


def test_keys_tell_columns_apart(rows):
    assert not np.intersect1d(row_keys(rows, 0), row_keys(rows[:, ::-1], 0)).size


def test_keys_survive_rounding(rows):
    nudged = rows * (1 + 1e-15)
    assert (row_keys(rows, 0) == row_keys(nudged, 0)).mean() > 0.999


def test_folds_are_balanced(generator):
    keys = row_keys(generator.standard_normal((20_000, 2)), 3)
    folds = split_folds(keys, 5).numbers(keys)
    assert chisquare(np.bincount(folds, minlength=5)).pvalue > 1e-3


@pytest.mark.parametrize("count", [2, 4, 5, 9])
def test_no_fold_of_a_few_rows_is_empty_that_need_not_be(count):
    for seed in range(20):
        keys = row_keys(np.arange(count, dtype=float)[:, None], seed)
        assert len(np.unique(split_folds(keys, 5).numbers(keys))) == min(5, count)


def test_numbers_of_different_salts_are_unrelated(rows):
    first, second = (uniform_numbers(row_keys(rows, 0), salt) for salt in (1, 2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(1000)
    assert 0 <= first.min() < first.max() < 1


def test_a_sketch_gathers_copies_and_forgets_order(rows, generator):
    doubled = np.concatenate([rows, rows[:10]])
    sketch = make_sketch(doubled)
    assert len(sketch.rows) == 1000
    assert sketch.weights.sum() == 1010
    shuffled = make_sketch(generator.permutation(doubled))
    np.testing.assert_array_equal(shuffled.rows, sketch.rows)
    np.testing.assert_array_equal(shuffled.weights, sketch.weights)


def test_a_smaller_sketch_is_the_start_of_a_larger_one_and_knows_the_whole_box(rows):
    keys, ones = row_keys(rows, 0), np.ones(1000)
    small, large = (sketch_rows(rows, ones, keys, size) for size in (50, 500))
    np.testing.assert_array_equal(small.rows, large.rows[:50])
    np.testing.assert_array_equal(small.low, rows.min(axis=0))
    np.testing.assert_array_equal(small.high, rows.max(axis=0))


def test_whole_number_weights_are_repeated_exactly(rows, generator):
    counts = generator.integers(0, 5, 1000)
    counts[0] = 1
    repeated = repeated_rows(make_sketch(rows, counts.astype(float)))
    expected = np.repeat(rows, counts, axis=0)
    np.testing.assert_array_equal(np.sort(repeated, axis=0), np.sort(expected, axis=0))


def test_wild_weights_are_repeated_in_proportion(rows):
    weights = np.exp(np.linspace(0, 12, 1000))
    repeated = repeated_rows(make_sketch(rows, weights), limit=20_000)
    assert len(repeated) == 20_000
    exact = (weights / weights.sum()) @ rows
    # Systematic resampling misplaces at most one copy of each row.
    assert np.abs(repeated.mean(axis=0) - exact).max() < 1000 * 4 / 20_000
