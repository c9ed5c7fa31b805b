"""Fitted models in the hands of JAX, blackjax, NumPyro, ArviZ and scikit-learn."""

from __future__ import annotations

import copy
import re
import sys
from collections import Counter
from dataclasses import replace

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import ndtri_exp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from kexpfam import (
    FourierFeatures,
    KernelDiffusion,
    KernelExponentialFamily,
    Matern,
    RationalQuadratic,
    Tuning,
)
from kexpfam.arrays import normal_quantile
from kexpfam.bridges import FourierFeatureMap, as_arviz, as_numpyro, jax_log_density
from kexpfam.bridges import numpyro_distribution as numpyro_bridge
from kexpfam.datasets import make_density
from kexpfam.sampling.chains import diagnose

numpyro = pytest.importorskip("numpyro")

NAMES = ["temperature", "pressure"]


def quick(**options):
    options = {"n_components": 32, "tuning": Tuning(n_steps=3), "random_state": 0, **options}
    return KernelExponentialFamily(**options)


def given(**options):
    """Nothing to tune: a fit is one pass and one solve."""
    return quick(penalty=1e-2, noise_scale=0.1, length_scale=0.7, gate=False, **options)


@pytest.fixture(scope="module")
def rows():
    """A bent table in units of its own."""
    return make_density("banana").sample(300, random_state=0) * [2.0, 10.0] + [30.0, -5.0]


@pytest.fixture(scope="module")
def model(rows):
    return given().fit(pd.DataFrame(rows, columns=NAMES))


@pytest.fixture(scope="module")
def diffusion(rows):
    """With coefficients that no fit could choose to be zero: any of them make a density."""
    options = {"n_components": 32, "n_levels": 3, "marginals": "gaussianize"}
    model = KernelDiffusion(random_state=0, **options).fit(rows)
    return with_tilt(model, 0.05, n_steps=17)


def with_tilt(model, size, n_steps):
    density = model.density_
    coefficients = np.full_like(density.field.coefficients, size)
    field = replace(density.field, coefficients=coefficients)
    made = copy.copy(model)
    density = replace(density, field=field, steps=np.full(len(coefficients) - 1, n_steps))
    made.fitted_ = made.fitted_._replace(density=density)
    return made


class UsersDensity:
    """A wide Gaussian, written by a user in NumPy."""

    def log_density(self, X):
        return -((X - [30.0, -5.0]) ** 2).sum(axis=1) / 1800 - np.log(2 * np.pi * 900)

    def gradient(self, X):
        return -(X - [30.0, -5.0]) / 900

    def sample(self, n, generator):
        return [30.0, -5.0] + 30 * generator.standard_normal((n, 2))


# -- a JAX function -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "enabled"),
    [
        ({}, True),
        ({}, False),
        ({"base": "uniform"}, True),
        ({"base": UsersDensity()}, False),
        ({"basis": "nystrom", "standardize": False, "length_scale": 7.0}, True),
        ({"basis": "grid"}, True),
        ({"basis": "arc_cosine"}, True),
    ],
    ids=lambda value: f"{value!s:.20}",
)
def test_the_function_is_the_models_log_density(rows, options, enabled):
    model = given().set_params(**options).fit(rows)
    # Drawn in a little: at the very edge of a uniform base rounding decides what is inside.
    probes = 0.99 * rows[:40] + 0.01 * rows.mean(axis=0)
    logs, gradients = model.score_samples(probes), model.gradient(probes)
    with jax.enable_x64(enabled):
        function = jax.jit(jax.vmap(jax.value_and_grad(jax_log_density(model))))
        values, slopes = function(probes)
        assert values.dtype == slopes.dtype == ("float64" if enabled else "float32")
        # The smallest scale of the columns is 2: a rounding of 1e-7 of 30 is 1e-6 deviations.
        tolerance = 1e-9 if enabled else 2e-4
        np.testing.assert_allclose(values, logs, rtol=0, atol=tolerance)
        np.testing.assert_allclose(slopes, gradients, rtol=0, atol=tolerance)


def test_the_second_derivatives_are_the_laplacian(model, rows):
    with jax.enable_x64(True):
        hessians = jax.jit(jax.vmap(jax.hessian(jax_log_density(model))))(rows[:10])
        found = np.trace(hessians, axis1=1, axis2=2)
    np.testing.assert_allclose(found, model.density_.laplacian(rows[:10]))


def test_the_users_float32_stays_out_of_the_models_float64(rows):
    """Compiled code that has captured the function is alive while the model is used."""
    model = given().fit(rows)
    function = jax_log_density(model)
    before = model.score_samples(rows), model.sample(20, random_state=0, n_steps=600)
    single = jax.jit(function)
    assert single(rows[0]).dtype == "float32"
    with jax.enable_x64(True):
        double = jax.jit(lambda row: function(row))
        assert double(rows[0]).dtype == "float64"
    after = model.score_samples(rows), model.sample(20, random_state=0, n_steps=600)
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])


def test_one_compilation_serves_fits_of_the_same_shape(rows):
    traces = []

    @jax.jit
    def evaluate(function, row):
        traces.append(1)
        return function(row)

    for shift in (0.0, 1.0):
        model = given(base="gaussian").fit(rows + shift)
        found = evaluate(jax_log_density(model), rows[0])
        np.testing.assert_allclose(found, model.score_samples(rows[:1])[0], rtol=1e-4)
    assert len(traces) == 1


def test_the_function_refuses_what_is_not_one_row(model, rows):
    with pytest.raises(ValueError, match=re.escape("jax.vmap(function)(rows)")):
        jax_log_density(model)(rows[:3])
    with pytest.raises(NotFittedError):
        jax_log_density(quick())
    with pytest.raises(TypeError, match="ConditionalKernelExponentialFamily; got GaussianMixture"):
        jax_log_density(GaussianMixture().fit(rows))


def test_the_flow_as_a_function(diffusion, rows):
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    probes = np.vstack([rows[:20], center + 5 * spread, center - 5 * spread])
    logs, _ = diffusion.score_samples(probes, return_error=True)
    step = np.array([0.0, 1e-4])
    ahead, _ = diffusion.score_samples(rows[:20] + step, return_error=True)
    behind, _ = diffusion.score_samples(rows[:20] - step, return_error=True)
    with jax.enable_x64(True):
        function = jax.jit(jax.vmap(jax.value_and_grad(jax_log_density(diffusion))))
        values, slopes = map(np.asarray, function(probes))
    np.testing.assert_allclose(values, logs, rtol=1e-9)
    np.testing.assert_allclose(slopes[:20, 1], (ahead - behind) / 2e-4, rtol=1e-5, atol=1e-7)
    assert np.isfinite(slopes).all()


def test_the_flow_of_a_base_density_alone(diffusion, rows):
    model = with_tilt(diffusion, 0.0, n_steps=0)
    with jax.enable_x64(True):
        values = jax.jit(jax.vmap(jax_log_density(model)))(rows)
        np.testing.assert_allclose(values, model.score_samples(rows))


def test_normal_quantiles_far_out():
    logs = np.concatenate([np.log([0.5, 0.4, 0.1, 1e-5]), [-1e2, -1e3, -1e5]])
    with jax.enable_x64(True):
        found, slopes = jax.jit(jax.vmap(jax.value_and_grad(normal_quantile)))(logs)
        np.testing.assert_allclose(found, ndtri_exp(logs), rtol=1e-9, atol=1e-12)
        step = 1e-6 * np.abs(logs)
        numeric = (ndtri_exp(logs + step) - ndtri_exp(logs - step)) / 2 / step
        np.testing.assert_allclose(slopes, numeric, rtol=1e-4)


def test_blackjax_samples_the_model(model, rows):
    log_density = jax_log_density(model)
    spread = rows.std(axis=0)
    kernel = blackjax.nuts(log_density, step_size=0.5, inverse_mass_matrix=jnp.asarray(spread**2))

    @jax.jit
    def chain(key, start):
        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, kernel.init(start), jax.random.split(key, 350))[1]

    draws = jax.vmap(chain)(jax.random.split(jax.random.key(0), 16), jnp.asarray(rows[:16]))
    draws = np.asarray(draws)[:, 50:]
    own = model.sample_chains(4000, random_state=0)
    # Four standard errors of means, by the numbers of independent draws that both are worth.
    errors = np.sqrt(1 / diagnose(draws)[1] + 1 / own.effective_sample_size)
    assert (errors < 0.06).all()
    draws, own = draws.reshape(-1, 2), own.draws.reshape(-1, 2)
    assert (np.abs(draws.mean(axis=0) - own.mean(axis=0)) < 4 * errors * spread).all()
    # For these tails a standard deviation is known no better than a mean.
    np.testing.assert_array_less(np.abs(np.log(draws.std(axis=0) / own.std(axis=0))), 4 * errors)


# -- NumPyro ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prior(model):
    return as_numpyro(model, n_draws=500, random_state=0)


def test_a_numpyro_distribution_has_the_models_log_density_and_draws(prior, model, rows):
    assert (prior.event_shape, prior.batch_shape) == ((2,), ())
    blocks = rows[:6].reshape(2, 3, 2)
    logs = model.score_samples(pd.DataFrame(rows[:6], columns=NAMES)).reshape(2, 3)
    np.testing.assert_allclose(jax.jit(prior.log_prob)(blocks), logs, rtol=1e-4)
    draws = jax.jit(lambda key: prior.sample(key, (4, 5)))(jax.random.key(0))
    assert draws.shape == (4, 5, 2)
    many = np.asarray(prior.sample(jax.random.key(1), (2000,)))
    expected = np.asarray(model.sample(500, random_state=0))
    nearest = np.abs(many[:, None] - expected).max(axis=2).argmin(axis=1)
    np.testing.assert_allclose(many, expected[nearest], rtol=1e-5, atol=1e-5)
    # Each is picked four times on average: one in fifty never.
    assert len(np.unique(nearest)) > 475
    errors = expected.std(axis=0) / np.sqrt(len(many))
    assert (np.abs(many.mean(axis=0) - expected.mean(axis=0)) < 4 * errors).all()
    assert bool(prior.support(jnp.asarray(rows[0])))


def test_a_model_is_a_prior_in_numpyro(prior, model, rows):
    """A measurement of one column moves the other, as importance weights on the model say."""
    measured, error = -15.0, 3.0

    def program():
        row = numpyro.sample("row", prior)
        numpyro.sample("measured", numpyro.distributions.Normal(row[1], error), obs=measured)

    chains = numpyro.infer.MCMC(
        numpyro.infer.NUTS(program, init_strategy=numpyro.infer.init_to_sample),
        num_warmup=150, num_samples=2000, progress_bar=False,
    )  # fmt: skip
    chains.run(jax.random.key(0))
    found = np.asarray(chains.get_samples()["row"])
    draws = np.asarray(model.sample(8000, random_state=1))
    weights = np.exp(-((draws[:, 1] - measured) ** 2) / 2 / error**2)
    mean = np.average(draws, axis=0, weights=weights)
    spread = np.sqrt(np.average((draws - mean) ** 2, axis=0, weights=weights))
    # Four standard errors, by the numbers of independent draws that both are worth.
    independent = numpyro.diagnostics.effective_sample_size(found[None])
    errors = np.sqrt(1 / independent + (weights**2).sum() / weights.sum() ** 2)
    assert (errors < 0.06).all()
    assert (np.abs(found.mean(axis=0) - mean) < 4 * errors * spread).all()
    assert abs(mean[1] - draws[:, 1].mean()) > spread[1]


def test_a_uniform_base_has_the_support_of_its_box(rows):
    box = as_numpyro(given(base="uniform").fit(rows), n_draws=50, random_state=0)
    outside = jnp.asarray(rows.max(axis=0) + 100)
    assert bool(box.support(jnp.asarray(rows[0])))
    assert not bool(box.support(outside))


def test_the_flow_in_numpyro(diffusion, rows):
    flow = as_numpyro(diffusion, n_draws=50, random_state=0)
    logs, _ = diffusion.score_samples(rows[:20], return_error=True)
    # In float32.
    np.testing.assert_allclose(jax.jit(flow.log_prob)(rows[:20]), logs, atol=1e-3)
    assert flow.sample(jax.random.key(0)).shape == (2,)


def test_numpyro_is_asked_for_by_name(model, monkeypatch):
    numpyro_bridge._distribution_class.cache_clear()
    monkeypatch.setitem(sys.modules, "numpyro.distributions", None)
    with pytest.raises(ImportError, match=re.escape("kexpfam[numpyro]")):
        as_numpyro(model)
    with pytest.raises(ValueError, match="n_draws must be a whole number"):
        as_numpyro(model, n_draws=0)


# -- ArviZ --------------------------------------------------------------------------------


def test_arviz_gets_named_columns_and_log_densities(model):
    pytest.importorskip("arviz_base")
    tree = as_arviz(model, 128, random_state=0, n_chains=8)
    draws, logs = tree["posterior"]["x"], tree["sample_stats"]["lp"]
    assert draws.sizes["chain"] == logs.sizes["chain"] == 8
    assert draws.coords["column"].to_numpy().tolist() == NAMES
    flat = pd.DataFrame(draws.to_numpy().reshape(-1, 2), columns=NAMES)
    np.testing.assert_allclose(logs.to_numpy().ravel(), model.score_samples(flat))


def test_arviz_is_for_chains(diffusion):
    with pytest.raises(TypeError, match="independent need no chains"):
        as_arviz(diffusion)


# -- Fourier features ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_feature_map_passes_the_whole_battery():
    results = check_estimator(FourierFeatureMap(n_components=16), on_fail=None)
    statuses = Counter(result["status"] for result in results)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, failed
    assert statuses["passed"] >= 46, statuses


@pytest.mark.parametrize(
    ("kernel", "exact"),
    [
        ("rbf", lambda s: np.exp(-s / 2)),
        (Matern(2.5), lambda s: (1 + np.sqrt(5 * s) + 5 * s / 3) * np.exp(-np.sqrt(5 * s))),
        (RationalQuadratic(2.0), lambda s: (1 + s / 4) ** -2.0),
    ],
)
def test_products_of_features_are_the_kernel(kernel, exact, rows):
    length_scale = rows.std(axis=0)
    features = FourierFeatureMap(
        n_components=4096, kernel=kernel, length_scale=length_scale, random_state=0
    ).fit_transform(rows[:50])
    differences = (rows[:50, None] - rows[:50]) / length_scale
    # Averages of 2048 cosines, of variance ½ at most: five deviations.
    expected = exact((differences**2).sum(axis=2))
    assert np.abs(features @ features.T - expected).max() < 5 * np.sqrt(0.5 / 2048)


@pytest.mark.parametrize("phases", ["paired", "random"])
def test_a_models_features_make_up_its_f(rows, phases):
    frame = pd.DataFrame(rows, columns=NAMES)
    model = given(basis=FourierFeatures(phases=phases)).fit(frame)
    features = FourierFeatureMap.from_model(model)
    tilt = model.density_.tilt(model.density_.standardizer.forward(rows))
    np.testing.assert_allclose(features.transform(frame) @ model.coefficients_, tilt, atol=1e-10)
    assert list(features.feature_names_in_) == NAMES
    again = clone(features).fit(frame)
    assert again.frequencies_.shape[1] == 2
    assert again.transform(frame).shape == features.transform(frame).shape
    with pytest.raises(ValueError, match="feature names"):
        features.transform(frame[NAMES[::-1]])


def test_features_of_other_models_are_refused(diffusion, rows):
    with pytest.raises(TypeError, match="got KernelDiffusion"):
        FourierFeatureMap.from_model(diffusion)
    with pytest.raises(TypeError, match="got NystromBasis"):
        FourierFeatureMap.from_model(given(basis="nystrom").fit(rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_scale": [1.0, 2.0, 3.0]}, "or 2 of them, one per column"),
        ({"length_scale": -1.0}, "must be a positive number"),
        ({"length_scale": "tuned"}, "must be a positive number"),
        ({"n_components": 0}, "whole number ≥ 1"),
        ({"kernel": "linear"}, "kernel must be 'rbf'"),
    ],
)
def test_the_feature_map_says_what_it_expects(rows, options, message):
    with pytest.raises(ValueError, match=message):
        FourierFeatureMap(**options).fit(rows)


def test_a_ridge_on_features_learns_a_wave():
    x = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    pipeline = make_pipeline(FourierFeatureMap(n_components=64, random_state=0), Ridge(1e-3))
    pipeline.fit(x, np.sin(2 * x[:, 0]))
    assert pipeline.score(x, np.sin(2 * x[:, 0])) > 0.999
    names = pipeline[0].get_feature_names_out()
    assert (names[0], len(names)) == ("fourierfeaturemap0", 64)
    frame = pipeline[0].set_output(transform="polars").transform(x)
    assert frame.columns == list(names)


# -- scikit-learn -------------------------------------------------------------------------


def test_a_scaler_before_the_model_changes_units_alone(rows):
    """The model standardizes inside: scaled rows give the same density up to the volume."""
    alone = given().fit(rows)
    pipeline = make_pipeline(StandardScaler(), given()).fit(rows)
    expected = alone.score_samples(rows) + np.log(rows.std(axis=0)).sum()
    np.testing.assert_allclose(pipeline.score_samples(rows), expected, atol=1e-6)
    assert pipeline.score(rows) == pytest.approx(expected.mean())


def test_grid_search_prefers_enough_components():
    """Two functions cannot bend a Gaussian into a wave."""
    X = make_density("cosine").sample(400, random_state=0)
    search = GridSearchCV(given(base="gaussian"), {"n_components": [2, 128]}, cv=2).fit(X)
    assert search.best_params_ == {"n_components": 128}
    small, large = search.cv_results_["mean_test_score"]
    assert large > small + 0.05
    assert search.score(X) == pytest.approx(search.best_estimator_.score_samples(X).mean())


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_in_another_order_are_refused(model, diffusion, rows, frame):
    table = frame(dict(zip(NAMES, rows.T, strict=True)))
    turned = table[NAMES[::-1]] if frame is pd.DataFrame else table.select(NAMES[::-1])
    np.testing.assert_array_equal(model.score_samples(table), model.density_.log_density(rows))
    for method in (model.score_samples, model.gradient, model.laplacian, model.partial_fit):
        with pytest.raises(ValueError, match="feature names should match"):
            method(turned)
    named = clone(diffusion).fit(table)
    assert list(named.feature_names_in_) == NAMES
    for method in (named.score_samples, named.gradient, named.impute):
        with pytest.raises(ValueError, match="feature names should match"):
            method(turned)
