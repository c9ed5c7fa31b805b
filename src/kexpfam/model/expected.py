"""Which column of an unusual row is responsible, and what was to be expected in its place.

Every value of a row is compared with what could stand there given all its other values:

    numbers      the conditional of a Gaussian mixture, on a grid (`kexpfam.model.surprise`)
    categories   p(c | rest) ∝ p(c and the other categories) p(numbers | categories)

The surprise of a value is −log of the probability of one that is no likelier, and the column with
the largest is responsible. What was to be expected is the central interval of a number, and the
likeliest level of a category with its probability.

| name     | shape  | meaning                                                            |
|----------|--------|--------------------------------------------------------------------|
| columns  | (n,)   | the responsible column                                             |
| surprise | (n, d) | of every value; zero where it is missing                           |
| low      | (n,)   | lower end of what was expected, as a number of the density         |
| high     | (n,)   | upper end; of a category both are the likeliest level              |
| share    | (n,)   | the probability of the interval, or of the level                   |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.ordered import patterns_of
from kexpfam.logarithms import log_sum_exp
from kexpfam.model.chain import ChainDensity
from kexpfam.model.pooled import category_logs, mixture_rows
from kexpfam.model.surprise import grids_of_mixture

__all__ = ["Expected", "expected_values"]

# Rows whose grids are in memory at the same time.
_ROWS = 32
# A probability below this is as good as none.
_LEAST = 1e-300


class Expected(NamedTuple):
    """The responsible column of each row, and what was to be expected there."""

    columns: Int[np.ndarray, " n"]
    surprise: Float[np.ndarray, "n d"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]


def expected_values(
    density: ChainDensity, codes: Float[np.ndarray, "n d"], n_rows: int, coverage: float
) -> Expected:
    """Under the base density of a chain; a level that was never seen is one in n_rows + 1."""
    unknown = np.isinf(codes)
    known = np.where(unknown, np.nan, codes)
    surprise = np.where(unknown, np.log(n_rows + 1.0), 0.0)
    ends = np.full((2, *codes.shape), np.nan)
    share = np.full(codes.shape, coverage)
    if density.mixture is not None and density.marginals is not None:
        numerics = list(density.layout.numerics)
        found, low, high = _of_numbers(density, known, coverage)
        surprise[:, numerics] += found
        ends[:, :, numerics] = low, high
    for column in density.layout.categories:
        logs = _level_logs(density, known, column)
        best = logs.argmax(axis=1)
        ends[:, :, column] = best
        share[:, column] = np.exp(logs.max(axis=1))
        there = np.flatnonzero(~np.isnan(known[:, column]))
        own = logs[there, known[there, column].astype(int)]
        below = np.where(logs[there] <= own[:, None], np.exp(logs[there]), 0.0).sum(axis=1)
        surprise[there, column] = -np.log(np.clip(below, _LEAST, 1.0))
    columns = surprise.argmax(axis=1)
    places = np.arange(len(codes)), columns
    return Expected(columns, surprise, ends[0][places], ends[1][places], share[places])


def _of_numbers(
    density: ChainDensity, codes: Float[np.ndarray, "n d"], coverage: float
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Surprise and expected interval of all numbers, zero and NaN where they are missing."""
    assert density.mixture is not None
    assert density.marginals is not None
    rows, first = mixture_rows(density, density.layout.split(codes))
    surprise = np.zeros(rows.shape)
    low, high = np.full(rows.shape, np.nan), np.full(rows.shape, np.nan)
    for there, members in patterns_of(~np.isnan(rows)):
        places = np.flatnonzero(there)
        if not len(places):
            continue
        mixture = GaussianMixtureDensity(
            density.mixture.weights,
            density.mixture.means[:, places],
            density.mixture.covariances[:, places][:, :, places],
        )
        for start in range(0, len(members), _ROWS):
            some = members[start : start + _ROWS]
            grids = grids_of_mixture(mixture, rows[np.ix_(some, places)])
            where = np.ix_(some, places)
            surprise[where] = grids.surprise()
            low[where], high[where] = grids.interval(coverage)
    gone = np.isnan(rows[:, first:])
    ends = [
        np.where(gone, np.nan, density.marginals.backward(np.where(gone, 0.0, end[:, first:])))
        for end in (low, high)
    ]
    return surprise[:, first:], ends[0], ends[1]


def _level_logs(
    density: ChainDensity, codes: Float[np.ndarray, "n d"], column: int
) -> Float[np.ndarray, "n c"]:
    """log p of all levels of a category given everything else in the row."""
    place = density.layout.categories.index(column)
    n_levels = density.layout.level_counts[place]
    logs = np.empty((len(codes), n_levels))
    for level in range(n_levels):
        moved = codes.copy()
        moved[:, column] = level
        parts = density.layout.split(moved)
        terms = density.terms(parts)
        logs[:, level] = category_logs(density, parts).sum(axis=1) + terms.numbers.sum(axis=1)
    return logs - log_sum_exp(logs, axis=1, keepdims=True)
