"""Frames in, frames out, and what estimators look like: one contract for all of them."""

from __future__ import annotations

import inspect
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone

import kexpfam
from kexpfam import (
    ConditionalKernelExponentialFamily,
    KernelAnomalyDetector,
    KernelChain,
    KernelDiffusion,
    KernelExponentialFamily,
    Tuning,
)
from kexpfam.bridges import FourierFeatureMap

NAMES = ["width", "height", "depth"]
ESTIMATORS = {
    "family": KernelExponentialFamily(
        n_components=32, tuning=Tuning(n_steps=0, n_folds=2), random_state=0
    ),
    "diffusion": KernelDiffusion(random_state=0),
    "chain": KernelChain(random_state=0),
    "conditional": ConditionalKernelExponentialFamily(random_state=0),
    "detector": KernelAnomalyDetector(false_alarms=0.1, random_state=0),
    "features": FourierFeatureMap(n_components=4, random_state=0),
}
# What gives a table for rows, and what gives draws.
OF_ROWS = [
    ("family", "gradient"),
    ("family", "surprise"),
    ("diffusion", "gradient"),
    ("diffusion", "smoothed_gradient"),
    ("diffusion", "impute"),
    ("chain", "gradient"),
    ("chain", "contributions"),
    ("chain", "impute"),
    ("conditional", "sample"),
    ("conditional", "predict_quantiles"),
    ("features", "transform"),
]
DRAWN = ["family", "diffusion", "chain"]


@pytest.fixture(scope="module")
def frame():
    rows = np.random.default_rng(0).standard_normal((90, 3)) @ np.array(
        [[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]]
    )
    return pd.DataFrame(rows, columns=NAMES, index=[f"row {place}" for place in range(90)])


@pytest.fixture(scope="module")
def fitted(frame):
    """One fit for each estimator, to the pandas frame."""
    target = frame["width"] + np.random.default_rng(1).standard_normal(90)
    found = {}
    for name, estimator in ESTIMATORS.items():
        given = (frame, target) if name == "conditional" else (frame,)
        found[name] = clone(estimator).fit(*given)
    return found


def called(model, method, X):
    seeds = {"random_state": 0} if method in ("impute", "sample") else {}
    return getattr(model, method)(X, **seeds)


def with_holes(X, method):
    return X.mask(np.eye(len(X), X.shape[1], dtype=bool)) if method == "impute" else X


@pytest.mark.parametrize(("name", "method"), OF_ROWS)
def test_a_frame_comes_back_with_names_and_index(fitted, frame, name, method):
    model, rows = clone_of(fitted[name]), with_holes(frame.iloc[:5], method)
    if name == "features":
        # A transformer is as scikit-learn has them: arrays, unless told.
        model.set_output(transform="pandas")
    found = called(model, method, rows)
    assert type(found) is pd.DataFrame
    assert list(found.index) == list(rows.index)
    if method not in ("predict_quantiles", "transform") and name != "conditional":
        assert list(found.columns) == NAMES
    model.set_output(transform="polars")
    other = called(model, method, rows)
    assert type(other) is pl.DataFrame
    assert list(other.columns) == list(found.columns)
    np.testing.assert_array_equal(other.to_numpy(), found.to_numpy())
    assert not np.isnan(found.to_numpy()).any() or method != "impute"
    # A frame of polars' for one of polars', and an array for an array.
    model.set_output(transform="default")
    if name != "features":
        assert type(called(model, method, pl.from_pandas(rows))) is pl.DataFrame
    with pytest.warns(UserWarning, match="valid feature names"):
        plain = called(model, method, rows.to_numpy())
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(plain, found.to_numpy())


def clone_of(model):
    """The same fit, with an output of its own."""
    copied = clone(model)
    vars(copied).update(vars(model))
    return copied


@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_the_table_that_was_fitted_to(fitted, frame, name, tmp_path):
    model = clone_of(fitted[name])
    draws = model.sample(4, random_state=0)
    assert type(draws) is pd.DataFrame
    assert list(draws.columns) == NAMES
    assert model.score_samples(draws).shape == (4,)
    model.save(tmp_path / "model.kexpfam")
    again = kexpfam.load(tmp_path / "model.kexpfam").sample(4, random_state=0)
    pd.testing.assert_frame_equal(again, draws)
    with config_context(transform_output="polars"):
        assert type(model.sample(4, random_state=0)) is pl.DataFrame
    # What is set for the estimator goes before what is set for all, and clones have it.
    model.set_output(transform="pandas")
    with config_context(transform_output="polars"):
        assert type(model.sample(4, random_state=0)) is pd.DataFrame
    assert clone(model)._sklearn_output_config == {"transform": "pandas"}
    with pytest.raises(ValueError, match="transform must be"):
        model.set_output(transform="arrow")


def test_columns_that_are_numbered_stay_so(frame):
    plain = pd.DataFrame(frame.to_numpy())
    model = KernelChain(random_state=0, gate=False).fit(plain[:40])
    assert list(model.sample(3, random_state=0).columns) == [0, 1, 2]
    assert list(model.gradient(plain[:3]).columns) == [0, 1, 2]
    assert list(model.impute(plain[5:8]).index) == [5, 6, 7]


def test_dtypes_are_translated_between_libraries():
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "kind": generator.choice(["a", "b"], 60),
            "level": pd.Categorical(generator.choice(["low", "high"], 60), ["low", "high"], True),
            "group": pd.Categorical(generator.choice(["x", "y"], 60)),
            "flag": generator.random(60) < 0.5,
            "size": generator.standard_normal(60).astype("float32"),
            "eggs": generator.poisson(30, 60).astype("uint8"),
        }
    )
    model = KernelChain(random_state=0).fit(table)
    own = model.sample(20, random_state=0)
    assert own.dtypes.astype(str).to_dict() == table.dtypes.astype(str).to_dict()
    translated = model.set_output(transform="polars").sample(20, random_state=0)
    expected = {
        "kind": pl.String,
        "level": pl.Enum(["low", "high"]),
        "group": pl.Categorical,
        "flag": pl.Boolean,
        "size": pl.Float32,
        "eggs": pl.UInt8,
    }
    assert dict(translated.schema) == expected
    back = KernelChain(random_state=0).fit(translated).set_output(transform="pandas")
    names = back.sample(5, random_state=0).dtypes.astype(str).to_dict()
    assert names["level"] == names["group"] == "category"
    assert (names["size"], names["flag"], names["kind"]) == ("Float32", "boolean", "object")


class Text(HTMLParser):
    """The text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.feed(html)

    def handle_data(self, text: str) -> None:
        self.parts.append(text)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_are_short_in_words_and_shown_in_notebooks(fitted, name):
    for model in (ESTIMATORS[name], fitted[name]):
        # Only what differs from the defaults.
        assert len(repr(model)) < 140
        assert "random_state=0" in repr(model)
        assert "verbose" not in repr(model)
        bundle = model._repr_mimebundle_()
        assert type(model).__name__ in "".join(Text(bundle["text/html"]).parts)


def test_results_are_short_in_words_and_shown_in_notebooks(fitted, frame):
    chain, rows = fitted["chain"], frame.iloc[:8]
    health = chain.health_
    assert repr(health).startswith(("<Health: sound. ", "<Health: doubtful. "))
    assert "Optimism" in Text(health._repr_html_()).parts
    for why in (chain.explain(rows), fitted["detector"].explain(rows)):
        lines = repr(why).splitlines()
        assert len(lines) == 7
        assert lines[1].strip() == why.in_words()[0]
        assert why.expected()[7] in Text(why._repr_html_()).parts
    conditional = chain.conditional(rows, "width", n_draws=8, random_state=0)
    assert repr(conditional) == (
        "<TableConditional of width given the other columns: 8 draws at each of 8 rows>"
    )
    assert repr(chain.column_kinds_["width"]) == "ColumnKind('real')"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_help_shows_types_that_can_be_read(name):
    kind = type(ESTIMATORS[name])
    for method in dir(kind):
        function = getattr(kind, method)
        if method.startswith(("_", "set_")) or not inspect.isfunction(function):
            continue
        if not function.__module__.startswith("kexpfam"):
            continue
        shown = str(inspect.signature(function))
        assert "Float[" not in shown, method
        assert "np." not in shown, method
        assert len(shown) < 330, method


def test_names_that_are_not_for_users_are_not_listed():
    listed = dir(kexpfam)
    assert set(kexpfam.__all__) <= set(listed)
    assert all(hasattr(kexpfam, name) for name in listed)
    assert not {"annotations", "sys", "Any", "arrays", "pipeline", "import_module"} & set(listed)
    assert not [name for name in listed if name.startswith("_") and name != "__version__"]


def test_types_are_shipped():
    assert (Path(kexpfam.__file__).parent / "py.typed").exists()
