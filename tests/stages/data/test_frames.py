"""Tables in files as data frames: types, samples and blocks."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from kexpfam.data.frames import read_blocks, read_table
from kexpfam.data.kinds import ColumnKind

ROWS = """whole,share,word,flag,day,code
1,0.5,a,true,2024-01-02,01
,1e-3,,False,2024-01-03,7
3,NA,"b, c",,2024-01-04,x
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def test_columns_are_what_all_of_their_cells_are(file):
    frame, weights, n_rows, doubts, _ = read_table([file], most_rows=10)
    assert (weights, n_rows, doubts) == (None, 3, ())
    assert frame["whole"].dtype == "Int64"
    assert frame["flag"].dtype == "boolean"
    assert frame["share"].dtype == float
    assert pd.api.types.is_datetime64_dtype(frame["day"])
    assert frame["word"].isna().tolist() == [False, True, False]
    assert frame["word"][2] == "b, c"
    assert frame["code"].tolist() == ["01", "7", "x"]
    assert frame["share"].isna().tolist() == [False, False, True]


def test_weights_are_taken_out_of_the_chosen_columns(file):
    frame, weights, *_ = read_table([file], ["word", "flag"], "share", most_rows=10)
    assert list(frame.columns) == ["word", "flag"]
    np.testing.assert_array_equal(weights, [0.5, 1e-3, np.nan])
    with pytest.raises(ValueError, match="weights in column 'word' must be numbers"):
        read_table([file], ["share"], "word", most_rows=10)


def test_a_few_words_among_numbers_are_doubtful(tmp_path):
    cells = ["1", "-2.5", "3e4", "", " 5", "six", ".7", "8", "9", "10", "11"]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b", *(f"{cell},x1" for cell in cells)]))
    (doubt,) = read_table([tmp_path / "rows.csv"], most_rows=20).doubts
    assert "'a' is treated as words, because 1 of 10 cells are not numbers, such as 'six'" in doubt


def test_parquet_says_what_its_columns_are(tmp_path):
    days = [datetime.date(2024, 1, 2), None]
    table = pa.table(
        {
            **{"whole": pa.array([1, None], pa.int16()), "day": days},
            "level": pa.array(["a", "b"]).dictionary_encode(),
            "price": pa.array([1, None], pa.decimal128(5, 2)),
        }
    )
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    frame = read_table([tmp_path / "rows.parquet"], most_rows=10).frame
    assert frame["whole"].dtype == "Int64"
    assert frame["level"].dtype == "category"
    assert frame["price"].dtype == float
    assert frame["day"][0] == days[0]


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_sample_is_bounded_in_order_and_even(tmp_path, kind):
    """Of 40 000 rows in two files, 5000: every tenth of the rows has its share."""
    numbers = np.arange(40_000.0)
    files = [tmp_path / f"part{part}.{kind}" for part in range(2)]
    for file, part in zip(files, np.split(numbers, 2), strict=True):
        if kind == "npy":
            np.save(file, part[:, None])
        else:
            np.savetxt(file, part, header="a", comments="", fmt="%d")
    frame, _, n_rows, *_ = read_table(files, most_rows=5000, seed=1)
    found = np.asarray(frame, float).ravel()
    assert n_rows == 40_000
    assert len(found) == 5000
    assert (np.diff(found) > 0).all()
    counts = np.histogram(found, 10, (0, 40_000))[0]
    # Deviations of a count are 20 (hypergeometric): five of them.
    assert np.abs(counts - 500).max() < 100
    again = np.asarray(read_table(files, most_rows=5000, seed=1).frame, float).ravel()
    np.testing.assert_array_equal(found, again)


def test_blocks_are_typed_as_a_model_has_them(file):
    kinds = {
        "code": ColumnKind("category", levels=("01", "7", "x")),
        "whole": ColumnKind("count"),
        "flag": ColumnKind("boolean", levels=(False, True)),
    }
    (block,) = read_blocks([file], kinds)
    assert list(block.columns) == ["code", "whole", "flag"]
    assert block["code"].tolist() == ["01", "7", "x"]
    assert block["whole"].dtype == float
    assert block["flag"].tolist()[:2] == [True, False]
    (block,) = read_blocks([file], kinds | {"new": ColumnKind("real")}, others=True, partly=True)
    assert list(block.columns) == ["whole", "share", "word", "flag", "day", "code", "new"]
    assert block["new"].isna().all()
    with pytest.raises(ValueError, match=r"no column 'cod'.*Did you mean 'code'"):
        list(read_blocks([file], {"cod": kinds["code"]}))
    with pytest.raises(ValueError, match="row 3, column 'code' holds 'x', which is not a number"):
        list(read_blocks([file], {"code": ColumnKind("real")}))
    with pytest.raises(ValueError, match="column 'word' holds 'a', which is not a truth value"):
        list(read_blocks([file], {"word": kinds["flag"]}))
