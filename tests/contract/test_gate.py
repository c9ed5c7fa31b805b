"""No model is worse than what it starts from, as far as rows that it has not seen can tell."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

import kexpfam
from kexpfam import (
    DegenerateTableError,
    KernelDiffusion,
    KernelExponentialFamily,
    TuningWarning,
)
from kexpfam.datasets import THIN_TABLES, make_thin_table
from kexpfam.model.flow_density import flow_density
from kexpfam.model.health import Comparison, Health, NormalizerEstimate, nothing_compared

GIVEN = {"n_components": 64, "length_scale": 0.4, "noise_scale": 0.05, "random_state": 0}


@pytest.fixture(scope="module")
def gaussian():
    return np.random.default_rng(0).standard_normal((300, 2))


@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
@pytest.mark.parametrize("basis", ["fourier", "nystrom"])
def test_a_family_that_is_worse_than_its_base_is_its_base(basis, gaussian):
    """A Gaussian needs no tilt, and with hardly a penalty any tilt is noise."""
    options = {**GIVEN, "basis": basis, "base": "gaussian", "penalty": 1e-8}
    with pytest.warns(TuningWarning, match="gate=False"):
        model = KernelExponentialFamily(**options).fit(gaussian)
    assert not model.has_tilt_
    assert not model.gain_ > model.gain_error_
    assert model.penalty_ == np.inf
    np.testing.assert_allclose(model.score_samples(gaussian), model.base_.log_density(gaussian))
    ungated = KernelExponentialFamily(**options, gate=False).fit(gaussian)
    assert ungated.has_tilt_
    fresh = np.random.default_rng(1).standard_normal((2000, 2))
    assert ungated.score(fresh) < model.score(fresh)


def test_what_was_gained_stands_in_the_model_and_its_file(tmp_path):
    rows = make_thin_table("powers", 1200, random_state=0)[:, [0, 2]]
    settings = {"base": "gaussian", "n_components": 128, "tuning": "folds"}
    model = KernelExponentialFamily(**settings, random_state=0).fit(rows)
    assert model.has_tilt_
    assert model.gain_ > 5 * model.gain_error_ > 0
    fresh = make_thin_table("powers", 4000, random_state=1)[:, [0, 2]]
    gained = model.score_samples(fresh) - model.base_.log_density(fresh)
    error = np.hypot(gained.std() / np.sqrt(len(fresh)), model.gain_error_)
    assert abs(model.gain_ - gained.mean()) < 4 * error
    model.save(tmp_path / "model.kexpfam")
    # As text: figures that a quadrature does not have are NaN, which equals nothing.
    assert repr(kexpfam.load(tmp_path / "model.kexpfam").health_) == repr(model.health_)


def thin_rows(name, n_rows):
    """Rows to fit to, and others."""
    rows = make_thin_table(name, n_rows + 400, random_state=3)
    return np.split(rows / rows.std(axis=0), [n_rows])


def gains(density, rows):
    """Nats over the base density at each row: their mean, and its standard error."""
    gained = density.log_density(rows) - density.untilted().log_density(rows)
    return gained.mean(), gained.std() / np.sqrt(len(gained))


@pytest.mark.parametrize(("name", "least"), [("sheet", -1.4), ("powers", 4.0)])
def test_a_tilt_that_pays_is_taken_and_is_right_between_the_levels(name, least):
    """Straight lines between levels gain 0.2 to 0.8 nats over mixtures that have −1.5 and 3.5."""
    rows, fresh = thin_rows(name, 800)
    fresh = fresh[:200]
    model = KernelDiffusion(n_components=128, marginals=None, random_state=0).fit(rows)
    gain, error = gains(model.density_, fresh)
    assert model.has_tilt_
    assert gain > 4 * error
    assert model.score(fresh) > least
    assert abs(gain - model.gain_) < 4 * np.hypot(model.gain_error_, error)

    # What broke it once: a curve through each coefficient by itself, here as many short lines.
    field = model.density_.field
    knots, coefficients = np.asarray(field.knots), np.asarray(field.coefficients)
    places = np.interp(np.arange(0, len(knots) - 0.75, 0.25), np.arange(len(knots)), knots)
    curves = PchipInterpolator(knots, coefficients)(places)
    bent = replace(field, knots=places, coefficients=curves)
    worse, error = gains(flow_density(model.density_.coordinates, bent, 1e-3), fresh)
    assert worse < -4 * error

    with jax.enable_x64(True):
        middle = np.asarray(field.coefficients_at((knots[1] + knots[2]) / 2))
    np.testing.assert_allclose(middle, (coefficients[1] + coefficients[2]) / 2, rtol=1e-12)
    assert coefficients[0].any()
    assert not coefficients[-1].any()


@pytest.mark.usefixtures("as_for_users")
def test_a_tilt_of_the_size_that_users_get_pays():
    """Everything by default, and nothing smaller for the tests' sake."""
    rows, fresh = thin_rows("powers", 500)
    model = KernelDiffusion(random_state=0).fit(rows[:, [0, 2]])
    gain, error = gains(model.density_, fresh[:60, [0, 2]])
    assert model.density_.field.coefficients.shape[1] == 1024
    assert gain > 4 * error
    assert abs(gain - model.gain_) < 4 * np.hypot(model.gain_error_, error)


@pytest.mark.usefixtures("users_mixtures")
@pytest.mark.filterwarnings("ignore::kexpfam.FlowWarning")
@pytest.mark.parametrize(
    ("name", "n_rows", "gate"),
    [
        *((name, 1500, False) for name in sorted(THIN_TABLES)),
        *((name, 300, True) for name in ("powers", "ratio", "sphere")),
    ],
)
def test_thin_tables_are_no_worse_than_their_base(name, n_rows, gate):
    """With many rows even ungated: the field between levels is right by construction."""
    rows, fresh = thin_rows(name, n_rows)
    options = {"n_components": 32, "n_levels": 3, "marginals": None, "random_state": 0}
    model = KernelDiffusion(gate=gate, **options).fit(rows)
    gain, error = gains(model.density_, fresh)
    assert gate or model.has_tilt_
    assert gain >= -2 * error


def test_new_rows_judge_before_they_are_taken_up():
    """Rows of another kind close the gate; the sums still hold them."""
    rows = make_thin_table("powers", 1200, random_state=0)[:, [0, 2]]
    options = {"n_components": 32, "n_levels": 3, "marginals": None, "random_state": 0}
    model = KernelDiffusion(**options).fit(rows[:600])
    before = model.health_.comparison
    assert model.has_tilt_
    model.partial_fit(rows[600:])
    after = model.health_.comparison
    assert after.n_rows > before.n_rows
    assert model.has_tilt_
    assert model.gain_error_ < before.gain_error
    # Rows from everywhere: what was thin is no longer there.
    model.partial_fit(np.random.default_rng(0).uniform(-1, 1, (1000, 2)))
    assert model.gain_ < after.gain


def test_few_rows_give_the_base_and_say_so():
    model = KernelDiffusion(random_state=0).fit(np.random.default_rng(0).normal(size=(30, 2)))
    assert not model.has_tilt_
    assert np.isnan(model.gain_)
    assert "too few rows" in model.health_.about_the_tilt


def test_many_columns_and_few_rows_are_called_doubtful():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((300, 60)) @ generator.standard_normal((60, 60))
    model = KernelDiffusion(random_state=0).fit(rows)
    assert not model.health_.good
    assert "less likely than a draw" in model.health_.in_words


def test_a_table_that_is_well_fitted_is_not():
    model = KernelDiffusion(random_state=0).fit(np.random.default_rng(0).normal(size=(1000, 3)))
    assert model.health_.complaints == []
    names = [finding.name for finding in model.health_.findings()]
    assert {"Optimism", "Held-out rows below draws"} <= set(names)


def test_one_judgment_of_the_normalizer():
    compared = nothing_compared()
    good = NormalizerEstimate(1.0, 0.01, 5000.0, 0.3)
    assert Health(True, compared, good).good
    for bad, words in [
        (good._replace(effective_sample_size=40.0), "only 40 of the draws"),
        (good._replace(pareto_shape=0.9), "tail of shape 0.90"),
        (good._replace(error=0.5), "its error is 0.5 nats"),
        (good._replace(error=np.nan), "its error is nan nats"),
    ]:
        assert words in Health(True, compared, bad).in_words
        # Without a tilt there is nothing to normalize.
        assert Health(False, compared, bad).good


def test_a_gain_must_be_more_than_its_error():
    known = Comparison(100, 0.1, 0.09, -3.0, 0.1, -2.9, 0.5, 0.5)
    assert known.wins
    assert not known._replace(gain_error=0.11).wins
    assert not nothing_compared().wins


def test_a_table_without_a_density_is_refused_by_name():
    generator = np.random.default_rng(0)
    net, tax = generator.gamma(3.0, size=(2, 200))
    rows = np.column_stack([net, tax, net + tax])
    with pytest.raises(DegenerateTableError, match="linear combination"):
        KernelExponentialFamily(random_state=0).fit(rows)
