"""Gaussians and mixtures of incomplete rows, against closed forms and their own likelihood."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from kexpfam.base.averaged import AverageSearch, fit_average
from kexpfam.base.incomplete import choose_gaussian, incomplete_gaussian
from kexpfam.base.ordered import OrderedMixture


def test_of_complete_rows_it_has_their_moments(generator):
    rows = generator.standard_normal((400, 3)) @ generator.standard_normal((3, 3))
    weights = generator.uniform(0.5, 2.0, 400)
    mean, covariance, _ = incomplete_gaussian(rows, weights)
    np.testing.assert_allclose(mean, np.average(rows, axis=0, weights=weights), atol=1e-12)
    expected = np.cov(rows.T, aweights=weights, ddof=0)
    # Correlations are shrunk by a hundred-thousandth, and variances have a floor of a millionth.
    np.testing.assert_allclose(covariance, expected, rtol=1e-4)


def test_of_a_column_that_is_often_missing_it_is_andersons(generator):
    """Anderson (1957): regress the column on the other where both are there, then extend."""
    first = generator.standard_normal(500)
    second = 2.0 + 1.5 * first + 0.05 * generator.standard_normal(500)
    # Gone where the other is large: the mean of what is there is far from the column's.
    gone = first > 0.4
    mean, covariance, _ = incomplete_gaussian(
        np.stack([first, np.where(gone, np.nan, second)], axis=1), np.ones(500)
    )
    slope, intercept = np.polyfit(first[~gone], second[~gone], 1)
    left = np.mean((second - intercept - slope * first)[~gone] ** 2)
    np.testing.assert_allclose(mean, [first.mean(), intercept + slope * first.mean()], atol=5e-3)
    variance = first.var()
    expected = [[variance, slope * variance], [slope * variance, slope**2 * variance + left]]
    np.testing.assert_allclose(covariance, expected, rtol=5e-3)


def test_no_change_makes_what_is_there_likelier(generator):
    rows = generator.standard_normal((300, 4)) @ generator.standard_normal((4, 4))
    rows[generator.random(rows.shape) < 0.3] = np.nan
    there = ~np.isnan(rows)

    def likelihood(mean, covariance):
        logs = [
            multivariate_normal(mean[own], covariance[np.ix_(own, own)]).logpdf(row[own])
            for row, own in zip(rows, there, strict=True)
            if own.any()
        ]
        return np.sum(logs)

    mean, covariance, _ = incomplete_gaussian(rows, np.ones(len(rows)))
    best = likelihood(mean, covariance)
    roots = np.sqrt(np.diag(covariance))
    for _ in range(20):
        move = 0.05 * roots * generator.standard_normal(4)
        turn = np.eye(4) + 0.03 * generator.standard_normal((4, 4))
        assert likelihood(mean + move, turn @ covariance @ turn.T) < best


def test_what_is_there_has_the_density_of_the_columns_that_are_there(generator):
    """Rows with holes of their own, and many with holes in the same places."""
    roots = generator.standard_normal((3, 4, 4))
    mixture = OrderedMixture(
        np.array([0.2, 0.5, 0.3]),
        generator.standard_normal((3, 4)),
        roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(4),
    )
    rows = 2 * generator.standard_normal((40, 4))
    rows[:20, 1] = np.nan
    rows[20:][generator.random((20, 4)) < 0.4] = np.nan
    rows[-1] = np.nan
    expected = [
        np.log(
            sum(
                weight * multivariate_normal(mean[own], covariance[np.ix_(own, own)]).pdf(row[own])
                for weight, mean, covariance in zip(*mixture, strict=True)
            )
            if own.any()
            else 1.0
        )
        for row, own in zip(rows, ~np.isnan(rows), strict=True)
    ]
    np.testing.assert_allclose(mixture.log_marginal(rows), expected, atol=1e-12)


def test_pseudo_rows_are_as_many_as_make_other_rows_likelier(generator):
    """Columns that do not go together want many, those that do and have many rows want none."""
    folds = np.arange(60) % 5
    apart = generator.standard_normal((60, 6))
    apart[generator.random(apart.shape) < 0.3] = np.nan
    alike = generator.standard_normal((600, 1)) + 0.2 * generator.standard_normal((600, 6))
    alike[generator.random(alike.shape) < 0.3] = np.nan
    many = choose_gaussian(apart, np.ones(60), folds)
    few = choose_gaussian(alike, np.ones(600), np.arange(600) % 5)
    assert many.pseudo_rows >= 24.0
    assert few.pseudo_rows <= 1.5
    fresh = OrderedMixture(np.ones(1), np.zeros((1, 6)), np.eye(6)[None])
    rows = generator.standard_normal((500, 6))
    lost = [
        np.mean(fresh.log_marginal(rows) - one.mixture().log_marginal(rows))
        for one in (many, incomplete_gaussian(apart, np.ones(60)))
    ]
    assert lost[0] < 0.6 * lost[1]


def test_copies_of_rows_count_as_one_table(generator):
    rows, weights = generator.standard_normal((80, 2)), generator.uniform(0.5, 2.0, 80)
    search = AverageSearch(1, 60.0, 0.0, 0.0, pseudo_rows=10.0)
    once = fit_average(rows, weights, search, 0).density()
    thrice = fit_average(np.tile(rows, (3, 1)), np.tile(weights, 3), search, 0, copies=3).density()
    np.testing.assert_allclose(thrice.covariances, once.covariances, rtol=1e-5)
    np.testing.assert_allclose(thrice.means, once.means, atol=1e-6)
