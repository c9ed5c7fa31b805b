"""Marginal maps, averaged mixtures and ties against quantiles, differences and known truths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from kexpfam.base.average_search import AveragedMixtureBase, choose_average
from kexpfam.base.averaged import fit_average
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.data.marginals import Marginals, fit_marginals
from kexpfam.data.rows import ArrayRows
from kexpfam.data.sketch import row_keys, sketch_rows
from kexpfam.data.standardize import Standardizer, fit_standardizer
from kexpfam.data.ties import spread_ties, tied_gaps
from kexpfam.progress import Progress


@pytest.fixture
def two_humps(generator):
    """A column with two separated humps beside a skewed one."""
    sides = np.where(generator.random(3000) < 0.3, -2.0, 1.5)
    humps = sides + 0.4 * generator.standard_normal(3000)
    return np.column_stack([humps, generator.gamma(2.0, size=3000)])


@pytest.fixture
def gaussianized(two_humps):
    weights, held = np.ones(len(two_humps)), np.arange(len(two_humps)) % 8 == 0
    standardizer = fit_standardizer(ArrayRows(two_humps, weights))
    return fit_marginals(two_humps, weights, held, standardizer, "gaussianize")


def test_gaussianized_columns_are_standard_normal(gaussianized, two_humps):
    for column in gaussianized.forward(two_humps).T:
        # The distance to a normal distribution stays below the 5 % point for 3000 independent rows.
        assert stats.kstest(column, "norm").statistic < 1.36 / np.sqrt(3000)


def test_the_map_is_the_quantile_of_its_mixture(gaussianized, two_humps):
    column = gaussianized.standardizer.forward(two_humps[:50])[:, 0]
    exponents = gaussianized.exponents
    powered = stats.yeojohnson(column, exponents[0])
    units = (powered - gaussianized.center[0]) / gaussianized.scale[0]
    places = (units[:, None] - gaussianized.means[0]) / gaussianized.deviations[0]
    distribution = stats.norm.cdf(places) @ gaussianized.weights[0]
    found = gaussianized.forward(two_humps[:50])[:, 0]
    np.testing.assert_allclose(found, stats.norm.ppf(distribution), rtol=1e-8)


def test_slopes_and_bends_are_derivatives(gaussianized, two_humps):
    rows, step = two_humps[:50], 1e-5

    def difference(name):
        above, below = (getattr(gaussianized.curve(rows + sign * step), name) for sign in (1, -1))
        return (above - below) / (2 * step)

    curve = gaussianized.curve(rows)
    # Central differences: the third derivative times the step squared, and rounding over the step.
    np.testing.assert_allclose(np.exp(curve.log_slopes), difference("values"), rtol=1e-5)
    np.testing.assert_allclose(curve.first, difference("log_slopes"), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(curve.second, difference("first"), rtol=1e-4, atol=1e-4)
    slopes = gaussianized.log_slopes(rows, curve.values)
    np.testing.assert_allclose(slopes, curve.log_slopes, rtol=1e-9, atol=1e-9)
    alone = gaussianized.column(1).curve(rows[:, 1:])
    np.testing.assert_allclose(alone.values, curve.values[:, 1:], rtol=1e-12)


@pytest.mark.parametrize("distance", [10.0, 40.0, 1000.0])
def test_far_out_the_map_stays_finite_and_returns(distance, gaussianized):
    rows = np.array([[-distance, -distance], [distance, distance]])
    curve = gaussianized.curve(rows)
    assert all(np.isfinite(part).all() for part in curve)
    slopes = gaussianized.log_slopes(rows, curve.values)
    np.testing.assert_allclose(slopes, curve.log_slopes, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gaussianized.backward(curve.values), rows, rtol=1e-6)


def test_numbers_come_back_from_every_quantile():
    one, nothing = np.ones(1), np.zeros(1)
    # Two humps a thousand deviations apart: between them the map is nearly flat, and a tangent
    # leads far out.
    weights, means, deviations = np.array([[0.3, 0.7]]), np.array([[-1.0, 1.0]]), [[2e-3, 1e-3]]
    maps = Marginals(
        Standardizer(nothing, one), one, nothing, one, weights, means, np.array(deviations)
    )

    def distribution(place):
        return float((weights * stats.norm.cdf((place - means) / deviations)).sum())

    levels = np.array([1e-9, 0.1, 0.299999, 0.300001, 0.5, 0.9, 1 - 1e-9])
    expected = [brentq(lambda x, p=p: distribution(x) - p, -2, 2, xtol=1e-15) for p in levels]
    found = maps.backward(stats.norm.ppf(levels)[:, None])[:, 0]
    # Near one a level has seven digits of what is above it.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    far = np.array([-1e8, -1e5, -300.0, -30.0, 30.0, 300.0, 1e5, 1e8])[:, None]
    np.testing.assert_allclose(maps.forward(maps.backward(far)), far, rtol=1e-9)


def test_an_averaged_mixture_is_close_to_the_truth(generator):
    truth = GaussianMixtureDensity(
        np.array([0.5, 0.3, 0.2]),
        np.array([[2.0, 0.0, 0.0], [-2.0, 1.0, 0.0], [0.0, -2.0, 1.0]]),
        np.array([np.eye(3), 0.3 * np.eye(3), np.diag([0.2, 1.0, 0.5])]),
    )
    rows, fresh = truth.sample(2000, generator), truth.sample(4000, generator)
    search = choose_average(rows, np.ones(2000), np.arange(2000) % 8, 0, Progress())
    fitted = fit_average(rows, np.ones(2000), search, 0).density()
    assert search.n_components >= 2
    assert np.exp(fitted.component_log_densities(fresh)).sum() > 0
    np.testing.assert_allclose(fitted.weights.sum(), 1.0, rtol=1e-12)
    # 29 parameters, 2000 rows: a maximum-likelihood fit of the right size loses 29/4000 nats.
    loss = (truth.log_density(fresh) - fitted.log_density(fresh)).mean()
    assert -0.01 < loss < 0.05


def test_weights_count_as_repetitions(generator):
    rows = generator.standard_normal((120, 2)) * [1, 3]
    counts = generator.integers(1, 4, 120)

    def density(rows, weights):
        keys = row_keys(rows, 0)
        sketch = sketch_rows(rows, weights, keys, 1000)
        return AveragedMixtureBase().fit(sketch, np.random.default_rng(0))

    weighted = density(rows, counts.astype(float))
    repeated = density(np.repeat(rows, counts, axis=0), np.ones(counts.sum()))
    np.testing.assert_allclose(weighted.log_density(rows), repeated.log_density(rows), rtol=1e-10)


def test_tied_columns_are_found_and_spread_evenly(generator):
    counts = generator.poisson(3.0, 2000).astype(float)
    rows = np.column_stack([generator.standard_normal(2000), counts])
    gaps = tied_gaps(rows)
    np.testing.assert_array_equal(gaps, [0.0, 1.0])
    spread = spread_ties(rows, row_keys(rows, 0), gaps)
    np.testing.assert_array_equal(spread[:, 0], rows[:, 0])
    np.testing.assert_array_equal(np.rint(spread[:, 1]), counts)
    moves = spread[:, 1] - counts
    assert stats.kstest(moves, "uniform", (-0.5, 1.0)).pvalue > 0.001
