"""Stein features, Stein kernel, statistics and null distributions against independent oracles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from kexpfam.datasets import make_density
from kexpfam.goodness_of_fit import fssd_test, stein_test
from kexpfam.goodness_of_fit.finite_set import weighted_chi_squares
from kexpfam.goodness_of_fit.kernel_stein import stein_kernel
from kexpfam.goodness_of_fit.kernels import KERNELS
from kexpfam.goodness_of_fit.locations import gaussian_locations, power_criterion
from kexpfam.goodness_of_fit.stein_features import stein_features

# The textbook forms of k(x, y), at one pair of points.
TEXTBOOK = {
    "rbf": lambda x, y, width: jnp.exp(-((x - y) @ (x - y)) / (2 * width**2)),
    "inverse_multiquadric": lambda x, y, width: (1 + (x - y) @ (x - y) / width**2) ** -0.5,
}
kernels = pytest.mark.parametrize("name", TEXTBOOK)


def in_float64(function, *arguments):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(function)(*arguments))


def feature_at(name, x, s, location, width):
    """τ at one row and one location, ∇k by autodiff, not yet divided by √(dJ)."""
    slope = jax.grad(TEXTBOOK[name])(x, location, width)
    return s * TEXTBOOK[name](x, location, width) + slope


def stein_kernel_at(name, x, s_x, y, s_y, width):
    """h at one pair, every derivative of k by autodiff."""
    kernel = TEXTBOOK[name]
    mixed = jax.jacfwd(jax.grad(kernel, argnums=0), argnums=1)(x, y, width)
    return (
        s_x @ s_y * kernel(x, y, width)
        + s_x @ jax.grad(kernel, argnums=1)(x, y, width)
        + s_y @ jax.grad(kernel, argnums=0)(x, y, width)
        + jnp.trace(mixed)
    )


@kernels
def test_a_kernels_slope_and_curvature_are_its_derivatives(name):
    squares = np.linspace(0, 6, 13)

    def value(u):
        return KERNELS[name](u).value

    for field, oracle in [("slope", jax.grad(value)), ("curvature", jax.grad(jax.grad(value)))]:
        found = in_float64(lambda u, f=field: getattr(KERNELS[name](u), f), squares)
        np.testing.assert_allclose(found, in_float64(jax.vmap(oracle), squares), rtol=1e-12)


@kernels
def test_the_features_against_autodiff(name, generator):
    rows, gradients = generator.standard_normal((2, 6, 3))
    locations = generator.standard_normal((4, 3))
    found = in_float64(
        lambda *a: stein_features(*a, 1.7, KERNELS[name]), rows, gradients, locations
    )
    with jax.enable_x64(True):
        evaluate = jax.jit(lambda *a: feature_at(name, *a, 1.7))
        expected = [
            np.concatenate([evaluate(x, s, v) for v in locations])
            for x, s in zip(rows, gradients, strict=True)
        ]
    np.testing.assert_allclose(found, np.array(expected) / np.sqrt(12), rtol=1e-10, atol=1e-14)


@kernels
def test_the_stein_kernel_against_autodiff(name, generator):
    rows, gradients = generator.standard_normal((2, 5, 3))
    others, other_gradients = generator.standard_normal((2, 4, 3))
    width = 1.7
    found = in_float64(
        lambda *a: stein_kernel(*a, KERNELS[name]),
        rows / width, gradients * width, others / width, other_gradients * width,
    )  # fmt: skip
    with jax.enable_x64(True):
        evaluate = jax.jit(lambda *a: stein_kernel_at(name, *a, width))
        expected = [
            [
                float(evaluate(x, s_x, y, s_y))
                for y, s_y in zip(others, other_gradients, strict=True)
            ]
            for x, s_x in zip(rows, gradients, strict=True)
        ]
    # Lengths in widths: h carries one over a length squared.
    np.testing.assert_allclose(found / width**2, expected, rtol=1e-9, atol=1e-12)


@kernels
@pytest.mark.parametrize("name_of_density", ["gaussian_mixture", "banana", "funnel"])
def test_the_features_have_mean_zero_under_the_model(name, name_of_density, generator):
    density = make_density(name_of_density)
    rows = density.sample(100_000, random_state=generator)
    locations = generator.standard_normal((3, 2))
    features = in_float64(
        lambda *a: stein_features(*a, 1.5, KERNELS[name]), rows, density.gradient(rows), locations
    )
    errors = features.std(axis=0) / np.sqrt(len(rows))
    # Six features in each of six cases: 4.5 standard errors once in 4000 runs.
    assert (np.abs(features.mean(axis=0)) < 4.5 * errors).all()


@kernels
def test_the_finite_set_statistic_against_a_double_loop(name, generator):
    rows = generator.standard_normal((30, 2)) + 0.3
    locations = generator.standard_normal((3, 2))
    result = fssd_test(
        lambda x: -(x**3), rows, locations=locations, width=1.3, kernel=name, n_null_draws=20_000,
        random_state=0,
    )  # fmt: skip
    with jax.enable_x64(True):
        evaluate = jax.jit(lambda *a: feature_at(name, *a, 1.3))
        features = [np.concatenate([evaluate(x, -(x**3), v) for v in locations]) for x in rows]
    features = np.array(features) / np.sqrt(6)
    pairs = [features[i] @ features[j] for i in range(30) for j in range(30) if i != j]
    np.testing.assert_allclose(result.statistic, 30 * np.mean(pairs), rtol=1e-10)
    # The null distribution has mean 0 and variance 2 Σλ²; 20 000 draws know its standard
    # deviation to a few percent.
    deviation = np.sqrt(2 * (np.cov(features.T) ** 2).sum())
    assert abs(result.null_draws.mean()) < 5 * deviation / np.sqrt(20_000)
    np.testing.assert_allclose(result.null_draws.std(), deviation, rtol=0.06)


@kernels
def test_the_stein_statistic_and_its_bootstrap_against_a_double_loop(name, generator):
    rows = generator.standard_normal((12, 2)) + 5.0
    gradients = -((rows - 5.0) ** 3)
    result = stein_test(
        lambda _: gradients, rows, width=1.3, kernel=name, n_null_draws=40_000, random_state=0
    )
    pairs = np.zeros((12, 12))
    with jax.enable_x64(True):
        evaluate = jax.jit(lambda *a: stein_kernel_at(name, *a, 1.3))
        for i in range(12):
            for j in range(12):
                pairs[i, j] = evaluate(rows[i], gradients[i], rows[j], gradients[j])
    pairs -= np.diag(np.diag(pairs))
    np.testing.assert_allclose(result.statistic, pairs.sum() / 11, rtol=1e-9)
    # All 2^11 choices of signs (up to a common flip) give the distribution of the draws exactly.
    flips = 1 - 2 * ((np.arange(2**11)[:, None] >> np.arange(12)) & 1)
    exact = np.sort(np.einsum("ki,ij,kj->k", flips, pairs, flips)) / 11
    # Whatever the signs, a draw is one of these values ...
    nearest = exact[np.clip(np.searchsorted(exact, result.null_draws), 1, 2**11 - 1)]
    below = exact[np.clip(np.searchsorted(exact, result.null_draws) - 1, 0, None)]
    gaps = np.minimum(np.abs(nearest - result.null_draws), np.abs(below - result.null_draws))
    assert gaps.max() < 1e-9 * np.abs(exact).max()
    # ... and the p-value is their tail: binomial error 0.0025, bounded at four.
    assert abs(result.p_value - (exact >= result.statistic - 1e-9).mean()) < 0.01


def test_the_v_statistic_has_the_same_p_value(generator):
    """The diagonal is the same in the statistic and in every draw."""
    rows = generator.standard_normal((40, 2)) * 1.2
    gradients = -rows
    matrix = in_float64(
        lambda *a: stein_kernel(*a, KERNELS["rbf"]), rows, gradients, rows, gradients
    )
    signs = generator.choice([-1.0, 1.0], (500, 40))
    bootstrap = np.einsum("ki,ij,kj->k", signs, matrix, signs)
    trace = np.trace(matrix)
    with_diagonal = (bootstrap >= matrix.sum()).mean()
    assert with_diagonal == (bootstrap - trace >= matrix.sum() - trace).mean()


def test_blocks_do_not_change_the_stein_statistic(generator):
    """1500 rows make two blocks of unequal size; the oracle is one kernel matrix."""
    rows = generator.standard_normal((1500, 2)) * 1.1
    result = stein_test(lambda x: -x, rows, width=2.0, n_null_draws=3, random_state=0)
    matrix = in_float64(
        lambda *a: stein_kernel(*a, KERNELS["rbf"]), rows / 2, -rows * 2, rows / 2, -rows * 2
    )
    expected = (matrix.sum() - np.trace(matrix)) / (4 * 1499)
    np.testing.assert_allclose(result.statistic, expected, rtol=1e-8)


def test_blocks_do_not_change_the_finite_set_statistic(generator):
    rows = generator.standard_normal((1500, 2)) * 1.1
    locations = generator.standard_normal((2, 2))
    result = fssd_test(lambda x: -x, rows, locations=locations, width=2.0, random_state=0)
    features = in_float64(
        lambda *a: stein_features(*a, 2.0, KERNELS["rbf"]), rows, -rows, locations
    )
    gram = features @ features.T
    np.testing.assert_allclose(
        result.statistic, (gram.sum() - np.trace(gram)) / 1499, rtol=1e-8, atol=1e-12
    )


@pytest.mark.parametrize("weights", [np.ones(4), np.array([2.0])])
def test_equal_eigenvalues_give_a_chi_square(weights, generator):
    draws = weighted_chi_squares(weights, 20_000, generator)
    distribution = stats.chi2(len(weights), loc=-weights.sum(), scale=weights[0])
    # The largest gap between 20 000 draws and their distribution exceeds 1.63/√20 000 once in
    # 100 runs.
    assert stats.kstest(draws, distribution.cdf).statistic < 1.63 / np.sqrt(20_000)


def test_the_null_law_is_that_of_the_statistic_under_the_model():
    """The 0.95 quantile of the draws against statistics of 1000 fresh samples of the model."""
    generator = np.random.default_rng(5)
    locations = generator.standard_normal((3, 2))
    options = {"locations": locations, "width": 1.5, "n_null_draws": 5000}
    statistics = [
        fssd_test(lambda x: -x, rows, **{**options, "n_null_draws": 1}).statistic
        for rows in generator.standard_normal((1000, 300, 2))
    ]
    draws = fssd_test(
        lambda x: -x, generator.standard_normal((20_000, 2)), **options, random_state=0
    ).null_draws
    # A share of 0.05 among 1000 has binomial error 0.007; four of them, and one for the draws.
    assert abs(np.mean(statistics > np.quantile(draws, 0.95)) - 0.05) < 0.03


def test_the_power_criterion_against_its_definition(generator):
    rows = generator.standard_normal((40, 2)) + 0.4
    locations = generator.standard_normal((3, 2))
    features = in_float64(
        lambda *a: stein_features(*a, 1.2, KERNELS["rbf"]), rows, -rows, locations
    )
    gram = features @ features.T
    square = (gram.sum() - np.trace(gram)) / (40 * 39)
    mean = features.mean(axis=0)
    deviation = np.sqrt(4 * mean @ np.cov(features.T, bias=True) @ mean)
    padding = np.full((5, 2), 3.0)
    found = in_float64(
        lambda *a: power_criterion(*a, 1.2, KERNELS["rbf"]),
        np.vstack([rows, padding]),
        np.vstack([-rows, padding]),
        np.repeat([1.0, 0.0], [40, 5]),
        locations,
    )
    np.testing.assert_allclose(found, square / (deviation + 0.2), rtol=1e-9)


def test_gaussian_locations_have_the_rows_mean_and_covariance(generator):
    rows = generator.standard_normal((50, 2)) @ np.array([[1.0, 0.8], [0.0, 0.3]]) + [3.0, -1.0]
    draws = gaussian_locations(rows, 20_000, generator)
    # Moments of 20 000 draws are good to about 1/√20 000 of the variances, near one here.
    np.testing.assert_allclose(draws.mean(axis=0), rows.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), np.cov(rows.T), atol=0.05)
