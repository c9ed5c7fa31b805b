"""Bad input gives a clear error or a documented behavior, never a NaN model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam import (
    DegenerateTableError,
    GaussianBase,
    GaussianNoise,
    InteractionFeatures,
    KernelDiffusion,
    KernelExponentialFamily,
    MixtureBase,
    SingularSystemError,
    Tuning,
)

ROWS = np.random.default_rng(0).standard_normal((60, 2))


def quick(**options):
    options = {"n_components": 32, "tuning": Tuning(n_steps=2), "random_state": 0, **options}
    return KernelExponentialFamily(**options)


def with_value(value):
    rows = ROWS.copy()
    rows[7, 1] = value
    return rows


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (with_value(np.nan), "NaN"),
        (with_value(np.inf), "infinity"),
        (ROWS[:, 0], "1D array"),
        (ROWS[:1], "minimum of 2"),
        (ROWS[:0], "minimum of"),
        (np.column_stack([ROWS, np.full(60, 3.0)]), r"constant to machine precision \(column 2\)"),
        (np.full((60, 2), 1e12), "2 of 2 are constant"),
        (np.repeat(ROWS[:1], 60, axis=0), "constant"),
        (pd.DataFrame({"a": ["x"] * 60, "b": ROWS[:, 0]}), r"'a' \(it holds 'x'\)"),
    ],
)
def test_rows_that_cannot_be_fitted(X, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(X)


@pytest.mark.parametrize("estimator", [quick(), KernelDiffusion(random_state=0)])
def test_a_constant_column_is_called_by_its_name(estimator, tmp_path):
    frame = pd.DataFrame({"height": ROWS[:, 0], "planet": np.full(60, 3.0)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for X in (frame, pl.from_pandas(frame), tmp_path / "rows.csv"):
        with pytest.raises(DegenerateTableError, match=r"'planet'.*columns=\['planet'\]"):
            estimator.fit(X)
    for X in (frame.to_numpy(), iter([frame.to_numpy()])):
        with pytest.raises(DegenerateTableError, match=r"\(column 1\).*columns count from 0"):
            estimator.fit(X)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(60), "[Nn]egative"),
        (np.zeros(60), "zero"),
        (np.ones(59), "shape|length|dimension"),
        (np.full(60, np.nan), "NaN"),
    ],
)
def test_weights_that_make_no_sense(weights, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(ROWS, sample_weight=weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "whole number ≥ 1"),
        ({"n_components": -4}, "whole number ≥ 1"),
        ({"n_components": 2.5}, "whole number ≥ 1"),
        ({"length_scale": 0.0}, "positive number"),
        ({"length_scale": [1.0, 2.0, 3.0]}, "2 positive numbers"),
        ({"length_scale": "tuned"}, "Here it is called 'auto'"),
        ({"noise_scale": -0.1}, "noise_scale"),
        ({"noise_scale": "much"}, "noise_scale"),
        ({"penalty": -1.0}, "penalty"),
        ({"penalty": np.nan}, "penalty"),
        ({"criterion": "mse"}, "criterion must be 'score_matching' or 'likelihood'"),
        ({"basis": "wavelets"}, "basis must be 'fourier'"),
        (
            {"basis": InteractionFeatures(orders=(1, 2))},
            r"KernelDiffusion\(basis=InteractionFeatures\(orders=\(1, 2\).*basis='fourier'",
        ),
        ({"kernel": "linear"}, "'rbf', 'matern', 'rational_quadratic'"),
        ({"base": "cauchy"}, "'uniform', 'gaussian', 'mixture'"),
        ({"base": object()}, "lacks log_density, gradient, sample"),
        ({"noise": "pink"}, "noise must be 'auto'"),
        ({"noise": GaussianNoise(np.ones(5))}, "noise covariance must have shape"),
        ({"normalizer": "exact"}, "normalizer must be 'auto', 'importance', 'quadrature' or"),
        ({"tuning": "grid"}, "'adam', 'folds'"),
        ({"base": MixtureBase(n_components=61)}, "61 distinct rows.*there are 60"),
    ],
)
def test_settings_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(ROWS)


@pytest.mark.parametrize("settings", [{"n_folds": 1}, {"n_steps": -1}, {"learning_rate": 0.0}])
def test_tuning_that_makes_no_sense(settings):
    with pytest.raises(ValueError, match=r"n_folds|n_steps|learning_rate"):
        Tuning(**settings)


def test_no_penalty_on_a_singular_system():
    model = quick(n_components=256, penalty=0.0, noise_scale=0.0, length_scale=3.0)
    with pytest.raises(SingularSystemError, match="Use a larger penalty"):
        model.fit(ROWS)


def test_too_few_rows_to_hold_any_out():
    with pytest.raises(ValueError, match="too few"):
        quick(base=GaussianBase(), random_state=2).fit(np.array([[0.0], [1.0]]))


def test_two_rows_are_enough_when_nothing_is_tuned():
    model = quick(base="gaussian", penalty=0.1, noise_scale=0.1, length_scale=1.0, gate=False)
    assert np.isfinite(model.fit(np.array([[0.0], [1.0]])).score_samples([[0.5]])).all()


def test_the_wrong_width_at_prediction():
    model = quick().fit(ROWS)
    for method in (model.score_samples, model.gradient, model.laplacian, model.score):
        with pytest.raises(
            ValueError, match="3 features, but KernelExponentialFamily is expecting 2"
        ):
            method(np.ones((4, 3)))


@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e200])
def test_one_column_on_another_scale(scale):
    model = quick().fit(ROWS * [1.0, scale])
    reference = quick().fit(ROWS)
    np.testing.assert_allclose(
        model.score_samples(ROWS * [1.0, scale]),
        reference.score_samples(ROWS) - np.log(scale),
        atol=1e-4,
    )


def test_duplicated_rows_are_fine():
    model = quick().fit(np.repeat(ROWS[:30], 5, axis=0))
    assert np.isfinite(model.score_samples(ROWS)).all()
    assert np.isfinite(model.gradient(ROWS)).all()


def test_an_odd_number_of_components_is_rounded_up():
    assert quick(n_components=7).fit(ROWS).coefficients_.shape == (8,)


def test_columns_that_are_nearly_collinear_are_fine():
    rows = np.column_stack([ROWS[:, 0], 2 * ROWS[:, 0] + 1 + 1e-4 * ROWS[:, 1]])
    assert np.isfinite(quick().fit(rows).score_samples(rows)).all()
