"""Scores of columns with heaps, against counts, rows that are left out one by one, and SciPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kexpfam import KernelChain
from kexpfam.data.heaps import _Seen, find_heaps


def tallied(values):
    distinct, counts = np.unique(values, return_counts=True)
    return distinct.astype(float), counts.astype(float)


def rounded(n_rows, generator):
    """Sixty percent say a multiple of five."""
    exact = np.rint(generator.normal(60, 12, n_rows))
    return np.where(generator.random(n_rows) < 0.6, 5 * np.rint(exact / 5), exact)


def test_normal_masses_of_cells_are_the_frequencies(generator):
    values = rounded(20_000, generator)
    heaps = find_heaps(*tallied(values), 0.0)
    distinct, counts = tallied(values)
    ends = stats.norm.cdf([heaps.forward(distinct + half) for half in (-0.5, 0.5)])
    # But for a quarter of a row beyond both ends, and the half percent that the smooth density has.
    np.testing.assert_allclose(ends[1] - ends[0], counts / len(values), rtol=0, atol=5e-4)
    assert set(heaps.frequent) <= set(np.arange(0.0, 120.0, 5.0))


def test_scores_are_undone_and_go_on_beyond_the_values(generator):
    heaps = find_heaps(*tallied(rounded(500, generator)), 0.0)
    numbers = np.array([-7.3, -0.5, 12.0, 60.0, 60.49, 61.0, 140.0, np.nan])
    np.testing.assert_allclose(heaps.backward(heaps.forward(numbers)), numbers, atol=1e-8)
    assert (np.diff(heaps.forward(np.arange(-50.0, 200.0, 0.25))) > 0).all()
    widths = heaps.forward(numbers + 0.5) - heaps.forward(numbers - 0.5)
    np.testing.assert_allclose(heaps.log_widths(numbers), np.log(widths))


@pytest.mark.parametrize("least", [1.0, 3.0])
def test_a_value_is_predicted_by_all_rows_but_one(least):
    values, masses = np.arange(5.0), np.array([1.0, 2.0, 3.0, 4.0, 40.0])
    smooth = np.array([0.1, 0.3, 0.2, 0.1, 0.3])
    seen = _Seen(values, masses, least)
    found = seen.probabilities(smooth, 0.25, 7.0, without=1.0)
    for place in range(5):
        others = masses - (np.arange(5) == place)
        # The definition: values that are kept have their own rows less the discount.
        kept = others >= least
        own = others[place] - 0.25 if kept[place] else 0.0
        share = 7.0 + 0.25 * kept.sum() + others[~kept].sum()
        assert found[place] == pytest.approx((own + share * smooth[place]) / (others.sum() + 7.0))
    whole = seen.probabilities(smooth, 0.25, 7.0)
    assert whole.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("n_rows", [100, 3000])
def test_smooth_columns_have_no_heaps(n_rows, generator):
    for values in (
        generator.poisson(30, n_rows),
        generator.poisson(5, n_rows),
        np.rint(generator.normal(0, 50, n_rows)),
        np.rint(np.exp(generator.normal(6, 1, n_rows))),
    ):
        assert find_heaps(*tallied(values)) is None
    assert find_heaps(*tallied(np.arange(n_rows))) is None


def test_heaps_are_drawn_and_pay(generator):
    values = rounded(1200, generator)
    table = pd.DataFrame(
        {"asked": values.astype(int), "other": values + generator.normal(size=1200)}
    )
    model = KernelChain(random_state=0).fit(table[:600])
    assert "heaps at " in str(model.column_kinds_["asked"])
    given = KernelChain(columns={"asked": "count"}, random_state=0).fit(table[:600])
    assert given.column_kinds_["asked"].heaps == model.column_kinds_["asked"].heaps
    draws = model.sample(3000, random_state=0)
    shares = [(one["asked"] % 5 == 0).mean() for one in (table, draws)]
    # Four standard errors of 600 rows and 3000 draws.
    assert shares[0] == pytest.approx(shares[1], abs=0.09)
    # The truth: an exact number, or the multiple of five next to it; then a standard normal.
    numbers = np.arange(-2, 150)
    exact = stats.norm.cdf(numbers + 0.5, 60, 12) - stats.norm.cdf(numbers - 0.5, 60, 12)
    near = np.convolve(exact, np.ones(5), "same")
    masses = dict(zip(numbers, 0.4 * exact + 0.6 * near * (numbers % 5 == 0), strict=True))
    fresh = table[600:]
    truth = [np.log(masses[value]) for value in fresh["asked"]]
    truth += stats.norm.logpdf(fresh["other"] - fresh["asked"])
    # A density that is smooth from one number to the next is 0.35 below the truth, at the least.
    assert np.mean(truth) - model.score_samples(fresh).mean() < 0.2


def test_rows_are_drawn_as_they_were_with_what_was_missing(generator):
    level = generator.normal(size=600)
    frame = pd.DataFrame({"word": generator.choice(["a", "b"], 600), "level": level})
    frame.loc[level > 0.5, "word"] = None
    model = KernelChain(random_state=0).fit(frame)
    draws = model.sample(4000, random_state=0)
    assert not draws.isna().any(axis=None)
    # Rows without a hole have a mean of −0.5.
    assert draws["level"].mean() == pytest.approx(level.mean(), abs=0.12)
    complete = model.density_.draws_log_density(50, np.random.default_rng(0))[0]
    assert np.isfinite(complete).all()


def test_however_heavy_rows_are_scores_are_finite():
    values, masses = np.arange(6.0), np.array([50.0, 400, 30, 700, 20, 300])
    light, heavy = (find_heaps(values, factor * masses, 0.0) for factor in (1e12, 1e69))
    assert np.isfinite(heavy.scores).all()
    # Frequencies are known exactly with either; the ends are where rounding leaves them.
    inner = np.linspace(0.5, 4.5, 9)
    np.testing.assert_allclose(heavy.forward(inner), light.forward(inner), atol=1e-9)
