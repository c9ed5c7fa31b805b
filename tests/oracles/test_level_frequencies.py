"""Frequencies of whole numbers with a category, against counting by hand and rows left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import poisson

from kexpfam import KernelChain
from kexpfam.base.line import OnLine
from kexpfam.model.level_frequencies import LevelFrequencies
from kexpfam.tuning.level_frequencies import (
    _Counted,
    _Kept,
    choose_frequencies,
    fit_frequencies,
)
from kexpfam.tuning.number_choices import FrequencyChoice
from kexpfam.tuning.number_problem import NumberProblem


def problem(codes, values, level_counts) -> NumberProblem:
    """Rows with categories and a number."""
    count = len(values)
    nothing = np.zeros(count)
    return NumberProblem(
        places=np.arange(count),
        inputs=nothing[:, None],
        plain_inputs=nothing[:, None],
        known=np.ones(count, bool),
        targets=nothing,
        line=OnLine(nothing, nothing, nothing, nothing),
        edges=np.zeros((3, count)),
        support=(-np.inf, np.inf),
        cells=True,
        weights=np.ones(count),
        within=nothing,
        values=values,
        codes=codes,
        level_counts=level_counts,
    )


@pytest.fixture
def seen(generator) -> NumberProblem:
    """A category with three levels, once unknown, and a number that goes with it."""
    codes = generator.integers(0, 3, (60, 1)).astype(float)
    values = codes[:, 0] + generator.choice([0, 0, 0, 1, 5], 60)
    codes[7] = np.nan
    # One value that occurs once.
    values[3] = 11.0
    return problem(codes, values, (3,))


def smooth(values: np.ndarray) -> np.ndarray:
    """Log masses of all values from 0 to 11 under a distribution of their own."""
    heights = 1.0 + np.arange(12)
    return np.log(heights / heights.sum())[values.astype(int)]


def test_probabilities_are_those_of_counting(seen):
    choice = FrequencyChoice(0, 0.25, 3.0)
    found = fit_frequencies(seen, choice)
    codes = np.repeat([[0.0], [1.0], [2.0], [np.nan]], 12, axis=0)
    values = np.tile(np.arange(12.0), 4)
    probabilities = np.exp(found.stacked(smooth(values), codes, values)).reshape(4, 12)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(probabilities[3], np.exp(smooth(np.arange(12))), atol=1e-12)
    own = seen.values[seen.codes[:, 0] == 1.0]
    counts = np.bincount(own.astype(int), minlength=12)
    own_masses = np.maximum(counts - 0.25, 0.0)
    left = len(own) + 3.0 - own_masses.sum()
    expected = (own_masses + left * np.exp(smooth(np.arange(12)))) / (len(own) + 3.0)
    np.testing.assert_allclose(probabilities[1], expected, atol=1e-12)


def kept(seen: NumberProblem, least: float) -> _Kept:
    values, totals = np.unique(seen.values, return_counts=True)
    return _Kept(values[totals >= least], totals[totals >= least].astype(float), least)


@pytest.mark.parametrize("least", [0.0, 9.0])
def test_rows_left_out_are_foreseen_by_all_others(seen, least):
    """Counts, and which values are kept, are found anew without each row."""
    left_out = _Counted.of(seen, 0, kept(seen, least)).without_each(seen)
    gains = left_out.gains(np.exp(smooth(seen.values)), 0.25, 3.0)
    for row in range(len(seen.values)):
        others = seen.where(np.arange(60) != row)
        counted = _Counted.of(others, 0, kept(others, least))
        masses = np.maximum(counted.counts - 0.25, 0.0)
        frequencies = LevelFrequencies(0, counted.kept.values, masses, counted.rows + 3.0)
        one = slice(row, row + 1)
        logs = smooth(seen.values[one])
        expected = frequencies.stacked(logs, seen.codes[one], seen.values[one]) - logs
        np.testing.assert_allclose(gains[one], expected, atol=1e-12)


def test_nothing_is_found_where_nothing_is_left_to_know(generator):
    """Counts whose distribution is known, beside categories that do not go with them."""
    levels, mean = (2, 3, 6, 12, 20), np.exp(generator.normal(1.0, 0.5, 400))
    codes, counts = generator.integers(0, levels, (400, 5)), generator.poisson(mean)
    rows = problem(codes.astype(float), counts.astype(float), levels)
    assert choose_frequencies(rows, poisson.logpmf(counts, mean)) is None
    # Half of the rows of one level have one value.
    fixed = (codes[:, 2] == 1) & (generator.random(400) < 0.5)
    named = rows._replace(values=np.where(fixed, 4.0, rows.values))
    found = choose_frequencies(named, poisson.logpmf(named.values, mean))
    assert found is not None
    assert found.place == 2


def test_draws_have_the_probabilities(seen, generator):
    found = fit_frequencies(seen, FrequencyChoice(0, 0.5, 2.0))
    codes = np.full((40_000, 1), 2.0)
    values, rest = found.drawn(codes, generator.random(len(codes)))
    by_q = np.isnan(values)
    # What is left of the uniform numbers is uniform.
    assert np.abs(np.quantile(rest[by_q], [0.25, 0.5, 0.75]) - [0.25, 0.5, 0.75]).max() < 0.02
    drawn = np.where(
        by_q, generator.choice(12, len(values), p=np.exp(smooth(np.arange(12)))), values
    )
    shares = np.bincount(drawn.astype(int), minlength=12) / len(drawn)
    expected = np.exp(found.stacked(smooth(np.arange(12)), codes[:12], np.arange(12.0)))
    np.testing.assert_allclose(shares, expected, atol=0.01)


def test_a_category_that_names_the_number_is_known_to(generator):
    """Years of school follow from the degree; the number's part is then nearly certain."""
    degrees = np.array(["none", "school", "trade", "bachelor", "master", "doctor"])
    years = np.array([3, 9, 11, 14, 12, 20])
    own = generator.integers(0, 6, 400)
    frame = pd.DataFrame(
        {"degree": degrees[own], "years": years[own], "age": generator.normal(40, 10, 400)}
    )
    model = KernelChain(random_state=0).fit(frame)
    assert model.contributions(frame)["years"].mean() > -0.05
    drawn = model.sample(500, random_state=0)
    named = pd.Series(years, index=degrees)[drawn["degree"]].to_numpy()
    assert np.mean(drawn["years"] == named) > 0.97
    # Of one row all values there are have the probability one together.
    rows = pd.concat([frame.iloc[:1]] * 60, ignore_index=True)
    rows["years"] = np.arange(60)
    total = np.exp(model.contributions(rows)["years"]).sum()
    assert total == pytest.approx(1.0, abs=1e-3)
