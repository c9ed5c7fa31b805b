"""Tests of fit keep their level, gain power, and refuse what they cannot judge."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from kexpfam.datasets import make_density
from kexpfam.goodness_of_fit import Profile, fssd_test, stein_test
from kexpfam.goodness_of_fit.locations import MOST_TRAINING_ROWS

ROWS = np.random.default_rng(0).standard_normal((60, 2))
TESTS = {
    "finite set": lambda *a, **k: fssd_test(*a, **{"n_null_draws": 500, **k}),
    "optimized": lambda *a, **k: fssd_test(
        *a, **{"n_null_draws": 500, "locations": "optimized", "n_steps": 20, **k}
    ),
    "kernel": lambda *a, **k: stein_test(*a, **{"n_null_draws": 300, **k}),
}
every_test = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)


def standard_normal(rows):
    return -rows


class FittedNormal(BaseEstimator):
    """A standard normal that insists on being fitted and on its columns' names."""

    def fit(self, X):
        validate_data(self, X)
        self.fitted_ = True
        return self

    def gradient(self, X):
        check_is_fitted(self)
        return -validate_data(self, X, reset=False)


def rejections(test, model, draw, n_trials, seed=1, **options):
    """The share of samples on which the test rejects at 0.05."""
    generator = np.random.default_rng(seed)
    p_values = [
        test(model, draw(generator), random_state=generator, **options).p_value
        for _ in range(n_trials)
    ]
    return np.mean(np.array(p_values) <= 0.05)


# ── level and power ────────────────────────────────────────────────────────────────────────────


@every_test
@pytest.mark.parametrize("distribution", ["gaussian", "mixture"])
def test_a_true_model_is_rejected_one_time_in_twenty(test, distribution):
    mixture = make_density("gaussian_mixture")
    model, draw = {
        "gaussian": (standard_normal, lambda generator: generator.standard_normal((120, 3))),
        "mixture": (mixture, lambda generator: mixture.sample(120, generator)),
    }[distribution]
    # Binomial error of 250 trials at 0.05: 0.0138. Three of them.
    assert abs(rejections(test, model, draw, 250) - 0.05) < 0.0414


@every_test
def test_power_grows_with_the_shift(test):
    powers = [
        rejections(test, standard_normal, lambda g, m=mean: g.normal([m, 0], 1, (200, 2)), 40)
        for mean in (0.0, 0.3, 0.6)
    ]
    # From the level to (almost) always, and in between in between: with 40 trials a share has a
    # binomial error of at most 0.08.
    assert powers[0] < 0.15
    assert powers[0] + 0.1 < powers[1] <= powers[2]
    assert powers[2] > 0.9


def test_optimized_locations_see_what_random_ones_miss():
    """One column of five is 1.4 times too wide."""

    def draw(generator):
        return generator.standard_normal((500, 5)) * [1.4, 1, 1, 1, 1]

    random = rejections(fssd_test, standard_normal, draw, 40, n_null_draws=500)
    optimized = rejections(
        fssd_test, standard_normal, draw, 40, n_null_draws=500, locations="optimized"
    )
    # Measured 0.2 and 0.95 over 200 samples; the difference of two shares of 40 has a binomial
    # error of at most 0.11.
    assert optimized > random + 0.3


@pytest.mark.parametrize("kernel", ["rbf", "inverse_multiquadric"])
@every_test
def test_a_known_density_told_from_another(test, kernel):
    rows = make_density("banana").sample(400, random_state=0)
    assert test(make_density("banana"), rows, kernel=kernel, random_state=0).p_value > 0.05
    assert test(make_density("funnel"), rows, kernel=kernel, random_state=0).p_value < 0.01


# ── what must not matter ───────────────────────────────────────────────────────────────────────


def same(result, other, factor=1.0):
    assert result.p_value == other.p_value
    np.testing.assert_allclose(result.statistic, other.statistic * factor, rtol=1e-6)


@every_test
def test_models_functions_and_frames_are_alike(test):
    expected = test(standard_normal, ROWS, random_state=0)
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    # A model fitted to a frame warns, and so fails here, unless it gets the names back.
    named = FittedNormal().fit(frame)
    same(test(named, frame, random_state=0), expected)
    same(test(FittedNormal().fit(ROWS), ROWS, random_state=0), expected)
    same(test(standard_normal, frame, random_state=0), expected)
    same(test(standard_normal, pl.DataFrame(frame.to_dict("list")), random_state=0), expected)
    same(test(standard_normal, ROWS.tolist(), random_state=0), expected)
    same(test(lambda rows: -jax.numpy.asarray(rows), ROWS.astype("f4"), random_state=0),
         test(standard_normal, ROWS.astype("f4"), random_state=0))  # fmt: skip


@every_test
@pytest.mark.parametrize("unit", [1e-6, 1024.0, 1e150])
def test_units_and_origin(test, unit):
    """A statistic carries one over a length squared; the p-value carries nothing."""
    moved = test(lambda rows: -rows / unit / unit, ROWS * unit, random_state=0)
    expected = test(standard_normal, ROWS, random_state=0)
    # One draw among hundreds may change sides by rounding.
    assert abs(moved.p_value - expected.p_value) < 0.005
    np.testing.assert_allclose(moved.statistic * unit * unit, expected.statistic, rtol=1e-5)
    shifted = test(lambda rows: -(rows - 1000), ROWS + 1000, random_state=0)
    assert abs(shifted.p_value - expected.p_value) < 0.005


@every_test
def test_the_random_state_decides(test):
    first, again, other = (test(standard_normal, ROWS, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.null_draws, again.null_draws)
    assert (first.null_draws != other.null_draws).any()
    legacy = test(standard_normal, ROWS, random_state=np.random.RandomState(1))
    np.testing.assert_array_equal(first.null_draws, legacy.null_draws)


@every_test
def test_float64_whatever_the_users_setting(test):
    expected = test(standard_normal, ROWS, random_state=0)
    for enabled in (False, True):
        with jax.enable_x64(enabled):
            found = test(standard_normal, ROWS, random_state=0)
            assert jax.numpy.ones(1).dtype == ("float64" if enabled else "float32")
        np.testing.assert_array_equal(found.null_draws, expected.null_draws)
        assert found.statistic == expected.statistic


# ── what comes back ────────────────────────────────────────────────────────────────────────────


@every_test
def test_the_p_value_counts_the_statistic_among_the_draws(test):
    result = test(standard_normal, ROWS, random_state=0)
    exceeding = (result.null_draws >= result.statistic).sum()
    assert result.p_value == (1 + exceeding) / (1 + len(result.null_draws))
    far = test(standard_normal, ROWS + 5, random_state=0)
    assert far.p_value == 1 / (1 + len(far.null_draws))
    assert isinstance(result.p_value, float)
    assert isinstance(result.statistic, float)


def test_the_result_tells_locations_width_and_rows():
    result = fssd_test(standard_normal, ROWS, n_locations=3, random_state=0)
    assert (result.locations.shape, result.n_tested) == ((3, 2), 60)
    # The median distance of a plane's standard normal rows is 2√(log 2) = 1.67; 60 rows know it
    # to about a tenth.
    assert abs(result.width - 1.67) < 0.35
    split = fssd_test(standard_normal, ROWS, locations="optimized", train_fraction=0.25)
    assert (split.locations.shape, split.n_tested) == ((5, 2), 45)


@pytest.mark.parametrize(("n_rows", "n_train"), [(1000, 200), (20_000, 4000), (60_000, 8192)])
def test_locations_are_chosen_by_as_many_rows_as_the_docstring_says(generator, n_rows, n_train):
    rows = generator.standard_normal((n_rows, 1))
    result = fssd_test(standard_normal, rows, locations="optimized", n_steps=1, n_locations=1)
    assert result.n_tested == n_rows - n_train
    assert f"at most {MOST_TRAINING_ROWS} of them" in fssd_test.__doc__


def test_results_are_shown_in_a_line():
    result = stein_test(standard_normal, ROWS, random_state=0)
    assert repr(result) == (
        f"SteinResult(statistic={result.statistic:.6g}, p_value={result.p_value:.6g}, "
        f"width={result.width:.6g}, 1000 null draws)"
    )
    shown = repr(fssd_test(standard_normal, ROWS, n_locations=3, random_state=0))
    assert shown.startswith("FiniteSetResult(statistic=")
    assert shown.endswith("5000 null draws, 3 locations, n_tested=60)")
    assert "array" not in shown


def test_given_locations_and_widths_stay_as_they_are():
    result = fssd_test(standard_normal, ROWS, locations=[[0, 1], [1, 0]], width=0.7)
    np.testing.assert_array_equal(result.locations, [[0.0, 1.0], [1.0, 0.0]])
    assert result.width == 0.7
    optimized = fssd_test(standard_normal, ROWS, locations="optimized", width=0.7)
    assert optimized.width == pytest.approx(0.7, rel=1e-12)
    assert stein_test(standard_normal, ROWS, width=2).width == 2.0


def test_the_users_own_kernel():
    def gaussian_once_more(squares):
        value = jax.numpy.exp(-squares / 2)
        return Profile(value, -value / 2, value / 4)

    for test in (fssd_test, stein_test):
        own = test(standard_normal, ROWS, kernel=gaussian_once_more, random_state=0)
        same(own, test(standard_normal, ROWS, random_state=0))


def test_locations_far_from_all_rows_say_nothing():
    assert fssd_test(standard_normal, ROWS, locations=[[1e3, 1e3]], width=1.0).p_value == 1.0


@every_test
def test_repeated_and_constant_columns_are_no_obstacle(test):
    rows = np.column_stack([ROWS[:, 0], ROWS[:, 0], np.full(60, 2.0)])
    result = test(lambda x: -x, rows, random_state=0)
    assert np.isfinite(result.null_draws).all()


def test_the_median_of_many_rows_needs_few_of_them(generator):
    rows = generator.standard_normal((5000, 2))
    # Half a million pairs of 1000 rows: about two percent.
    assert fssd_test(standard_normal, rows).width == pytest.approx(2 * np.log(2) ** 0.5, rel=0.06)


# ── bad input ──────────────────────────────────────────────────────────────────────────────────


def with_value(value):
    rows = ROWS.copy()
    rows[7, 1] = value
    return rows


@every_test
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (with_value(np.nan), "NaN"),
        (with_value(np.inf), "infinity"),
        (ROWS[:, 0], "1D array"),
        (ROWS[:9], "at least 10 rows for 2 columns.*got 9"),
        (np.ones((20, 30)), "at least 31 rows for 30 columns.*got 20.*fewer columns"),
        (ROWS[:0], "minimum of"),
        (np.full((60, 2), 0.1), "median distance between two rows is zero"),
        (np.zeros((60, 2)), "median distance between two rows is zero"),
        (np.array([["a", "b"]] * 60), "convert string"),
    ],
)
def test_rows_that_cannot_be_tested(test, X, message):
    with pytest.raises(ValueError, match=message):
        test(standard_normal, X)


def broken_at_a_row(rows):
    return np.where(np.arange(len(rows))[:, None] == 4, np.nan, -rows)


@every_test
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda rows: -rows[:, 0], r"shape of the rows, \(60, 2\); got \(60,\)"),
        (lambda rows: -rows[:-1], r"got \(59, 2\)"),
        (broken_at_a_row, "at 1 of 60 it is not .first at row 4"),
        (lambda rows: rows * 1e200, r"up to \d(\.\d+)?e\+200 they overflow"),
        (3, "method gradient.*got int"),
    ],
)
def test_gradients_that_cannot_be_used(test, model, message):
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore", invalid="ignore"):
        test(model, ROWS)


@every_test
def test_a_model_that_is_not_fitted_says_so(test):
    with pytest.raises(NotFittedError):
        test(FittedNormal(), ROWS)


@every_test
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0.0}, "'median' or a positive number"),
        ({"width": -1}, "'median' or a positive number"),
        ({"width": np.inf}, "'median' or a positive number"),
        ({"width": "mean"}, "'median' or a positive number; got 'mean'"),
        ({"width": None}, "'median' or a positive number"),
        ({"kernel": "linear"}, "kernel must be 'rbf', 'inverse_multiquadric'"),
        ({"kernel": 3}, "or a function of squared distances .* got 3"),
    ],
)
def test_settings_that_make_no_sense(test, options, message):
    with pytest.raises(ValueError, match=message):
        test(standard_normal, ROWS, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"locations": "grid"}, "'gaussian', 'optimized', or an array.*got 'grid'"),
        ({"locations": None}, "'gaussian', 'optimized', or an array"),
        ({"locations": np.zeros((3, 4))}, r"\(n_locations, 2\).*got shape \(3, 4\)"),
        ({"locations": np.zeros(2)}, r"\(n_locations, 2\)"),
        ({"locations": np.zeros((0, 2))}, r"\(n_locations, 2\)"),
        ({"locations": [[0.0, np.nan]]}, "finite"),
        ({"n_locations": 0}, "n_locations must be a whole number"),
        ({"n_null_draws": 0}, "n_null_draws must be a whole number"),
        ({"n_steps": 0}, "n_steps must be a whole number"),
        ({"locations": "optimized", "train_fraction": 1.5}, "between 0 and 1; got 1.5"),
        ({"locations": "optimized", "train_fraction": 0.1}, "got 6 and 54 of 60 rows"),
        ({"locations": "optimized", "train_fraction": 0.9}, "got 54 and 6 of 60 rows"),
    ],
)
def test_finite_set_settings_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        fssd_test(standard_normal, ROWS, **options)


def test_bootstrap_without_draws():
    with pytest.raises(ValueError, match="n_null_draws must be a whole number"):
        stein_test(standard_normal, ROWS, n_null_draws=0)
