"""`KernelChain` from files, datasets, iterators and Dask: the model of the same rows in memory."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

from kexpfam import KernelChain


def make_frame(n_rows=300):
    generator = np.random.default_rng(0)
    kind = generator.choice(["fir", "oak", "yew"], n_rows)
    height = generator.normal(size=n_rows) + 2 * (kind == "oak")
    frame = pd.DataFrame(
        {
            "kind": kind,
            "height": height,
            "girth": height**2 + generator.normal(size=n_rows),
            # Mostly five or ten of them.
            "nests": generator.choice([1, 5, 5], n_rows) * generator.poisson(2.0, n_rows),
            "count": generator.integers(0, 3, n_rows).astype(float),
        }
    )
    frame.loc[::17, "kind"] = None
    frame.loc[::11, "girth"] = np.nan
    return frame


@pytest.fixture(scope="module")
def frame():
    return make_frame()


@pytest.fixture(scope="module")
def table(frame):
    return frame.drop(columns="count")


@pytest.fixture(scope="module")
def model(frame, table):
    return KernelChain(random_state=0).fit(table, sample_weight=frame["count"])


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    frame[:100].to_parquet(folder / "one.parquet")
    frame[100:].to_parquet(folder / "two.parquet")
    frame.to_csv(folder / "all.csv", index=False)
    return folder


@pytest.mark.parametrize("kind", ["files", "text", "dataset", "iterator", "Dask"])
def test_streams_give_the_model_of_the_frame_to_the_last_bit(kind, frame, table, model, folder):
    parts = [str(folder / "one.parquet"), folder / "two.parquet"]
    blocks = ((table[k : k + 77], frame["count"][k : k + 77]) for k in range(0, 300, 77))
    X = {
        "files": parts,
        "text": folder / "all.csv",
        "dataset": pa.dataset.dataset([str(part) for part in parts]),
        "iterator": blocks,
        "Dask": dd.from_pandas(frame, npartitions=3),
    }[kind]
    weights = None if kind == "iterator" else "count"
    found = KernelChain(random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(found.score_samples(table), model.score_samples(table))
    assert list(found.feature_names_in_) == list(table.columns)
    assert model.column_kinds_["nests"].heaps is not None
    assert list(map(str, found.column_kinds_.values())) == list(
        map(str, model.column_kinds_.values())
    )
    assert isinstance(found.sample(2, random_state=0), pd.DataFrame)


def test_arrays_come_from_iterators_files_and_clusters(tmp_path):
    rows = np.random.default_rng(1).normal(size=(120, 2))
    rows[::9, 1] = np.nan
    whole = KernelChain(random_state=0).fit(rows).score_samples(rows)
    np.save(tmp_path / "rows.npy", rows)
    for X in (tmp_path / "rows.npy", iter([rows[:50], rows[50:]]), da.from_array(rows, (50, 2))):
        found = KernelChain(random_state=0).fit(X)
        np.testing.assert_array_equal(found.score_samples(rows), whole)


def test_words_late_in_a_file_make_a_column_of_words(tmp_path):
    rows = pd.DataFrame({"size": [str(k % 7) for k in range(98)] + ["big"] * 2, "x": range(100)})
    rows["x"] = np.sin(rows["x"])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    found = KernelChain(random_state=0).fit(tmp_path / "rows.csv").column_kinds_["size"]
    assert found.kind == "category"
    assert set(found.levels) == set("0123456")
    assert found.pooled == ("big",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(height=np.where(f.index == 7, np.inf, f.height)), "row 8, column 'hei"),
        (lambda f: f.assign(girth=pd.Timestamp("2020-01-01")), "one.parquet: 'girth' holds dates"),
        (lambda f: f.assign(count=-1.0), "one.parquet: row 1 has the weight -1.0"),
        (lambda f: f.drop(columns="count"), "has no column 'count'"),
        (lambda f: f.assign(kind=[f"tree {k}" for k in f.index]), "'kind' looks like free text"),
    ],
)
def test_bad_files_are_named(change, message, frame, tmp_path):
    change(frame[:100]).to_parquet(tmp_path / "one.parquet")
    with pytest.raises(ValueError, match=message):
        KernelChain(random_state=0).fit(tmp_path / "one.parquet", sample_weight="count")


def test_blocks_that_do_not_fit_are_named(table):
    other = table.rename(columns={"girth": "width"})
    with pytest.raises(ValueError, match=r"Block 1 has the columns kind, height, width"):
        KernelChain().fit(iter([table, other]))
    with pytest.raises(ValueError, match=r"Block 1 has the shape \(300, 3\)"):
        KernelChain().fit(iter([table, table.iloc[:, :3]]))
    with pytest.raises(ValueError, match="With an iterator, sample_weight must be None"):
        KernelChain().fit(iter([table]), sample_weight=np.ones(300))
    with pytest.raises(ValueError, match="gave no rows"):
        KernelChain().fit(iter([]))
