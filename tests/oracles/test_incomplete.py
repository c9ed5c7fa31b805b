"""The likeliest Gaussian of incomplete rows, against closed forms and its own likelihood."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from kexpfam.base.incomplete import incomplete_gaussian


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
