"""Wasserstein distances against closed forms, brute force and SciPy."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.special import gamma
from scipy.stats import wasserstein_distance as on_a_line

from kexpfam.metrics import wasserstein
from kexpfam.metrics.wasserstein import wasserstein_distance

ROWS = np.random.default_rng(0).standard_normal((30, 3))


exact = pytest.mark.skipif(
    importlib.util.find_spec("ot") is None,
    reason="exact transport needs POT, the extra kexpfam[metrics]",
)


def test_order_one_on_a_line_is_scipys(generator):
    x, y = generator.standard_normal(40), generator.exponential(size=70)
    x_weight, y_weight = generator.integers(0, 4, 40), generator.random(70)
    assert wasserstein_distance(x[:, None], y[:, None]) == pytest.approx(on_a_line(x, y))
    weighted = wasserstein_distance(
        x[:, None], y[:, None], X_weight=x_weight, Y_weight=y_weight, method="sliced"
    )
    assert weighted == pytest.approx(on_a_line(x, y, x_weight, y_weight))


@exact
@pytest.mark.parametrize("order", [1, 2])
def test_on_a_line_the_linear_program_agrees(generator, order):
    """A constant second column makes POT solve what sorting solves."""
    x, y = generator.standard_normal((25, 1)), generator.standard_normal((35, 1)) * 2
    weights = {"X_weight": generator.random(25), "Y_weight": generator.random(35)}
    flat = [np.column_stack([rows, np.full(len(rows), 3.0)]) for rows in (x, y)]
    expected = wasserstein_distance(*flat, order=order, **weights)
    assert wasserstein_distance(x, y, order=order, **weights) == pytest.approx(expected)


@exact
@pytest.mark.parametrize("order", [1, 2])
def test_the_best_of_all_assignments(generator, order):
    X, Y = generator.standard_normal((2, 6, 3))
    distances = np.linalg.norm(X[:, None] - Y, axis=2) ** order
    best = min(
        distances[np.arange(6), list(chosen)].mean() for chosen in itertools.permutations(range(6))
    )
    assert wasserstein_distance(X, Y, order=order) == pytest.approx(best ** (1 / order))


@exact
@pytest.mark.parametrize("order", [1, 2])
def test_a_shift_costs_its_length(order):
    shift = np.array([3.0, -4.0, 12.0])
    assert wasserstein_distance(ROWS, ROWS + shift, order=order) == pytest.approx(13, rel=1e-12)
    assert wasserstein_distance(ROWS, ROWS[::-1], order=order) == 0


@exact
def test_gaussians(generator):
    """W₂² = |μ − ν|² + tr(A + B − 2(A^½ B A^½)^½), within what 1000 rows each allow."""
    A, B = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, -0.6], [-0.6, 1.0]])
    shift = np.array([1.0, 2.0])
    root = sqrtm(A)
    expected = np.sqrt(shift @ shift + np.trace(A + B - 2 * sqrtm(root @ B @ root)).real)
    X = generator.multivariate_normal(np.zeros(2), A, 1000)
    Y = generator.multivariate_normal(shift, B, 1000)
    assert wasserstein_distance(X, Y, order=2) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("method", [pytest.param("exact", marks=exact), "sliced"])
@pytest.mark.parametrize("order", [1, 2])
def test_a_weight_is_a_repetition(generator, method, order):
    X, Y = generator.standard_normal((12, 2)), generator.standard_normal((9, 2)) + 1
    counts = generator.integers(0, 4, 12)
    options = {"order": order, "method": method, "random_state": 0}
    weighted = wasserstein_distance(X, Y, X_weight=counts, **options)
    repeated = wasserstein_distance(np.repeat(X, counts, axis=0), Y, **options)
    assert weighted == pytest.approx(repeated)
    assert wasserstein_distance(Y, X, Y_weight=5 * counts, **options) == pytest.approx(weighted)


@pytest.mark.parametrize("n_features", [2, 3, 11])
def test_the_sliced_distance_of_a_shift(generator, n_features):
    X = generator.standard_normal((20, n_features))
    shift = generator.standard_normal(n_features)
    length = np.linalg.norm(shift)
    # Frames complete: the squares of the projections sum to |c|² in each, with no error at all.
    second = wasserstein_distance(
        X, X + shift, order=2, method="sliced", n_projections=10 * n_features, random_state=0
    )
    assert second == pytest.approx(length / np.sqrt(n_features), rel=1e-10)
    first = wasserstein_distance(X, X + shift, method="sliced", n_projections=4000, random_state=0)
    mean = gamma(n_features / 2) / (np.sqrt(np.pi) * gamma((n_features + 1) / 2))
    assert first == pytest.approx(length * mean, rel=0.02)


@exact
@pytest.mark.parametrize("order", [1, 2])
def test_slices_are_never_longer(generator, order):
    X, Y = generator.standard_normal((40, 4)), generator.standard_normal((50, 4)) * 2
    sliced = wasserstein_distance(X, Y, order=order, method="sliced", random_state=0)
    assert sliced < wasserstein_distance(X, Y, order=order)


def test_directions_are_unit_and_as_many_as_asked(generator):
    directions = wasserstein._directions(7, 3, generator)
    assert directions.shape == (7, 3)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    np.testing.assert_allclose(directions[:3] @ directions[:3].T, np.eye(3), atol=1e-12)


def test_seeds_are_respected():
    first, again, other = (
        wasserstein_distance(ROWS, ROWS**2, method="sliced", n_projections=5, random_state=seed)
        for seed in (0, 0, 1)
    )
    assert first == again != other


@exact
def test_auto_is_exact_until_it_says_otherwise(monkeypatch):
    options = {"method": "auto", "random_state": 0}
    assert wasserstein_distance(ROWS, ROWS + 1, **options) == pytest.approx(np.sqrt(3))
    monkeypatch.setattr(wasserstein, "LARGEST_EXACT", 899)
    with pytest.warns(UserWarning, match="900 pairs of rows.*sliced"):
        sliced = wasserstein_distance(ROWS, ROWS + 1, order=2, **options)
    assert sliced == pytest.approx(1, rel=0.02)


def test_without_pot_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"kexpfam\[metrics\].*method='sliced'"):
        wasserstein_distance(ROWS, ROWS)
    assert wasserstein_distance(ROWS, ROWS, method="sliced") == 0


@exact
def test_an_unsolved_problem_is_an_error(monkeypatch):
    monkeypatch.setattr(wasserstein, "_MOST_PIVOTS", 1)
    with (
        pytest.warns(UserWarning, match="numItermax"),
        pytest.raises(RuntimeError, match="was not solved"),
    ):
        wasserstein_distance(ROWS, ROWS + 1)


def with_value(value):
    rows = ROWS.copy()
    rows[3, 1] = value
    return rows


@pytest.mark.parametrize(
    ("X", "Y", "options", "message"),
    [
        (ROWS, ROWS[:, :2], {}, "got 3 in X and 2 in Y"),
        (with_value(np.nan), ROWS, {}, "Input X contains NaN"),
        (ROWS, with_value(np.inf), {}, "Input Y contains infinity"),
        (ROWS[:0], ROWS, {}, "minimum of 1 is required"),
        (ROWS, ROWS[:, 0], {}, "Expected 2D array"),
        (ROWS, ROWS, {"order": 3}, "order must be 1 or 2; got 3"),
        (ROWS, ROWS, {"method": "fast"}, "'sliced'.*got 'fast'"),
        (ROWS, ROWS, {"method": "sliced", "n_projections": 0}, "whole number ≥ 1; got 0"),
        (ROWS, ROWS, {"X_weight": np.ones(29)}, r"X_weight must have shape \(30,\)"),
        (ROWS, ROWS, {"Y_weight": np.zeros(30)}, "Y_weight must be finite and not negative"),
        (ROWS, ROWS, {"Y_weight": -np.ones(30)}, "Y_weight must be finite and not negative"),
        (ROWS, ROWS, {"X_weight": np.full(30, np.nan)}, "X_weight must be finite"),
    ],
)
def test_bad_input(X, Y, options, message):
    with pytest.raises(ValueError, match=message):
        wasserstein_distance(X, Y, **options)
