"""scikit-learn's own battery, counted, and the manners it does not check."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer
from sklearn.utils.estimator_checks import check_estimator

from kexpfam import KernelExponentialFamily, Matern, NormalizerWarning, Tuning


def quick(**options):
    options = {"n_components": 32, "tuning": Tuning(n_steps=2), "random_state": 0, **options}
    return KernelExponentialFamily(**options)


# One of the checks fits 15 rows of 30 columns.
@pytest.mark.filterwarnings("ignore::kexpfam.exceptions.DegenerateTableWarning")
@pytest.mark.filterwarnings("ignore::kexpfam.exceptions.NormalizerWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_whole_battery():
    results = check_estimator(quick(tuning=Tuning(n_steps=0, n_folds=2)), on_fail=None)
    statuses = Counter(result["status"] for result in results)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, failed
    assert statuses["passed"] >= 47, statuses
    assert statuses["skipped"] <= 1, statuses


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((80, 3)) ** 3


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_keep_their_names_and_check_them(rows, frame):
    names = ["a", "b", "c"]
    table = frame(dict(zip(names, rows.T, strict=True)))
    model = quick().fit(table)
    assert list(model.feature_names_in_) == names
    np.testing.assert_array_equal(model.score_samples(table), quick().fit(rows).score_samples(rows))
    with pytest.raises(ValueError, match="feature names"):
        model.score_samples(frame(dict(zip("xyz", rows.T, strict=True))))


def test_clones_carry_objects_along():
    model = quick(kernel=Matern(3.5), tuning=Tuning(n_steps=1))
    assert clone(model).get_params()["kernel"] == Matern(3.5)


def test_pipelines_and_grid_search(rows):
    pipeline = make_pipeline(PowerTransformer(), quick(noise_scale=0.1, penalty=0.01, gate=False))
    search = GridSearchCV(
        pipeline, {"kernelexponentialfamily__length_scale": [1.0, 3.0]}, cv=2
    ).fit(rows)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.score_samples(rows).shape == (80,)


def test_score_is_the_weighted_mean_log_density(rows):
    model = quick().fit(rows)
    weights = np.arange(80.0)
    logs = model.score_samples(rows)
    assert model.score(rows) == pytest.approx(logs.mean())
    assert model.score(rows, sample_weight=weights) == pytest.approx(
        np.average(logs, weights=weights)
    )


@pytest.mark.parametrize(
    "method", ["score_samples", "gradient", "laplacian", "score_matching_loss"]
)
def test_asking_before_fitting(method, rows):
    with pytest.raises(NotFittedError):
        quick().sample(3)
    with pytest.raises(NotFittedError):
        getattr(quick(), method)(rows)


def test_an_unreliable_normalizer_warns_with_its_own_class():
    generator = np.random.default_rng(0)
    X = np.concatenate([generator.normal(-5, 0.1, (60, 1)), generator.normal(5, 0.1, (60, 1))])
    model = quick(base="gaussian", length_scale=0.05, noise_scale=0.0, penalty=1e-8)
    model.set_params(gate=False)
    with pytest.warns(NormalizerWarning, match="unreliable"):
        model.fit(X)
