"""Conditional densities of many rows: streams, sums, checkpoints."""

from __future__ import annotations

import copy
import time
import tracemalloc
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from kexpfam import ConditionalKernelExponentialFamily, SingularSystemError, load
from kexpfam.data.rows import ArrayRows
from kexpfam.estimators.reading import read_pairs
from kexpfam.moments import Checkpoint
from kexpfam.progress import Progress

MOST_ROWS, POINTS = 300, 60


def make_rows(n_rows, seed=0):
    """Two branches: no bell describes them."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n_rows, 2))
    side = np.where(generator.random(n_rows) < 0.5, 1.0, -1.0)
    return X, X[:, 0] + side + 0.3 * generator.standard_normal(n_rows)


@pytest.fixture(scope="module", autouse=True)
def few_rows_are_many():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("pipeline.conditional", "estimators.conditional_kernel_exponential_family"):
            patch.setattr(f"kexpfam.{name}.MOST_ROWS", MOST_ROWS)
        patch.setattr("kexpfam.pipeline.conditional.EXACT_ROWS", 100)
        patch.setattr("kexpfam.pipeline.conditional.POINTS", POINTS)
        yield


@pytest.fixture(scope="module")
def pairs():
    return make_rows(1000)


@pytest.fixture(scope="module")
def new():
    return make_rows(50, seed=9)


def summed(**options):
    settings = {"solution": "closed_form", "n_components": 10, "kernel": "rbf", "random_state": 0}
    return ConditionalKernelExponentialFamily(**{**settings, **options})


@pytest.fixture(scope="module")
def fitted(pairs):
    model = summed().fit(*pairs)
    assert model.has_tilt_
    assert model.weight_ == 1000
    return model


@pytest.fixture(scope="module")
def table(pairs):
    X, y = pairs
    return pa.table({"y": y, "a": X[:, 0], "b": X[:, 1], "w": np.ones(len(y))})


@pytest.mark.parametrize("kind", ["parquet", "table", "iterator", "Dask frame", "Dask arrays"])
def test_streams_give_the_model_of_the_arrays(kind, pairs, new, table, fitted, tmp_path):
    X, y = pairs
    plain = table.select(["y", "a", "b"])
    options = {}
    if kind == "parquet":
        pa.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
        arguments, options = (tmp_path / "rows.parquet", "y"), {"sample_weight": "w"}
    elif kind == "table":
        arguments = plain, "y"
    elif kind == "iterator":
        parts = [slice(start, start + 170) for start in range(0, 1000, 170)]
        arguments = (((X[part], y[part], np.ones(len(y[part]))) for part in parts),)
    elif kind == "Dask frame":
        arguments = dd.from_pandas(plain.to_pandas(), npartitions=3), "y"
    else:
        arguments = da.from_array(X, chunks=(400, 1)), da.from_array(y, chunks=300)
    model = summed().fit(*arguments, **options)
    assert model.n_features_in_ == 2
    assert model.weight_ == 1000
    if kind not in ("iterator", "Dask arrays"):
        assert list(model.feature_names_in_) == ["a", "b"]
    # Chunks are summed in another order on a cluster; the solve amplifies the rounding.
    rows = (
        pd.DataFrame(new[0], columns=["a", "b"]) if hasattr(model, "feature_names_in_") else new[0]
    )
    np.testing.assert_allclose(
        model.score_samples(rows, new[1]), fitted.score_samples(*new), atol=1e-5
    )


def test_the_likeliest_tilt_of_a_sample_has_the_location_of_all(pairs, new, table, tmp_path):
    X, y = pairs
    pa.parquet.write_table(table.select(["y", "a", "b"]), tmp_path / "rows.parquet")
    parts = [slice(start, start + 170) for start in range(0, 1000, 170)]
    given = [(X, y), (((X[part], y[part]) for part in parts),), (tmp_path / "rows.parquet", "y")]
    models = [summed(solution="likelihood").fit(*arguments) for arguments in given]
    logs = [model.density_.log_density(*new) for model in models]
    assert [model.weight_ for model in models] == [1000, 1000, 1000]
    for model, found in zip(models, logs, strict=True):
        assert len(model.density_.location.points) == POINTS
        np.testing.assert_allclose(found, logs[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["arrays", "parquet", "arrow"])
def test_rows_are_read_chunk_by_chunk(kind, tmp_path):
    """No second copy of arrays, and nothing of files that is not yet used."""
    X = np.random.default_rng(0).random((300_000, 4))
    tracemalloc.start()
    if kind == "arrays":
        arguments = X, X[:, 0]
    else:
        table = pa.table({name: X[:, place] for place, name in enumerate("abcy")})
        arguments = tmp_path / f"rows.{kind}", "y"
        if kind == "parquet":
            pa.parquet.write_table(table, arguments[0], row_group_size=30_000)
        else:
            pa.feather.write_feather(table, arguments[0], chunksize=30_000)
        del table
    before = pa.total_allocated_bytes()
    source = read_pairs(summed(), *arguments, None, Progress())
    most = 0
    rows, _ = source.local()
    for chunk in rows.chunks():
        assert chunk.rows.shape[1] == (5 if kind == "arrays" else 4)
        time.sleep(0.02)
        most = max(most, pa.total_allocated_bytes() - before)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * X.nbytes
    assert most < 0.3 * X.nbytes


def test_rows_are_added_merged_and_forgotten(pairs, new, fitted):
    X, y = pairs
    first, later = slice(0, 600), slice(600, None)
    model = summed().partial_fit(X[first], y[first])
    before = model.score_samples(*new)
    other = copy.deepcopy(model.emptied()).partial_fit(X[later], y[later])
    merged = copy.deepcopy(model).merge(other)
    model.partial_fit(X[later], y[later])
    assert model.weight_ == merged.weight_ == 1000
    after = model.score_samples(*new)
    assert np.abs(after - before).max() > 0.01
    np.testing.assert_allclose(merged.score_samples(*new), after, atol=1e-6)
    # All rows at once differ in what was chosen by the first 600 alone.
    assert after.mean() == pytest.approx(fitted.score(*new), abs=0.1)
    model.forget(X[later], y[later])
    np.testing.assert_allclose(model.score_samples(*new), before, atol=1e-5)


def test_a_weight_of_two_is_a_repetition(pairs, new, fitted):
    X, y = (one[:200] for one in pairs)
    twice = copy.deepcopy(fitted).partial_fit(X, y).partial_fit(X, y)
    once = copy.deepcopy(fitted).partial_fit(X, y, np.full(200, 2.0))
    np.testing.assert_allclose(twice.score_samples(*new), once.score_samples(*new), atol=1e-6)


@pytest.mark.parametrize("wrong", ["a target", "an input", "too many"])
def test_rows_that_were_never_there_are_refused(wrong, pairs, new, fitted):
    X, y = (one[:5].copy() for one in pairs)
    if wrong == "a target":
        y[0] = 1000.0
    elif wrong == "an input":
        X[0] = 300.0
    else:
        X, y = (np.repeat(one, 300, axis=0) for one in (X, y))
    model = copy.deepcopy(fitted)
    with pytest.raises((SingularSystemError, ValueError), match="`forget` takes rows that"):
        model.forget(X, y)
    np.testing.assert_array_equal(model.score_samples(*new), fitted.score_samples(*new))


def test_the_likeliest_tilt_takes_no_rows_and_says_why(pairs):
    model = ConditionalKernelExponentialFamily(n_components=5, kernel="rbf", random_state=0)
    assert not hasattr(model, "partial_fit")
    model.fit(*(one[:60] for one in pairs))
    with pytest.raises(ValueError, match="closed_form"):
        model.forget(*pairs)
    with pytest.raises(ValueError, match="closed_form"):
        model.merge(copy.deepcopy(model))


def test_a_file_keeps_the_sums_or_leaves_them_out(pairs, new, fitted, tmp_path):
    fitted.save(tmp_path / "whole.kexpfam")
    fitted.save(tmp_path / "small.kexpfam", sums=False)
    whole, small = load(tmp_path / "whole.kexpfam"), load(tmp_path / "small.kexpfam")
    X, y = (one[:100] for one in make_rows(100, seed=3))
    expected = copy.deepcopy(fitted).partial_fit(X, y).score_samples(*new)
    np.testing.assert_array_equal(whole.partial_fit(X, y).score_samples(*new), expected)
    np.testing.assert_array_equal(small.score_samples(*new), fitted.score_samples(*new))
    with pytest.raises(ValueError, match="without its sums"):
        small.forget(X, y)


@pytest.mark.parametrize("passes", [1, 2])
def test_a_fit_that_was_cut_off_goes_on(passes, pairs, new, fitted, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"

    def interrupted(checkpoint, *rest):
        save(checkpoint, *rest)
        if str(checkpoint.path).endswith(".tilt") == (passes == 2):
            raise KeyboardInterrupt

    save = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "due", lambda checkpoint: True)
    monkeypatch.setattr(Checkpoint, "save", interrupted)
    X, y = pairs
    short = partial(ArrayRows, chunk_rows=256)
    monkeypatch.setattr("kexpfam.estimators.reading.ArrayRows", short)
    with pytest.raises(KeyboardInterrupt):
        summed().fit(X, y, checkpoint=path)
    monkeypatch.setattr(Checkpoint, "save", save)
    model = summed().fit(X, y, checkpoint=path)
    assert not list(tmp_path.iterdir())
    np.testing.assert_allclose(model.score_samples(*new), fitted.score_samples(*new), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["rows.parquet"], None), "y must be the name of the column"),
        ((["rows.parquet"], "z"), "no column 'z' to be the target"),
        ((iter([np.ones((3, 2))]), None), "pair"),
        ((iter([(np.ones((3, 2)), np.ones(2))]), None), r"shapes \(3, 2\) and \(2,\)"),
        ((iter([]), np.ones(3)), "y must be None"),
        ((da.ones((9, 2)), np.ones(9)), "y must be a Dask array"),
        ((dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1), "y"), "no target column"),
    ],
)
def test_streams_that_cannot_be_used_are_named(arguments, message, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(table, "rows.parquet")
    with pytest.raises(ValueError, match=message):
        summed().fit(*arguments)
