"""`kexpfam compare`, and synthetic rows with conditions and privacy figures, in a real process."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest


def orders(n_rows, seed):
    generator = np.random.default_rng(seed)
    low = generator.gamma(2.0, 2.0, n_rows)
    return pd.DataFrame(
        {
            "low": low,
            "high": low + generator.gamma(2.0, 1.0, n_rows),
            "visits": pd.array(generator.poisson(3, n_rows), "Int64"),
            "city": pd.Categorical(generator.choice(["north", "south"], n_rows)),
            "member": pd.array(generator.random(n_rows) < 0.4, "boolean"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    first = orders(120, 0)
    first.loc[::10, "visits"] = pd.NA
    first.loc[::9, "high"] = np.nan
    first.loc[::8, "member"] = pd.NA
    first.to_parquet(folder / "first.parquet")
    first.to_csv(folder / "first.csv", index=False)
    orders(120, 1).to_csv(folder / "fresh.csv", index=False)
    second = orders(100, 2)[["member", "city", "visits", "high", "low"]]
    second["visits"] += 2
    second.to_csv(folder / "second.csv", index=False, sep=";", decimal=",")
    second.drop(columns="low").assign(note="a").to_csv(folder / "other.csv", index=False)
    np.save(folder / "plain.npy", np.random.default_rng(0).standard_normal((60, 2)))
    return folder


@pytest.fixture(scope="module")
def model(run):
    bounds = ["--kind", "low=bounded,0,", "--kind", "high=bounded,0,"]
    done = run("fit", "first.parquet", "-o", "model.kexpfam", "--quiet", *bounds)
    assert done.code == 0, done.err
    return "model.kexpfam"


QUICK = ["--no-divergence", "--permutations", "99"]


# -- compare ------------------------------------------------------------------------------------


def test_what_moved_is_said_and_the_exit_code_follows_on_request(run):
    done = run("compare", "first.parquet", "second.csv", *QUICK)
    assert done.code == 0, done.err
    assert "The tables differ (p-value at most 0.01)." in done.out
    assert "visits" in done.out
    assert run("compare", "first.csv", "second.csv", *QUICK, "--fail-below", "0.05").code == 3
    options = ["--exclude", "visits,high,member", "--fail-below", "0.01"]
    assert run("compare", "first.csv", "second.csv", *QUICK, *options).code == 0


def test_the_record_is_one_object_and_the_picture_is_drawn(run, folder):
    options = ["--json", "--picture", "drift.png"]
    done = run("compare", "first.csv", "second.csv", *QUICK, *options)
    record = json.loads(done.out)
    assert record["p_value"] == 0.01
    assert record["divergence"] is None
    assert "visits" in record["moved_columns"]
    assert record["labels"] == ["first.csv", "second.csv"]
    assert (folder / "drift.png").read_bytes().startswith(b"\x89PNG")
    again = run("compare", "first.csv", "second.csv", *QUICK, *options)
    assert again.code == 1
    assert "drift.png exists" in again.err


def test_divergences_are_part_of_the_answer(run):
    options = ["--columns", "visits", "--permutations", "19"]
    done = run("compare", "first.csv", "second.csv", *options)
    assert done.code == 0, done.err
    assert "Divergence of first.csv from second.csv: " in done.out


def test_arrays_without_names_are_compared(run):
    done = run("compare", "plain.npy", "plain.npy", *QUICK)
    assert done.code == 0, done.err
    assert "No sign that the tables differ (p-value 1)" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["first.csv", "other.csv"], 1, "--exclude low,note"),
        (["first.csv", "second.csv", "--columns", "lwo"], 1, "Did you mean 'low'?"),
        (["first.csv", "nowhere.csv"], 1, "nowhere.csv"),
        (["-", "-"], 1, "Only one of the tables"),
        (["first.csv", "plain.npy"], 1, "Give two of one kind"),
        (["first.csv"], 2, "Missing argument"),
        (["first.csv", "second.csv", "--picture", "drift.doc"], 2, ".png, .svg, .pdf"),
        (["first.csv", "second.csv", "--kind", "high=count"], 1, "--kind high=… is 'count'"),
    ],
)
def test_what_cannot_be_compared_is_said(run, arguments, code, said):
    done = run("compare", *arguments)
    assert done.code == code
    assert said in done.err


def test_bad_tables_are_refused_before_anything_large_is_imported(folder, environment):
    code = "import sys\nfrom kexpfam.cli import main\nmain()"
    watched = code.replace("main()", "try:\n    main()\nfinally:\n    print('jax' in sys.modules)")
    done = subprocess.run(
        [sys.executable, "-c", watched, "compare", "first.csv", "other.csv"],
        **{"cwd": folder, "env": environment, "text": True, "capture_output": True},
    )
    assert done.returncode == 1
    assert done.stdout == "False\n"


# -- synthetic rows -----------------------------------------------------------------------------


def test_dtypes_and_vocabulary_survive_in_parquet(run, folder, model):
    for command in (["sample", model, "-n", "60"], ["impute", model, "first.parquet"]):
        done = run(*command, "-o", "out.parquet", "--force")
        assert done.code == 0, done.err
        table = pd.read_parquet(folder / "out.parquet")
        assert not table.isna().any(axis=None)
        assert isinstance(table["city"].dtype, pd.CategoricalDtype)
        assert list(table["city"].cat.categories) == ["north", "south"]
        assert pd.api.types.is_integer_dtype(table["visits"])
        assert pd.api.types.is_bool_dtype(table["member"])
        assert (table[["low", "high", "visits"]] >= 0).all(axis=None)


def test_values_that_are_set_and_conditions_are_kept(run, folder, model):
    options = ["--set", "city=south", "--require", "high >= 6", "--require", "low < high"]
    done = run("sample", model, "-n", "40", "-o", "some.csv", "--json", *options)
    assert done.code == 0, done.err
    table = pd.read_csv(folder / "some.csv")
    assert len(table) == 40
    assert set(table["city"]) == {"south"}
    assert (table["high"] >= 6).all()
    assert (table["low"] < table["high"]).all()
    assert json.loads(done.out)["tried"] > 40


def test_cells_are_drawn_again_until_conditions_hold(run, folder, model):
    options = ["--require", "high > low", "-o", "filled.csv", "--json", "--draws", "2"]
    done = run("impute", model, "first.parquet", *options)
    assert done.code == 0, done.err
    table = pd.read_csv(folder / "filled.csv")
    assert len(table) == 240
    assert (table["high"] > table["low"]).all()
    assert json.loads(done.out)["failing"] == 0
    # Values that were there are not touched, whatever they are.
    done = run("impute", model, "fresh.csv", "-o", "-", "--quiet", "--require", "low < 0")
    assert "rows still fail a condition of --require" in done.err


def test_privacy_figures_are_said(run, model):
    options = ["-n", "150", "-o", "draws.csv", "--privacy", "first.csv", "fresh.csv", "--json"]
    done = run("sample", model, *options)
    assert done.code == 0, done.err
    found = json.loads(done.out)["privacy"]
    assert found["n_rows"] == [150, 120, 120]
    assert found["copies"] == 0
    assert not found["are_near"]
    assert "5 % quantile" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "city=west"], "Its levels are north, south"),
        (["--set", "town=west"], "NAME=VALUE with a column of the model"),
        (["--set", "low=much"], "low holds numbers"),
        (["--require", "lwo < 3"], "Did you mean 'low'?"),
        (["--require", "low < -1"], "too few to go on"),
        (["--given", "first.csv", "--set", "low=1"], "leave out --given"),
        (["--privacy", "first.csv", "other.csv"], "no column 'low'"),
    ],
)
def test_wishes_that_cannot_be_met_are_said(run, model, options, said):
    done = run("sample", model, "-n", "20", *options)
    assert done.code in (1, 2)
    assert said in done.err
