"""The estimator: manners, bad input, and what must not change its result."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from kexpfam import KernelDiffusion
from kexpfam.features.interactions import InteractionFeatures
from tests.conftest import clusters

SMALL = {
    "n_components": 32,
    "n_levels": 3,
    "basis": InteractionFeatures(),
    "marginals": None,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def two_clusters():
    return clusters(np.random.default_rng(7))


@pytest.fixture(scope="module")
def fitted(two_clusters):
    return KernelDiffusion(**SMALL).fit(two_clusters)


# One of the checks fits 15 rows of 30 columns.
@pytest.mark.filterwarnings("ignore::kexpfam.exceptions.DegenerateTableWarning")
def test_scikit_learns_checks():
    # The gate fits everything twice, and has tests of its own.
    model = KernelDiffusion(**SMALL, gate=False)
    records = check_estimator(model, on_fail=None, on_skip=None)
    failed = [record["check_name"] for record in records if record["status"] == "failed"]
    passed = [record for record in records if record["status"] == "passed"]
    assert not failed
    assert len(passed) >= 47


def test_rows_can_be_added_where_there_is_a_tilt(two_clusters):
    alone = KernelDiffusion(random_state=0).fit(two_clusters)
    assert alone.n_steps_ == 0
    assert not hasattr(alone, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        alone.partial_fit(two_clusters)
    assert "start with partial_fit or give n_components a number" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="This model is its base density"):
        alone.forget(two_clusters)
    fed = KernelDiffusion(random_state=0).partial_fit(two_clusters[:200])
    fed.partial_fit(two_clusters[200:])
    assert fed.fitted_.sums.weight == pytest.approx(300)


def test_frames_weights_and_order(fitted, two_clusters, generator):
    names = ["a", "b"]
    for frame in (
        pd.DataFrame(two_clusters, columns=names),
        pl.DataFrame(two_clusters, schema=names),
    ):
        model = clone(fitted).fit(frame)
        assert list(model.feature_names_in_) == names
        np.testing.assert_allclose(
            model.score_samples(frame), fitted.score_samples(two_clusters), atol=1e-8
        )
    order = generator.permutation(300)
    shuffled = clone(fitted).fit(two_clusters[order])
    counts = generator.integers(1, 3, 300)
    repeated = clone(fitted).fit(np.repeat(two_clusters, counts, axis=0))
    weighted = clone(fitted).fit(two_clusters, sample_weight=counts)
    rows = two_clusters[:20]
    # Sums in another order: rounding, through a ridge of at least 1e-8.
    np.testing.assert_allclose(shuffled.score_samples(rows), fitted.score_samples(rows), atol=1e-5)
    np.testing.assert_allclose(
        weighted.score_samples(rows), repeated.score_samples(rows), atol=1e-5
    )


def test_seeds_are_respected(fitted):
    for method in ("flow", "sde"):
        first, same, other = (
            fitted.sample(5, random_state=seed, method=method) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, same)
        assert not np.allclose(first, other)


def test_the_users_jax_setting_is_left_alone(fitted, two_clusters):
    assert not jax.config.jax_enable_x64
    assert fitted.score_samples(two_clusters[:3]).dtype == np.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"marginals": "log"}, "'gaussianize', 'yeo_johnson' or None"),
        ({"noise_range": (1.0, 0.1)}, "0 < low < high"),
        ({"n_components": 0}, "n_components must be 'auto' or a whole number ≥ 1"),
        ({"n_levels": 1.5}, "n_levels"),
        ({"tolerance": 0.0}, "tolerance must be a positive number"),
        ({"basis": "dense"}, "basis must be 'auto'"),
        ({"noise_range": "wide"}, "noise_range must be 'auto' or two numbers"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message, two_clusters):
    with pytest.raises(ValueError, match=message):
        KernelDiffusion(**{**SMALL, **options}).fit(two_clusters)


def test_data_that_cannot_be_fitted_is_refused(fitted, two_clusters):
    with pytest.raises(ValueError, match="at least 4 distinct rows"):
        KernelDiffusion(**SMALL).fit(two_clusters[:3])
    with pytest.raises(ValueError, match="constant"):
        KernelDiffusion(**SMALL).fit(np.column_stack([two_clusters, np.ones(300)]))
    with pytest.raises(ValueError, match="NaN"):
        KernelDiffusion(**SMALL).fit(np.where(two_clusters > 1, np.nan, two_clusters))
    with pytest.raises(NotFittedError):
        KernelDiffusion().sample(3)
    with pytest.raises(ValueError, match="no less than"):
        fitted.smoothed_gradient(two_clusters, noise_scale=1e-4)
    with pytest.raises(ValueError, match="'flow' or 'sde'"):
        fitted.sample(3, method="mala")
    with pytest.raises(ValueError, match="n_samples must be a whole number ≥ 1"):
        fitted.sample(0)
