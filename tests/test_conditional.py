"""`ConditionalKernelExponentialFamily` as users meet it."""

from __future__ import annotations

import dataclasses
from collections import Counter

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from kexpfam import (
    ConditionalKernelExponentialFamily,
    DegenerateTableError,
    DegenerateTableWarning,
    load,
)
from kexpfam.bridges import jax_log_density
from kexpfam.model.at_rows import location_at_rows

SCORE_SAMPLES_TAKES_Y = "the check calls score_samples(X), and a density of y needs y"


def quick(**options):
    return ConditionalKernelExponentialFamily(
        **{"n_components": 20, "kernel": "rbf", "random_state": 0, **options}
    )


def make_rows(n_rows=250, seed=0):
    """Skewed noise whose scale changes tenfold."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n_rows, 2))
    noise = generator.gamma(1.5, 1.0, n_rows) - 1.5
    return X, np.sin(2 * X[:, 0]) + 0.1 * 10 ** (X[:, 1] / 2) * noise


@pytest.fixture(scope="module")
def pairs():
    return make_rows()


@pytest.fixture(scope="module")
def model(pairs):
    return quick().fit(*pairs)


# Some of the checks fit integers.
@pytest.mark.filterwarnings("ignore::kexpfam.exceptions.DegenerateTableWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_whole_battery():
    expected = dict.fromkeys(
        ["check_methods_sample_order_invariance", "check_methods_subset_invariance"],
        SCORE_SAMPLES_TAKES_Y,
    )
    model = quick(solution="closed_form", n_components=3)
    results = check_estimator(model, on_fail=None, expected_failed_checks=expected)
    statuses = Counter(result["status"] for result in results)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, failed
    assert statuses["passed"] >= 55, statuses
    assert statuses["xfail"] == 2, statuses


def test_a_row_is_judged_alone_and_in_any_order(model, pairs):
    X, y = pairs
    for method in ("predict", "predict_std", "predict_interval"):
        together = getattr(model, method)(X[:20])
        alone = np.concatenate([getattr(model, method)(X[[row]]) for row in range(20)])
        np.testing.assert_allclose(together, alone, rtol=1e-9)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_allclose(
        model.score_samples(X, y)[order], model.score_samples(X[order], y[order]), rtol=1e-9
    )


def test_what_a_location_says_can_be_kept(model, pairs):
    X, y = pairs
    density = model.density_
    at = location_at_rows(density.location, density.functions, density.standardizer.forward(X))
    np.testing.assert_allclose(density.log_density(at, y), density.log_density(X, y), rtol=1e-9)
    part = slice(3, 9)
    np.testing.assert_allclose(density.cdf(at[part], y[part]), density.cdf(X[part], y[part]))


def test_the_tilt_pays_where_noise_is_skewed_and_uneven(model):
    assert model.has_tilt_
    assert model.gain_ > 3 * model.gain_error_ > 0
    assert "gains" in model.health_.in_words
    X, y = make_rows(1000, seed=1)
    gained = model.score(X, y) - np.mean(model.density_.untilted().log_density(X, y))
    assert gained > 0.05


@pytest.mark.parametrize("solution", ["likelihood", "closed_form"])
def test_both_solutions_gain(pairs, solution):
    assert quick(solution=solution).fit(*pairs).gain_ > 0.05


def test_the_scale_is_that_of_the_folds():
    """A noise that was chosen for the last fit alone made this scale seventy times too wide."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, (150, 2))
    y = np.sin(3 * X[:, 0]) + 0.02 * generator.standard_t(2, 150)
    closed, likeliest = (quick(solution=one).fit(X, y) for one in ("closed_form", "likelihood"))
    assert closed.density_.location.noise_ratio == 1.0
    assert np.median(closed.predict_std(X) / likeliest.predict_std(X)) < 2


def test_intervals_cover(model):
    X, y = make_rows(2000, seed=2)
    ends = model.predict_interval(X, coverage=0.8)
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    # 250 rows know the noise to some percent; 2000 rows see a share to 0.01.
    assert inside.mean() == pytest.approx(0.8, abs=0.06)
    shortest = model.predict_interval(X, coverage=0.8, kind="highest_density")
    lengths = np.nansum(shortest[..., 1] - shortest[..., 0], axis=1)
    # Where the tilt makes the bell much narrower there are few nodes for its ends.
    assert (lengths <= (ends[:, 1] - ends[:, 0]) * 1.03).all()
    drawn = model.sample(X, 1, random_state=0)[:, 0]
    held = (shortest[..., 0] <= drawn[:, None]) & (drawn[:, None] <= shortest[..., 1])
    assert held.any(axis=1).mean() == pytest.approx(0.8, abs=0.03)


def test_draws_follow_the_cdf(model, pairs):
    X = pairs[0][:1].repeat(4000, axis=0)
    drawn = model.sample(X, 1, random_state=0)[:, 0]
    ranks = np.sort(model.cdf(X, drawn))
    np.testing.assert_allclose(ranks, (np.arange(4000) + 0.5) / 4000, atol=0.03)
    assert drawn.mean() == pytest.approx(model.predict(X[:1])[0], abs=4 * drawn.std() / 63)
    assert drawn.std() == pytest.approx(model.predict_std(X[:1])[0], rel=0.1)


def test_the_mode_is_the_highest_point(model, pairs):
    X = pairs[0][:5]
    top = model.predict(X, statistic="mode")
    logs = model.score_samples(X, top)
    for move in (-0.02, 0.02):
        assert (model.score_samples(X, top + move * model.predict_std(X)) < logs).all()
    # A parabola through nodes a tenth of the base density's scale apart.
    np.testing.assert_allclose(model.gradient(X, top) * model.predict_std(X), 0.0, atol=0.1)


@pytest.mark.parametrize("bounds", [None, (-9.0, 12.0)])
def test_derivatives_against_differences(pairs, bounds):
    X, y = pairs[0][:40], pairs[1][:40]
    model = quick(bounds=bounds).fit(*pairs)
    step = 1e-4
    above, at, below = (model.score_samples(X, y + move) for move in (step, 0.0, -step))
    np.testing.assert_allclose(model.gradient(X, y), (above - below) / (2 * step), rtol=1e-3)
    np.testing.assert_allclose(
        model.laplacian(X, y), (above - 2 * at + below) / step**2, rtol=1e-2, atol=1e-3
    )


def test_bounds_hold_all_the_mass():
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 1, (200, 1))
    y = generator.exponential(0.3 + X[:, 0])
    model = quick(bounds=(0, None)).fit(X, y)
    assert (model.cdf(X, np.zeros(200)) == 0).all()
    assert (model.score_samples(X, np.full(200, -0.01)) == -np.inf).all()
    assert (model.sample(X, 5, random_state=0) >= 0).all()
    assert (model.predict_interval(X, 0.99) >= 0).all()
    new = generator.uniform(0, 1, (2000, 1))
    drawn = generator.exponential(0.3 + new[:, 0])
    truth = -drawn / (0.3 + new[:, 0]) - np.log(0.3 + new[:, 0])
    assert np.mean(truth - model.score_samples(new, drawn)) < 0.12


def test_far_outside_the_data_it_is_wide_and_finite(model, pairs):
    X = np.array([[30.0, -30.0], [1e6, 0.0], [-1e12, 1e12]])
    assert (model.predict_std(X) > 2 * np.median(model.predict_std(pairs[0]))).all()
    for numbers in (model.predict(X), model.score_samples(X, [0.0, 1e9, -1e3]), model.sample(X)):
        assert np.isfinite(numbers).all()


def test_weights_are_repetitions_and_order_does_not_matter(pairs):
    X, y = pairs[0][:80], pairs[1][:80]
    counts = np.random.default_rng(0).integers(0, 4, 80)
    weighted = quick().fit(X, y, sample_weight=counts)
    repeated = quick().fit(X.repeat(counts, axis=0)[::-1], y.repeat(counts)[::-1])
    np.testing.assert_array_equal(weighted.score_samples(X, y), repeated.score_samples(X, y))
    assert weighted.gain_ == repeated.gain_


def test_files_give_the_same_model_to_the_last_bit(model, pairs, tmp_path):
    path = tmp_path / "conditional.kexpfam"
    model.save(path)
    loaded = load(path)
    X, y = pairs
    np.testing.assert_array_equal(loaded.score_samples(X, y), model.score_samples(X, y))
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
    assert loaded.get_params() == model.get_params()
    assert loaded.health_ == model.health_


def test_arrays_lie_in_memory_as_they_do_after_loading(model):
    # Products of matrices round differently for rows that lie apart: on some processors only.
    def arrays(part):
        if isinstance(part, np.ndarray):
            yield part
        elif dataclasses.is_dataclass(part):
            yield from arrays(tuple(getattr(part, one.name) for one in dataclasses.fields(part)))
        elif isinstance(part, tuple):
            for one in part:
                yield from arrays(one)

    found = list(arrays(model.density_))
    assert len(found) > 10
    assert all(one.flags.c_contiguous for one in found)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_come_out_where_frames_went_in(model, pairs, frame):
    X, y = pairs
    table = frame({"a": X[:, 0], "b": X[:, 1]})
    fitted = quick().fit(table, y)
    assert list(fitted.feature_names_in_) == ["a", "b"]
    intervals = fitted.predict_interval(table)
    assert isinstance(intervals, frame)
    assert list(intervals.columns) == ["lower", "upper"]
    np.testing.assert_array_equal(intervals.to_numpy(), model.predict_interval(X))
    assert list(fitted.predict_quantiles(table, [0.1, 0.5]).columns) == ["0.1", "0.5"]


def test_pipelines_and_grid_search(pairs):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), quick(solution="closed_form")),
        {"conditionalkernelexponentialfamily__n_components": [3, 10]},
        cv=2,
    ).fit(pairs[0][:100], pairs[1][:100])
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def test_the_gate_returns_the_base_density_where_nothing_is_to_be_gained():
    generator = np.random.default_rng(3)
    X = generator.standard_normal((150, 1))
    y = X[:, 0] + generator.standard_normal(150)
    gated, open_ = quick().fit(X, y), quick(gate=False).fit(X, y)
    assert not gated.has_tilt_
    assert np.isinf(gated.penalty_)
    assert open_.has_tilt_
    assert gated.gain_ == open_.gain_


def test_few_rows_give_the_base_density():
    X, y = make_rows(20)
    model = quick().fit(X, y)
    assert not model.has_tilt_
    assert np.isnan(model.gain_)
    assert np.isfinite(model.score(X, y))


def test_more_rows_than_the_exact_location_takes(monkeypatch, pairs):
    X, y = make_rows(400)
    exact = quick().fit(X, y)
    monkeypatch.setattr("kexpfam.tuning.held_out.EXACT_ROWS", 200)
    monkeypatch.setattr("kexpfam.pipeline.conditional.EXACT_ROWS", 200)
    monkeypatch.setattr("kexpfam.tuning.held_out.POINTS", 150)
    monkeypatch.setattr("kexpfam.pipeline.conditional.POINTS", 150)
    monkeypatch.setattr("kexpfam.tuning.held_out._ONE_FOLD_ROWS", 300)
    fewer = quick().fit(X, y)
    assert len(fewer.density_.location.points) == 150
    new = make_rows(1000, seed=5)
    assert fewer.score(*new) == pytest.approx(exact.score(*new), abs=0.05)


@pytest.mark.parametrize("options", [{}, {"bounds": (-20.0, None), "kernel": "matern"}])
def test_the_jax_function_is_the_log_density(options, pairs):
    model = quick(gate=False, **options).fit(*pairs)
    X, y = make_rows(20, seed=7)
    function = jax_log_density(model)
    with jax.enable_x64(True):
        values = jax.jit(jax.vmap(function))(X, y)
        slopes = jax.jit(jax.vmap(jax.grad(function, argnums=1)))(X, y)
        center = model.density_.standardizer.center
        assert np.isfinite(jax.jit(jax.grad(function))(center, y[0])).all()
    np.testing.assert_allclose(values, model.score_samples(X, y), atol=1e-6)
    np.testing.assert_allclose(slopes, model.gradient(X, y), rtol=1e-6, atol=1e-6)


X, Y = make_rows(60)


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (X, np.where(np.arange(60) == 3, np.nan, Y), {}, "NaN"),
        (X, np.full(60, 2.0), {}, "y must vary; got 2 in all 60 rows"),
        (X[:4], Y[:4], {}, "at least 5 rows"),
        (np.ones((60, 2)), Y, {}, "X must vary"),
        (X, Y, {"bounds": (3, 1)}, r"low < high.*Did you mean \(1, 3\)"),
        (X, Y, {"bounds": (np.inf, -np.inf)}, "low < high"),
        (X, Y, {"bounds": 3}, "pair"),
        (X, np.rint(Y), {"lattice": 0.3}, "whole steps apart"),
        (X, Y, {"lattice": -1}, "positive number"),
        (X, Y, {"lattice": "atuo"}, "Did you mean 'auto'"),
        (X, Y, {"lattice": 1, "solution": "closed_form"}, "likelihood"),
        (X, Y, {"bounds": (0, None)}, "values outside"),
        (X, Y, {"kernel": "matren"}, "matern"),
        (X, Y, {"solution": "mle"}, "closed_form"),
        (X, Y, {"n_components": 0}, "n_components"),
        (X, None, {}, "requires y to be passed"),
    ],
)
def test_bad_input_says_what_to_do(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, y)


def test_bounds_are_found_where_rows_keep_to_them():
    rows, y = make_rows(300, seed=3)
    share = np.random.default_rng(0).uniform(size=300)
    wide = quick(bounds="auto").fit(rows, 20 + y)
    assert wide.bounds_ == (-np.inf, np.inf)
    found = quick(bounds="auto").fit(rows, share)
    assert found.bounds_ == (0.0, 1.0)
    assert found.predict_quantiles(rows, [1e-6, 1 - 1e-6]).min() >= 0.0


def test_errors_have_their_class():
    with pytest.raises(DegenerateTableError):
        quick().fit(X, np.zeros(60))


def test_warnings_of_lattices_and_constant_columns():
    with pytest.warns(DegenerateTableWarning, match="distinct values"):
        quick().fit(X, np.round(3 * Y))
    with pytest.warns(DegenerateTableWarning, match="constant"):
        quick().fit(np.column_stack([X, np.ones(60)]), Y)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("predict", {"statistic": "average"}, "statistic"),
        ("predict_interval", {"coverage": 90}, "Did you mean 0.9"),
        ("predict_interval", {"kind": "hdi"}, "highest_density"),
        ("predict_quantiles", {"levels": [0.5, 1.0]}, "between 0 and 1"),
        ("sample", {"n_samples": 0}, "n_samples"),
    ],
)
def test_bad_questions_are_answered(model, method, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(X, **options)


def test_asking_before_fitting():
    with pytest.raises(NotFittedError):
        quick().predict(X)
    with pytest.raises(NotFittedError):
        quick().score_samples(X, Y)
