"""Imputed intervals of few rows, against conditionals of a mixture that is known."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import multivariate_normal

from kexpfam.data.kinds import ColumnKind
from kexpfam.data.layout import layout_of
from kexpfam.pipeline.chain_ground import distinct_rows
from kexpfam.progress import Progress
from kexpfam.tuning.incomplete_base import drawn_copies
from kexpfam.tuning.table_base import choose_base

N_COLUMNS, N_ROWS = 9, 100


def conditional(row, mean, covariance):
    """The log density of what is there, and centers and deviations of what is not, given it."""
    there = ~np.isnan(row)
    if not there.any():
        return 0.0, mean, np.sqrt(np.diag(covariance))
    gains = np.linalg.solve(covariance[np.ix_(there, there)], covariance[there][:, ~there]).T
    left = covariance[~there][:, ~there] - gains @ covariance[there][:, ~there]
    log_density = multivariate_normal(mean[there], covariance[np.ix_(there, there)]).logpdf(
        row[there]
    )
    return log_density, mean[~there] + gains @ (row - mean)[there], np.sqrt(np.diag(left))


def true_masses(means, covariances, rows, low, high):
    """Of intervals of what is missing in rows, given the rest, under an even mixture."""
    found = np.full(rows.shape, np.nan)
    for number, row in enumerate(rows):
        gone = np.isnan(row)
        each = [conditional(row, *part) for part in zip(means, covariances, strict=True)]
        logs = np.array([part[0] for part in each])
        masses = [
            ndtr((high[number, gone] - center) / scale) - ndtr((low[number, gone] - center) / scale)
            for _, center, scale in each
        ]
        found[number, gone] = np.exp(logs - logsumexp(logs)) @ np.array(masses)
    return found


def test_intervals_of_imputations_hold_what_they_should():
    """Two of 39 draws from either end: nine tenths, where draws and values are alike.

    The mass between them is known exactly, so that only the rows fitted to make a difference. Of so
    few rows, intervals are too narrow without widening.
    """
    shares = []
    for seed in range(3):
        generator = np.random.default_rng([seed, N_ROWS, N_COLUMNS])
        means = generator.standard_normal((3, N_COLUMNS))
        roots = 0.35 * generator.standard_normal((3, N_COLUMNS, 3))
        covariances = roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(N_COLUMNS)
        members = generator.integers(0, 3, N_ROWS)
        normal = generator.standard_normal((N_ROWS, N_COLUMNS, 1))
        rows = means[members] + (np.linalg.cholesky(covariances)[members] @ normal)[:, :, 0]
        rows[generator.random(rows.shape) < 0.3] = np.nan
        layout = layout_of(tuple(ColumnKind("real", missing=True) for _ in range(N_COLUMNS)))
        table, _ = distinct_rows(layout, rows, np.ones(N_ROWS), 0)
        everything = np.ones(len(table.weights), bool)
        choice = choose_base(table, everything, None, 0, Progress())
        assert choice.average is not None
        assert choice.marginals is not None
        first = choice.filled.shape[1] - N_COLUMNS
        partial = choice.filled.copy()
        partial[:, first:][np.isnan(table.numbers)] = np.nan
        for one in (choice._replace(widening=1.0), choice):
            draws = drawn_copies(table, partial, one.ordered(choice.average), 39)[..., first:]
            draws.sort(axis=0)
            low, high = (choice.marginals.backward(draws[place]) for place in (1, -2))
            shares.append(np.nanmean(true_masses(means, covariances, table.numbers, low, high)))
    plain, widened = np.mean(np.reshape(shares, (-1, 2)), axis=0)
    assert plain < 0.87
    # Shares of such tables vary by 0.02, means of three by somewhat more than 0.01.
    assert abs(widened - 0.9) < 0.025
