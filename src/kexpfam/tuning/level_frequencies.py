"""Which category's frequencies of values pay for a whole number, if any's do.

Category, discount δ and strength θ (see `kexpfam.model.level_frequencies`) are the likeliest for
rows that are left out one by one, beside what mixture, bell and tilt say of each. Rows that the
tilt was fitted to are more familiar to it than others, which leaves less for frequencies to gain.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.heaps import DISCOUNTS, STRENGTHS
from kexpfam.model.level_frequencies import LevelFrequencies
from kexpfam.tuning.gate import mean_and_error
from kexpfam.tuning.number_choices import LEAST_GAIN, FrequencyChoice
from kexpfam.tuning.number_problem import NumberProblem

__all__ = ["choose_frequencies", "fit_frequencies"]

# Values at most, the most frequent ones: all others are left to q.
_MOST_VALUES = 1000
# Standard errors that the gain must be away from zero: there are many categories to choose from.
_ERRORS = 2.0
_TINY = 1e-300


class _Kept(NamedTuple):
    """Values that are kept, and how many rows each has in all: as many as `least` or more."""

    values: Float[np.ndarray, " v"]
    totals: Float[np.ndarray, " v"]
    least: float

    @classmethod
    def of(cls, problem: NumberProblem) -> _Kept:
        values, places = np.unique(problem.values, return_inverse=True)
        # So that the order in which weights were summed makes no difference.
        totals = np.round(np.bincount(places.ravel(), problem.weights), 6)
        least = 0.0
        if len(values) > _MOST_VALUES:
            least = float(np.sort(totals)[-_MOST_VALUES - 1]) + 1
        return cls(values[totals >= least], totals[totals >= least], least)


class _Counted(NamedTuple):
    """How often the levels of a category were seen with each value."""

    place: int
    kept: _Kept
    counts: Float[np.ndarray, "z v"]
    rows: Float[np.ndarray, " z"]

    @classmethod
    def of(cls, problem: NumberProblem, place: int, kept: _Kept) -> _Counted:
        codes, values = problem.codes[:, place], kept.values
        known = ~np.isnan(codes)
        levels, weights = codes[known].astype(int), problem.weights[known]
        n_levels = problem.level_counts[place]
        column = np.searchsorted(values, problem.values[known])
        own = np.append(values, np.nan)[column] == problem.values[known]
        cells = levels[own] * len(values) + column[own]
        counts = np.bincount(cells, weights[own], minlength=n_levels * len(values))
        rows = np.bincount(levels, weights, minlength=n_levels)
        return cls(place, kept, np.round(counts.reshape(n_levels, -1), 6), np.round(rows, 6))

    def without_each(self, problem: NumberProblem) -> _LeftOut:
        """What each row finds without itself."""
        codes = problem.codes[:, self.place]
        known = ~np.isnan(codes)
        levels = np.where(known, codes, 0.0).astype(int)
        values, totals, least = self.kept
        column = np.minimum(np.searchsorted(values, problem.values), len(values) - 1)
        own = known & (values[column] == problem.values)
        after = np.maximum(np.where(own, self.counts[levels, column], 0.0) - 1, 0.0)
        # A value that would not be kept without the row.
        lost = own & (totals[column] - 1 < least)
        kinds = (self.counts > 0).sum(axis=1)[levels] - (own & (lost | (after == 0)))
        loose = (self.rows - self.counts.sum(axis=1))[levels] - (known & ~own)
        loose, after = loose + np.where(lost, after, 0.0), np.where(lost, 0.0, after)
        rows = np.maximum(self.rows[levels] - 1, 0.0)
        return _LeftOut(known, after, kinds, np.maximum(loose, 0.0), rows)


class _LeftOut(NamedTuple):
    known: np.ndarray
    counts: Float[np.ndarray, " n"]
    kinds: np.ndarray
    loose: Float[np.ndarray, " n"]
    rows: Float[np.ndarray, " n"]

    def gains(
        self, masses: Float[np.ndarray, " n"], discount: float, strength: float
    ) -> Float[np.ndarray, " n"]:
        """Gains in log masses over those of q."""
        own = np.maximum(self.counts - discount, 0.0)
        # What is taken off a count of less than the discount is less, too.
        share = strength + self.loose + discount * self.kinds
        found = (own + share * masses) / (self.rows + strength)
        return np.where(self.known, np.log(np.maximum(found, _TINY) / masses), 0.0)


def choose_frequencies(
    problem: NumberProblem, logs: Float[np.ndarray, " j"]
) -> FrequencyChoice | None:
    """A category and how far its frequencies are trusted; None where that is not significantly."""
    kept = _Kept.of(problem)
    if not len(kept.values):
        return None
    masses = np.maximum(np.exp(logs), _TINY)
    best: tuple[float, float, FrequencyChoice] | None = None
    for place in range(problem.codes.shape[1]):
        left_out = _Counted.of(problem, place, kept).without_each(problem)
        for pair in product(DISCOUNTS, STRENGTHS.tolist()):
            gain, error = mean_and_error(left_out.gains(masses, *pair), problem.weights)
            if best is None or gain > best[0]:
                best = gain, error, FrequencyChoice(place, *pair)
    if best is None or best[0] <= max(_ERRORS * best[1], LEAST_GAIN):
        return None
    return best[2]


def fit_frequencies(problem: NumberProblem, choice: FrequencyChoice) -> LevelFrequencies | None:
    """Frequencies fitted to all rows of a problem."""
    kept = _Kept.of(problem)
    if not len(kept.values):
        return None
    counted = _Counted.of(problem, choice.place, kept)
    masses = np.maximum(counted.counts - choice.discount, 0.0)
    return LevelFrequencies(choice.place, kept.values, masses, counted.rows + choice.strength)
