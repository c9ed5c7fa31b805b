"""Kinds of columns: read from dtype and values, given by users, and back into frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam.data.mixed import read_mixed


def make_frame(n_rows=200):
    generator = np.random.default_rng(0)
    income = generator.lognormal(size=n_rows)
    income[generator.random(n_rows) < 0.4] = 0.0
    holes = generator.normal(size=n_rows)
    holes[::7] = np.nan
    return pd.DataFrame(
        {
            "height": generator.normal(170.25, 10.0, n_rows),
            "waiting": generator.exponential(size=n_rows),
            "share": generator.beta(0.8, 0.8, n_rows),
            "income": income,
            "children": generator.poisson(2.0, n_rows),
            "balance": generator.integers(-5, 6, n_rows),
            "dose": generator.choice([0.25, 0.5, 1.0], n_rows),
            "size": pd.Categorical(
                generator.choice(["small", "large"], n_rows), ["small", "large"], ordered=True
            ),
            "color": generator.choice(["red", "green", "blue"], n_rows),
            "member": generator.random(n_rows) < 0.3,
            "pressure": holes,
        }
    )


FOUND = {
    "height": "real",
    "waiting": "bounded; x ≥ 0",
    "share": "bounded; 0 ≤ x ≤ 1",
    "income": "bounded; x ≥ 0; atoms at 0",
    "children": "count",
    "balance": "whole",
    "dose": "grade; 3 levels: 0.25, 0.5, 1.0",
    "size": "grade; 2 levels: small, large",
    "color": "category; 3 levels: blue, green, red",
    "member": "boolean; 2 levels: False, True",
    "pressure": "real; missing values",
}


def read(X, given=None, weights=None):
    names = None if isinstance(X, np.ndarray) else list(X.columns)
    return read_mixed(X, names, np.ones(len(X)) if weights is None else weights, given)


def test_kinds_are_read_from_dtype_and_values():
    table, _ = read(make_frame())
    assert dict(zip(table.labels(), map(str, table.kinds), strict=True)) == FOUND


def test_numbers_that_occur_once_make_no_grades():
    """There may be others, which as a grade would have no probability."""
    doses = np.repeat([0.25, 0.5, 1.0], 30)
    (grade,), (real,) = (
        read(column[:, None])[0].kinds for column in (doses, np.append(doses, 0.75))
    )
    assert grade.kind == "grade"
    assert real.kind == "real"
    assert real.atoms == ()


def test_frames_come_back_as_they_were():
    frame = make_frame()
    table, codes = read(frame)
    pd.testing.assert_frame_equal(table.table(codes), frame)
    polars = pl.from_pandas(frame).with_columns(pl.col("size").cast(pl.Enum(["small", "large"])))
    table, other = read(polars)
    np.testing.assert_array_equal(other, codes)
    assert table.table(codes).equals(polars.with_columns(pl.col("pressure").fill_nan(None)))
    assert table.table(codes).schema == polars.schema


def test_arrays_of_objects_are_read_as_frames_are():
    frame = make_frame().drop(columns="size")
    _, codes = read(frame)
    table, other = read(frame.to_numpy(object))
    np.testing.assert_array_equal(other, codes)
    back = table.table(codes)
    assert back.dtype == object
    assert back[0, 7] in ("red", "green", "blue")


def test_kinds_can_be_given():
    given = {
        "height": ("bounded", 0, None),
        "waiting": "real",
        "income": "real",
        "children": "category",
        "balance": ("whole", 0),
        "color": ("grade", "red", "green", "blue"),
    }
    table, codes = read(make_frame(), given)
    kinds = dict(zip(table.labels(), table.kinds, strict=True))
    assert kinds["height"].bounds == (0.0, np.inf)
    assert kinds["income"].atoms == ()
    assert kinds["children"].is_category
    assert kinds["balance"].atoms == (0.0,)
    assert kinds["color"].levels == ("red", "green", "blue")
    assert set(codes[:, 8]) == {0.0, 1.0, 2.0}
    all_real, _ = read(make_frame()[["height", "share"]], "real")
    assert [kind.kind for kind in all_real.kinds] == ["real", "real"]


def test_rare_categories_are_pooled_and_drawn_from_the_pool():
    words = np.repeat(["a", "b", "c", "d", "e"], [40, 40, 3, 1, 2]).astype(object)[:, None]
    table, codes = read(words)
    (kind,) = table.kinds
    assert kind.levels == ("a", "b")
    assert kind.pooled == ("c", "d", "e")
    assert set(codes[:, 0]) == {0.0, 1.0, 2.0}
    drawn = table.table(np.full((600, 1), 2.0), np.random.default_rng(0))[:, 0]
    shares = [np.mean(drawn == level) for level in "cde"]
    np.testing.assert_allclose(shares, [1 / 2, 1 / 6, 1 / 3], atol=0.08)
    # A word that was never seen belongs to the pool, or to nothing where there is none.
    assert table.codes(np.array([["new"]], object))[0, 0] == 2.0
    lonely, _ = read(words[:83])
    assert lonely.kinds[0].pooled == ("c",)
    assert lonely.codes(np.array([["new"], ["c"]], object))[:, 0].tolist() == [2.0, 2.0]
    # Where all are rare, what occurs once is pooled, with what is new.
    rare = np.repeat([f"place {number}" for number in range(30)], 3).astype(object)[:88, None]
    table, codes = read(rare)
    assert table.kinds[0].pooled == ("place 29",)
    assert codes[-1, 0] == table.codes(np.array([["new"]], object))[0, 0] == 29.0
    closed, _ = read(words[:80])
    assert np.isinf(closed.codes(np.array([["new"]], object))[0, 0])


def test_weights_are_repetitions():
    words = np.array([["a"]] * 10 + [["b"]] * 4 + [["c"]] * 2 + [["d"]] * 2, object)
    weights = np.where(words[:, 0] == "b", 2.0, 1.0)
    repeated, _ = read(np.repeat(words, weights.astype(int), axis=0))
    assert read(words, weights=weights)[0].kinds == repeated.kinds


@pytest.mark.parametrize(
    ("column", "given", "message"),
    [
        (pd.date_range("2020", periods=50), None, "'x' holds dates.*days since the first"),
        (pd.to_timedelta(np.arange(50), "s"), None, "'x' holds durations"),
        ([f"word {i}" for i in range(50)], None, "'x' looks like free text.*50 different values"),
        ([np.nan] * 50, None, "'x' holds no values"),
        ([1.5, np.inf] * 25, None, "'x' must hold finite numbers"),
        ([1.5, 2.5, 3.5] * 20, {"x": "count"}, "there is 1.5. Use 'real'"),
        ([1.5, 2.5, 3.5] * 20, {"x": ("bounded", 2, None)}, "there is 1.5 outside"),
        ([1.5, 2.5, 3.5] * 20, {"x": ("bounded", 2, 1)}, "low < high"),
        ([1.5, 2.5, 3.5] * 20, {"x": "cuont"}, "Did you mean 'count'"),
        ([1.5, 2.5, 3.5] * 20, {"y": "real"}, "not a column of X"),
        (["a", "b", "c"] * 20, {"x": "real"}, "holds 'a'. Use 'category'"),
        (["a", "b", "c"] * 20, {"x": "boolean"}, "3 different values"),
        (["a", "b", "c"] * 20, 3, "mapping from columns to kinds"),
    ],
)
def test_what_is_refused_and_what_to_do(column, given, message):
    with pytest.raises(ValueError, match=message):
        read(pd.DataFrame({"x": column}), given)


def test_objects_that_are_no_category():
    with pytest.raises(TypeError, match=r"numbers or categories.*type list"):
        read(pd.DataFrame({"x": [[1], [2]] * 20}))
