"""The command line with tables as they are: words, truth values, counts and empty cells.

One model serves all tests. Commands run in this process, each with its own standard streams.
"""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import kexpfam
from kexpfam import KernelChain
from kexpfam.cli import main
from kexpfam.cli.tables import _rows_read
from kexpfam.data.frames import read_table

NAMES = ["kind", "length", "eggs", "tagged"]


def make_table(n_rows=160, seed=0):
    """Two kinds of fish; the other columns depend on the kind, and some cells are empty."""
    generator = np.random.default_rng(seed)
    kind = generator.choice(["perch", "pike"], n_rows)
    pike = kind == "pike"
    table = pd.DataFrame(
        {
            "name": [f"fish {number}" for number in range(n_rows)],
            "kind": kind,
            "length": np.where(pike, 60.0, 25.0) + 5.0 * generator.standard_normal(n_rows),
            "eggs": pd.array(generator.poisson(np.where(pike, 8.0, 2.0)), "Int64"),
            "tagged": pd.array(generator.random(n_rows) < 0.3, "boolean"),
        }
    )
    table.loc[::7, "length"] = np.nan
    table.loc[::11, "eggs"] = pd.NA
    table.loc[::13, "kind"] = None
    return table


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("tables")
    table.to_csv(folder / "fish.csv", index=False)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    pa.parquet.write_table(arrow, folder / "fish.parquet")
    pa.feather.write_feather(arrow, folder / "fish.arrow")
    table.assign(caught="2024-05-01").to_csv(folder / "dates.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    """Run one command in the folder: its exit code and what it said."""

    def run(*arguments, stdin=""):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(folder)
            patch.setattr(sys, "argv", ["kexpfam", *arguments])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            patch.setattr(signal, "signal", lambda *_: None)
            with pytest.raises(SystemExit) as end:
                main()
        return SimpleNamespace(code=end.value.code, out=out.getvalue(), err=err.getvalue())

    return run


@pytest.fixture(scope="module")
def fitted(run):
    """What the fit of the model said."""
    options = ["--exclude", "name", "--kind", "eggs=count", "-o", "fish.kexpfam", "--json"]
    done = run("fit", "fish.csv", *options)
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="module")
def model(fitted, folder):
    return kexpfam.load(folder / "fish.kexpfam")


def lines_of(text):
    names, *lines = csv.reader(io.StringIO(text))
    return names, lines


# -- fit, info ----------------------------------------------------------------------------------


def test_a_chain_is_fitted_by_default_as_the_library_does(model, table):
    expected = KernelChain(columns={"eggs": "count"}, random_state=0).fit(table[NAMES])
    rows = table[NAMES]
    np.testing.assert_allclose(model.score_samples(rows), expected.score_samples(rows), rtol=1e-9)


def test_kinds_are_shown_with_ranges_vocabularies_and_missing_shares(fitted, table):
    record = json.loads(fitted.out)
    assert record["kind"] == "KernelChain"
    columns = {one["name"]: one for one in record["column_summaries"]}
    assert {name: one["kind"] for name, one in columns.items()} == {
        **{"kind": "category", "length": "real"},
        **{"eggs": "count", "tagged": "boolean"},
    }
    low, high = table["length"].min(), table["length"].max()
    assert columns["length"]["values"] == f"{low:g} to {high:g}"
    assert columns["kind"]["values"] == "2 levels: perch, pike"
    for name in NAMES:
        assert columns[name]["missing"] == pytest.approx(table[name].isna().mean())
    shown = [line.split() for line in fitted.err.splitlines()]
    assert ["column", "kind", "missing", "values"] in shown
    assert ["length", "real", "14.4%", f"{low:g}", "to", f"{high:g}"] in shown


def test_info_shows_the_kinds(run, fitted):
    done = run("info", "fish.kexpfam")
    assert done.code == 0
    assert ["eggs", "count;", "missing", "values"] in [
        line.split() for line in done.out.split("\n")
    ]
    assert json.loads(run("info", "fish.kexpfam", "--json").out)["fitted"]["order"][0] == "kind"


@pytest.mark.parametrize(
    ("file", "options", "complaint"),
    [
        ("dates.csv", ["--exclude", "name"], "'caught' holds dates or times"),
        ("fish.csv", [], "'name' looks like free text or an identifier: 160 different values"),
        ("fish.csv", [], "--kind NAME=category"),
        ("fish.csv", [], "Leave such columns out: --exclude name on the command line"),
        ("dates.csv", [], "out: --exclude name,caught on the command line"),
    ],
)
def test_dates_and_free_text_are_refused_by_name(run, file, options, complaint):
    done = run("fit", file, "-o", "never.kexpfam", *options)
    assert done.code == 1
    assert complaint in done.err
    assert done.err.count("\n") == 1


def test_it_is_said_how_many_rows_were_described():
    assert _rows_read(9, 9) == []
    (sampled,) = _rows_read(200_000, 10**6)
    assert "fitted to 1000000 rows" in sampled
    assert "200000 of them" in sampled


def test_files_of_very_many_rows_are_fitted_as_a_whole(run, model, table, folder, monkeypatch):
    monkeypatch.setattr("kexpfam.cli.inputs.read_table", partial(read_table, most_rows=50))
    done = run("fit", "fish.csv", "--exclude", "name", "--kind", "eggs=count", "-o", "all.kexpfam")
    assert done.code == 0, done.err
    assert "50 of them, chosen at random" in " ".join((done.out + done.err).split())
    found = kexpfam.load(folder / "all.kexpfam")
    np.testing.assert_array_equal(
        found.score_samples(table[NAMES]), model.score_samples(table[NAMES])
    )


# -- score --------------------------------------------------------------------------------------


def test_scores_and_terms_are_the_models_in_every_format(run, model, table, folder):
    terms = model.contributions(table[NAMES]).to_numpy()
    expected = np.column_stack([model.score_samples(table[NAMES]), terms])
    np.testing.assert_allclose(terms.sum(axis=1), expected[:, 0], rtol=1e-9)
    for kind in ("csv", "parquet", "arrow"):
        done = run("score", "fish.kexpfam", f"fish.{kind}", "--contributions")
        names, lines = lines_of(done.out)
        assert names == ["row", "log_density", *(f"contribution_{name}" for name in NAMES)]
        np.testing.assert_allclose(np.array(lines, float)[:, 1:], expected, rtol=1e-9, atol=1e-12)


def test_gradients_are_those_of_columns_with_a_density(run, model, table):
    names, lines = lines_of(run("score", "fish.kexpfam", "fish.csv", "--gradient").out)
    assert names == ["row", "log_density", "gradient_length"]
    expected = np.asarray(model.gradient(table[NAMES]))[:, 1]
    np.testing.assert_allclose(np.array(lines, float)[:, 2], expected, rtol=1e-9)


def test_what_a_chain_does_not_have_is_said_with_what_it_has(run, fitted):
    for arguments, words in (
        (["score", "fish.kexpfam", "fish.csv", "--surprise"], "Use --contributions"),
        (["test", "fish.kexpfam", "fish.csv"], "kexpfam report fish.kexpfam --data DATA"),
        (["sample", "fish.kexpfam", "--method", "nuts"], "one column after the other"),
        (["predict", "fish.kexpfam", "fish.csv"], "--target COLUMN"),
        (["sample", "fish.kexpfam", "-o", "draws.npy"], "Write a .csv or .parquet file"),
    ):
        done = run(*arguments)
        assert done.code in (1, 2)
        assert words in done.err
        assert done.err.count("\n") == 1


def test_rows_are_read_as_the_model_has_them(run, model):
    """A single row tells nothing of its columns: a truth value may be 1, a number a word."""
    rows = "tagged,eggs,kind,length\n1,3,pike,\n0,3,trout,60\n1,-1,pike,60\n"
    done = run("score", "fish.kexpfam", "-", stdin=rows)
    _, lines = lines_of(done.out)
    logs = np.array(lines, float)[:, 1]
    row = pd.DataFrame({"kind": ["pike"], "length": [np.nan], "eggs": [3], "tagged": [True]})
    assert logs[0] == pytest.approx(model.score_samples(row)[0])
    assert list(logs[1:]) == [-np.inf, -np.inf]
    assert "The density is zero at 2 of them" in done.err
    done = run("score", "fish.kexpfam", "-", stdin="kind,length,eggs,tagged\npike,long,3,True\n")
    assert done.code == 1
    assert "standard input: row 1, column 'length' holds 'long', which is not a number" in done.err
    done = run("score", "fish.kexpfam", "-", stdin="kind,length,egs,tagged\npike,60,3,True\n")
    assert "has no column 'eggs'" in done.err


def test_standard_input_may_be_written_in_other_ways(run, fitted):
    rows = "kind;length;eggs;tagged\npike;60,5;3;true\nperch;25,1;2;false\n"
    records = [
        {"kind": "pike", "length": 60.5, "eggs": 3, "tagged": True},
        {"kind": "perch", "length": 25.1, "eggs": 2, "tagged": False},
    ]
    plain = run("score", "fish.kexpfam", "-", stdin=rows.replace(",", ".").replace(";", ","))
    assert plain.code == 0, plain.err
    for other in (rows, "\n".join(map(json.dumps, records))):
        assert run("score", "fish.kexpfam", "-", stdin=other).out == plain.out
    done = run("score", "fish.kexpfam", "-", "--sep", "tab", stdin=rows)
    assert "standard input has no column 'kind'" in done.err


# -- sample, impute -----------------------------------------------------------------------------


def test_draws_are_of_the_columns_kinds(run, folder, fitted):
    assert run("sample", "fish.kexpfam", "-n", "200", "-o", "draws.parquet").code == 0
    draws = pa.parquet.read_table(folder / "draws.parquet")
    assert draws.schema.names == NAMES
    assert pa.types.is_integer(draws["eggs"].type)
    assert pa.types.is_boolean(draws["tagged"].type)
    assert set(draws["kind"].to_pylist()) == {"perch", "pike"}
    assert min(draws["eggs"].to_pylist()) >= 0
    _, lines = lines_of(run("sample", "fish.kexpfam", "-n", "200").out)
    expected = [list(map(str, row.values())) for row in draws.to_pylist()]
    assert lines == expected


def test_only_empty_cells_are_filled_and_other_columns_stay(run, table, folder):
    done = run("impute", "fish.kexpfam", "fish.csv", "-o", "complete.csv", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["cells"] == table[NAMES].isna().to_numpy().sum()
    complete = pd.read_csv(folder / "complete.csv")
    assert list(complete.columns) == list(table.columns)
    assert not complete.isna().any(axis=None)
    for name in table.columns:
        there = table[name].notna()
        assert list(complete[name][there]) == list(table[name][there])
    assert pd.api.types.is_integer_dtype(complete["eggs"])


def test_several_imputations_differ_where_cells_were_empty(run, table, folder):
    options = ["--draws", "3", "-o", "several.parquet"]
    assert run("impute", "fish.kexpfam", "fish.parquet", *options).code == 0
    several = pd.read_parquet(folder / "several.parquet")
    assert Counter(several["draw"]) == dict.fromkeys([1, 2, 3], len(table))
    lengths = several.pivot(index="row", columns="draw", values="length")
    differ = lengths.nunique(axis=1).to_numpy() > 1
    np.testing.assert_array_equal(differ, table["length"].isna())


def test_given_columns_are_kept_and_the_others_follow_them(run, fitted):
    given = "kind\nperch\npike\n"
    done = run("impute", "fish.kexpfam", "-", stdin=given)
    assert (done.code, done.out) == (1, "")
    assert "has no column 'length', 'eggs', 'tagged'. To draw whole columns, use" in done.err
    done = run("sample", "fish.kexpfam", "--given", "-", "-n", "40", stdin=given)
    names, lines = lines_of(done.out)
    assert names == ["row", "draw", "kind", "length", "eggs", "tagged"]
    assert len(lines) == 80
    lengths = {kind: [float(line[3]) for line in lines if line[2] == kind] for kind in
               ("perch", "pike")}  # fmt: skip
    # 35 apart, with deviations of 5.
    assert np.mean(lengths["pike"]) - np.mean(lengths["perch"]) > 30
    assert run("sample", "fish.kexpfam", "--given", "-", stdin="size\n1\n").code == 1


# -- report -------------------------------------------------------------------------------------


def test_a_report_on_a_chain(run, folder, fitted):
    done = run("report", "fish.kexpfam", "-o", "fish.html", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["health"]["good"] in (True, False)
    page = (folder / "fish.html").read_text(encoding="utf-8")
    assert "What the columns are" in page
    assert "2 levels: perch, pike" in page


def test_a_report_on_a_file_names_it_and_the_command(run, folder):
    arguments = ["report", "fish.csv", "--exclude", "name", "-o", "rows.html", "--seed", "1"]
    done = run(*arguments)
    assert done.code == 0, done.err
    assert re.search(r"Report: rows\.html, in \d+ s", done.err)
    page = (folder / "rows.html").read_text(encoding="utf-8")
    assert "<h1>fish.csv: KernelChain report</h1>" in page
    assert f"kexpfam {' '.join(arguments)} --force" in page
    assert "Optimism" in page
    assert "given the other values" not in page.split("<h2", 1)[0]
    # An empty cell is counted, and shown as such.
    assert "Values that are missing, in per cent of the rows." in page
    assert ">missing</td>" in page


def test_a_table_of_reals_has_a_stein_test(run, folder):
    rows = np.random.default_rng(0).standard_normal((80, 1)) + 5
    np.save(folder / "numbers.npy", rows)
    assert run("fit", "numbers.npy", "-o", "numbers.kexpfam", "-q").code == 0
    done = run("test", "numbers.kexpfam", "numbers.npy", "--json")
    assert json.loads(done.out)["p_value"] > 0.05
    np.save(folder / "others.npy", rows + 3)
    done = run("test", "numbers.kexpfam", "others.npy", "--fail-below", "0.01")
    assert done.code == 3
