"""The command line in real processes.

Most commands are run by one process that has imported everything already, each with its own
arguments, standard output, standard error and exit code. Pipes, interruptions and full disks have
processes of their own.
"""

from __future__ import annotations

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import typer

import kexpfam
from kexpfam import KernelExponentialFamily
from kexpfam.cli.demo import _Figures, _verdict, run_demo
from kexpfam.cli.inputs import opened
from kexpfam.cli.terminal import Terminal

# Numbers for all settings: nothing is tuned.
FIXED = {"n_components": 32, "base": "gaussian", "penalty": 1e-3, "noise_scale": 0.2}
FAMILY = [
    *("--estimator", "family", "--n-components", "32", "--base", "gaussian"),
    *("--penalty", "1e-3", "--noise-scale", "0.2", "--length-scale", "0.8,1.2"),
]

# The same command, with a checkpoint after every chunk instead of every ten seconds.
SAVING_OFTEN = """
from kexpfam.moments import Checkpoint
Checkpoint.due = lambda self: True
from kexpfam.cli import main
main()
"""


def two_humps(count, seed):
    generator = np.random.default_rng(seed)
    sides = generator.choice([-2.0, 2.0], (count, 1))
    return generator.standard_normal((count, 2)) * [1.0, 0.5] + sides


def write_csv(path, names, rows):
    np.savetxt(path, rows, delimiter=",", header=",".join(names), comments="", fmt="%.17g")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command_line")
    rows = two_humps(300, 0)
    weights = np.random.default_rng(1).integers(0, 3, 300)
    write_csv(folder / "rows.csv", "iabw", np.column_stack([np.arange(300), rows, weights]))
    fresh = two_humps(9000, 2)
    columns = {"b": fresh[:, 1], "x": fresh[:, 0], "a": fresh[:, 0]}
    pa.parquet.write_table(pa.table(columns), folder / "fresh.parquet")
    write_csv(folder / "shifted.csv", "ab", two_humps(200, 3) + np.array([1.0, 0.0]))
    (folder / "words.csv").write_text("a,b\n1,2\n3,five\n5,6\n")
    (folder / "missing.csv").write_text("a,b\n1,2\n3,4\n5,\n")
    (folder / "names.csv").write_text("a,b\n")
    (folder / "empty.csv").write_bytes(b"")
    write_csv(folder / "constant.csv", ["a", "planet"], rows * [1, 0] + [0, 3])
    (folder / "stranger.kexpfam").write_bytes(b"not a model")
    return folder


@pytest.fixture(scope="module")
def family(run, folder):
    """A model fitted by name and weight, and what the command said."""
    options = ["--columns", "b,a", "--weights", "w", "--json", *FAMILY]
    done = run("fit", "rows.csv", "-o", "family.kexpfam", *options)
    assert done.code == 0, done.err
    return SimpleNamespace(path="family.kexpfam", said=done)


def read_table(path):
    with open(path, newline="") as file:
        names, *rows = list(csv.reader(file))
    return names, np.array(rows, float)


# -- fit, info ----------------------------------------------------------------------------------


def test_fit_is_the_librarys(folder, family):
    _, rows = read_table(folder / "rows.csv")
    expected = KernelExponentialFamily(**FIXED, length_scale=[0.8, 1.2], random_state=0)
    expected.fit(rows[:, [2, 1]], sample_weight=rows[:, 3])
    found = kexpfam.load(folder / family.path)
    np.testing.assert_array_equal(found.coefficients_, expected.coefficients_)
    assert list(found.feature_names_in_) == ["b", "a"]
    record = json.loads(family.said.out)
    assert record["columns"] == ["b", "a"]
    assert record["fitted"]["rows"] == rows[:, 3].sum()
    assert "fitted in" in family.said.err


@pytest.fixture(scope="module")
def diffusion(run):
    """A model of two columns, for which a mixture is enough."""
    options = ["--exclude", "i,w", "--n-components", "32", "--levels", "3", "--seed", "5", "-q"]
    kind = ["--estimator", "diffusion"]
    done = run("fit", "rows.csv", "-o", "diffusion.kexpfam", *kind, *options)
    assert (done.code, done.out, done.err) == (0, "", "")
    return "diffusion.kexpfam"


def test_a_diffusion_is_fitted_and_described(run, diffusion):
    done = run("info", diffusion, "--json")
    record = json.loads(done.out)
    assert record["kind"] == "KernelDiffusion"
    assert record["columns"] == ["a", "b"]
    assert record["settings"] == {
        **{"n_components": 32, "n_levels": 3, "random_state": 5, "tolerance": 1e-3},
        "gate": True,
        **{"basis": "auto", "marginals": "auto", "noise_range": "auto"},
    }
    assert len(record["fitted"]["noise_scales"]) == 3
    assert record["versions"]["written_by"] == f"kexpfam {kexpfam.__version__}"
    # The same for people: with --json beside it, without in its place.
    for word in ("KernelDiffusion of 2 columns: a, b", "n levels", "noise scales", "in words"):
        assert word in done.err
    assert run("info", diffusion).out == done.err


def test_an_existing_model_is_kept_unless_forced(run, folder, family):
    before = (folder / family.path).read_bytes()
    again = ["fit", "shifted.csv", "-o", family.path, *FAMILY]
    done = run(*again)
    assert done.code == 1
    assert "family.kexpfam exists. Give --force" in done.err
    assert (folder / family.path).read_bytes() == before
    copy = folder / "copy.kexpfam"
    copy.write_bytes(before)
    assert run("fit", "shifted.csv", "-o", copy.name, "--force", *FAMILY).code == 0
    assert copy.read_bytes() != before


# -- score, sample, test, report ----------------------------------------------------------------


def test_scores_of_every_kind_are_the_models(run, folder, family):
    model = kexpfam.load(folder / family.path)
    table = pa.parquet.read_table(folder / "fresh.parquet")
    rows = np.column_stack([table["b"], table["a"]])
    del model.feature_names_in_
    derivatives = [model.gradient(rows), model.laplacian(rows), model.surprise(rows)]
    expected = np.column_stack([np.arange(1, 9001), model.score_samples(rows), *derivatives])
    names = ["row", "log_density", "gradient_b", "gradient_a", "laplacian"]
    names += ["surprise_b", "surprise_a"]
    everything = ["--gradient", "--laplacian", "--surprise"]
    for kind, options in (("parquet", everything), ("csv", everything[:1]), ("npy", [])):
        output = ["-o", f"scores.{kind}", "--json"]
        done = run("score", family.path, "fresh.parquet", *output, *options)
        assert done.code == 0, done.err
        record = json.loads(done.out)
        assert record["rows"] == 9000
        assert record["columns"] == names[: {3: 7, 1: 4, 0: 2}[len(options)]]
        assert record["score"] == pytest.approx(expected[:, 1].mean(), rel=1e-12)
    np.testing.assert_array_equal(np.load(folder / "scores.npy"), expected[:, :2])
    found_names, found = read_table(folder / "scores.csv")
    assert found_names == names[:4]
    np.testing.assert_array_equal(found, expected[:, :4])
    found = pa.parquet.read_table(folder / "scores.parquet")
    assert found.schema.names == names
    np.testing.assert_array_equal(np.column_stack(found.columns), expected)
    assert found["row"].type == pa.int64()


def test_draws_are_the_models(run, folder, family):
    done = run("sample", family.path, "-n", "50", "--seed", "3", "-o", "draws.npy", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"] == 50
    model = kexpfam.load(folder / family.path)
    expected = model.sample(50, random_state=3)
    np.testing.assert_array_equal(np.load(folder / "draws.npy"), expected)
    done = run("sample", family.path, "-n", "2")
    names, rows = done.out.splitlines()[0], done.out.splitlines()[1:]
    assert names == "b,a"
    assert len(rows) == 2


# -- of a target --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def conditional(run):
    """The density of b given a and the row's number."""
    options = ["--columns", "a,i", "--target", "b", "--bounds", "-9,", "--kernel", "rbf"]
    done = run("fit", "rows.csv", "-o", "b.kexpfam", "--n-components", "5", *options)
    assert done.code == 0, done.err
    assert "of b given 2 columns" in done.err
    return "b.kexpfam"


def test_predictions_are_the_models(run, folder, conditional):
    done = run("predict", conditional, "rows.csv", "--interval", "0.8", "--quantiles", "0.5")
    names, *lines = (line.split(",") for line in done.out.splitlines())
    assert names == ["row", "mean", "standard_deviation", "lower", "upper", "quantile_0.5"]
    _, rows = read_table(folder / "rows.csv")
    model = kexpfam.load(folder / conditional)
    assert model.target_name_ == "b"
    assert model.density_.bounds == (-9.0, np.inf)
    del model.feature_names_in_
    X, y = rows[:, [1, 0]], rows[:, 2]
    expected = [
        *(np.arange(1, 301), model.predict(X), model.predict_std(X)),
        *model.predict_quantiles(X, [0.1, 0.9, 0.5]).T,
    ]
    np.testing.assert_allclose(np.array(lines, float), np.transpose(expected), rtol=1e-9)
    done = run("score", conditional, "rows.csv", "--gradient", "--laplacian")
    names, *lines = (line.split(",") for line in done.out.splitlines())
    assert names == ["row", "log_density", "gradient_b", "laplacian"]
    expected = [model.score_samples(X, y), model.gradient(X, y), model.laplacian(X, y)]
    np.testing.assert_allclose(np.array(lines, float)[:, 1:], np.transpose(expected), rtol=1e-9)
    done = run("sample", conditional, "--given", "rows.csv", "-n", "2", "--seed", "3")
    names, *lines = (line.split(",") for line in done.out.splitlines())
    assert names == ["row", "b"]
    drawn = model.sample(X, 2, random_state=3)
    np.testing.assert_allclose(np.array(lines, float)[:, 1], drawn.ravel(), rtol=1e-9)
    described = json.loads(run("info", conditional, "--json").out)
    assert described["fitted"]["target"] == "b"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["predict", "family.kexpfam", "rows.csv"], "--target COLUMN"),
        (["predict", "b.kexpfam", "rows.csv", "--quantiles", "50"], "between 0 and 1"),
        (["predict", "b.kexpfam", "shifted.csv"], "no column 'i'"),
        (["sample", "b.kexpfam"], "--given"),
        (["sample", "family.kexpfam", "--given", "rows.csv"], "--given needs"),
        (["impute", "family.kexpfam", "rows.csv"], "cannot fill in what is missing"),
        (["impute", "b.kexpfam", "rows.csv"], "density of a target"),
        (["score", "family.kexpfam", "rows.csv", "--contributions"], "Use --surprise."),
        (["score", "b.kexpfam", "rows.csv", "--surprise"], "--surprise"),
        (["test", "b.kexpfam", "rows.csv"], "kexpfam predict"),
        (["fit", "rows.csv", "-o", "no.kexpfam", "--target", "c"], "no column 'c'"),
        (["fit", "rows.csv", "-o", "no.kexpfam", "--target", "b", "--levels", "3"], "diffusion"),
        (["fit", "rows.csv", "-o", "no.kexpfam", "--target", "b", "--bounds", "3"], "two numbers"),
        (["fit", "rows.csv", "-o", "no.kexpfam", "--target", "b", "--exclude", "b"], "among"),
        (["fit", "rows.csv", "-o", "no.kexpfam", "--estimator", "conditional"], "--target"),
    ],
)
def test_targets_that_cannot_be(run, family, conditional, arguments, complaint):
    done = run(*arguments)
    assert done.code in (1, 2)
    assert complaint in done.err


def test_a_verdict_in_numbers_words_and_an_exit_code(run, folder, family):
    done = run("test", family.path, "shifted.csv", "--json", "--fail-below", "0.01")
    record = json.loads(done.out)
    assert done.code == 3
    assert record["p_value"] < 0.01
    assert record["method"] == "kernel"
    assert "differ from the model" in record["in_words"]
    done = run("test", family.path, "shifted.csv", "--method", "finite_set")
    assert done.code == 0
    assert "p-value" in done.out
    assert "finite set Stein test" in done.out


def test_a_report_on_a_model(run, folder, family):
    options = ["--data", "shifted.csv", "-o", "pages/report.html", "--title", "Two humps"]
    done = run("report", family.path, *options, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["likelihood"]["n_rows"] == 200
    assert "Two humps" in (folder / "pages" / "report.html").read_text()


# -- complaints ---------------------------------------------------------------------------------

FIT = ["fit", "-o", "never.kexpfam", "--estimator", "diffusion"]
CHAIN = ["fit", "-o", "never.kexpfam"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        ([*FIT, "nowhere.csv"], 1, "nowhere.csv does not exist"),
        ([*FIT, "empty.csv"], 1, "empty.csv is empty"),
        ([*FIT, "names.csv"], 1, "names.csv has a line of names but no rows"),
        (
            [*FIT, "words.csv"],
            1,
            "words.csv: row 2, column 'b' holds 'five', which is not a number",
        ),
        ([*FIT, "words.csv", "--columns", "b"], 1, "words.csv: row 2, column 'b' holds 'five'"),
        ([*FIT, "missing.csv"], 1, "missing.csv: row 3, column 'b' is missing"),
        ([*FIT, "rows.csv", "--sep", "both"], 2, "--sep must be one character"),
        ([*FIT, "rows.csv", "--sep", ",", "--decimal", ","], 2, "must be different characters"),
        (["report", "nowhere.tsv", "-o", "never.html"], 1, "nowhere.tsv does not exist"),
        ([*CHAIN, "nowhere.csv"], 1, "nowhere.csv does not exist"),
        ([*CHAIN, "names.csv"], 1, "names.csv has a line of names but no rows"),
        ([*CHAIN, "rows.csv", "--columns", "a,z"], 1, "no column 'z'. Its columns are i, a, b, w"),
        (
            [*CHAIN, "rows.csv", "--kind", "z=count"],
            1,
            "--kind names 'z', which is not a column of",
        ),
        ([*CHAIN, "rows.csv", "--kind", "a=count"], 1, "--kind a=… is 'count', but there is"),
        ([*CHAIN, "rows.csv", "--kind", "a"], 2, "--kind must be NAME=KIND"),
        ([*CHAIN, "rows.csv", "--n-components", "9"], 2, "setting of --estimator diffusion"),
        ([*CHAIN, "rows.csv", "--checkpoint", "c"], 2, "--checkpoint is for fits"),
        ([*FIT, "rows.csv", "--kind", "a=real"], 2, "--kind is a setting of --estimator chain"),
        ([*FIT, "constant.csv"], 1, "('planet'). A constant column has no density"),
        ([*FIT, "constant.csv", *FAMILY], 1, "Leave such columns out: --exclude planet"),
        (
            ["report", "constant.csv", "-o", "never.html", "--estimator", "diffusion"],
            *(1, "precision ('planet')"),
        ),
        (["report", "family.kexpfam", "--kind", "a=count", "-o", "r.html"], 2, "fitted already"),
        ([*FIT, "rows.csv", "--columns", "a,z"], 1, "no column 'z'. Its columns are i, a, b, w"),
        ([*FIT, "rows.csv", "--exclude", "z"], 1, "no column 'z'"),
        ([*FIT, "rows.csv", "--weights", "z"], 1, "no column 'z'"),
        (["fit", "rows.csv", "-o", "."], 1, "it is a folder"),
        (["fit", "rows.csv", "-o", "words.csv/model"], 1, "Cannot write words.csv/model"),
        (["fit", "rows.csv", "-o", "-"], 2, "Give -o the name of a file"),
        ([*FIT, "rows.csv", "--penalty", "1"], 2, "--penalty is a setting of --estimator family"),
        ([*FIT, "rows.csv", "--noise-range", "low"], 2, "--noise-range must be a number"),
        ([*FIT, "rows.csv", "--estimator", "best"], 2, "'best' is not one of"),
        (["info", "nowhere.kexpfam"], 1, "nowhere.kexpfam: No such file"),
        (["info", "stranger.kexpfam"], 1, "stranger.kexpfam is not a whole kexpfam model file"),
        (["info", "rows.csv"], 1, "expected a model file"),
        (["score", "family.kexpfam", "rows.csv", "-o", "s.xlsx"], 2, ".parquet, .csv, .npy"),
        (["score", "family.kexpfam", "rows.csv", "--json"], 2, "both write to standard output"),
        (["score", "family.kexpfam", "constant.csv"], 1, "has no column 'b'"),
        (["score", "family.kexpfam", "words.csv"], 1, "row 2, column 'b' holds 'five'"),
        (["sample", "family.kexpfam", "--method", "flow"], 1, "method must be"),
        (["report", "rows.csv", "--data", "rows.csv", "-o", "r.html"], 2, "is data already"),
        (["demo", "--density", "apple"], 2, "banana"),
        (["demo", "--output", "words.csv/demo.png"], 1, "Cannot write words.csv/demo.png"),
        (["reproduce", "figure_7"], 2, "figure_1"),
        (["fot"], 2, "No such command 'fot'"),
    ],
)
def test_complaints_are_one_line(run, folder, family, arguments, code, complaint):
    before = sorted(path.name for path in folder.rglob("*"))
    done = run(*arguments)
    assert done.code == code, done.err
    assert complaint in done.err
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_a_full_disk_is_named_after_the_librarys_own_warnings(run, folder):
    np.savetxt(folder / "numbers.csv", two_humps(100, 4), delimiter=",")
    done = run("fit", "numbers.csv", "-o", "/dev/full", *FAMILY)
    assert done.code == 1
    *warned, refused = done.err.splitlines()
    assert warned
    assert all(line.startswith("Warning: ") for line in warned)
    assert refused == "Error: Cannot write /dev/full: No space left on device."


@pytest.mark.filterwarnings("default::kexpfam.FlowWarning")
def test_faults_and_warnings_are_one_line_too(capsys):
    with pytest.raises(typer.Exit) as ended, Terminal():
        raise KeyError("beta")
    assert ended.value.exit_code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "KeyError: 'beta'). Run the command again with --debug" in said
    with pytest.raises(typer.Exit), Terminal(debug=True):
        raise KeyError("beta")
    assert "Traceback" in capsys.readouterr().err
    with Terminal(as_json=True) as terminal:
        for count in range(3):
            warnings_of_a_block(count)
        terminal.result({"infinite": np.inf, "array": np.arange(2)}, ["in words"])
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        **{"infinite": None, "array": [0, 1]},
        "warnings": [f"{count} rows lie far out." for count in range(3)],
    }
    assert said.err.splitlines() == [
        "Warning: 0 rows lie far out.",
        "in words",
        "(2 more warnings of type FlowWarning.)",
    ]


def warnings_of_a_block(count):
    warnings.warn(f"{count} rows\nlie far out.", kexpfam.FlowWarning, stacklevel=1)


def test_a_file_without_names_is_warned_of_and_loses_no_row(run, folder):
    rows = two_humps(100, 4)
    np.savetxt(folder / "nameless.csv", rows, delimiter=",")
    done = run("fit", "nameless.csv", "-o", "nameless.kexpfam", *FAMILY, "--json")
    assert done.code == 0
    record = json.loads(done.out)
    assert "holds numbers only" in done.err
    assert "holds numbers only" in record["warnings"][0]
    assert record["columns"] == ["column_1", "column_2"]
    assert record["fitted"]["rows"] == 100
    done = run("score", "nameless.kexpfam", "nameless.csv", "--no-header")
    assert len(done.out.splitlines()) == 101
    assert "Warning" not in done.err


# -- processes of their own ---------------------------------------------------------------------


def test_pipes_both_ways_end_quietly(folder, diffusion, environment):
    command = f"{sys.executable} -m kexpfam"
    script = (
        f"{command} sample -q {diffusion} -n 3000"
        f" | {command} score {diffusion} - --gradient"
        " | head -n 3; echo ${PIPESTATUS[@]}"
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
    )
    names, first, second, codes = done.stdout.splitlines()
    assert names == "row,log_density,gradient_a,gradient_b"
    assert (first.split(",")[0], second.split(",")[0]) == ("1", "2")
    assert codes == "0 141 0"
    assert done.stderr == ""


def test_a_full_disk_behind_standard_output_is_named(folder, family, environment):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kexpfam", "score", family.path, "shifted.csv"],
            **{"cwd": folder, "env": environment, "text": True},
            **{"stdout": full, "stderr": subprocess.PIPE, "check": False},
        )
    assert done.returncode == 1
    assert done.stderr == "Error: standard output: No space left on device.\n"


# Interrupted as soon as something heavy is imported.
INTERRUPTED_EARLY = """
import importlib.abc, os, signal, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from kexpfam.cli import main
main()
"""


def test_an_interruption_among_imports_ends_at_once(folder, environment):
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_EARLY, "fit", "rows.csv", "-o", "never.kexpfam"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("closed", "code"), [("1", 1), ("2", 0)], ids=["standard output", "standard error"]
)
def test_streams_that_are_closed(closed, code, family, folder, environment):
    command = f"exec {sys.executable} -m kexpfam info {family.path} {closed}>&-"
    found = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert found.returncode == code
    assert "Traceback" not in found.stderr
    expected = "standard output is closed" if code else ""
    assert expected in found.stderr
    assert bool(found.stdout) == (code == 0)


def test_the_demo_names_what_its_picture_needs_before_it_works(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"kexpfam\[plot\]"):
        run_demo("cosine", 20, 1, 0, tmp_path / "demo.png", Terminal(False, True, False))
    assert not capsys.readouterr().out


def test_closed_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with (
        pytest.raises(ValueError, match="standard input, which is closed"),
        opened(["-"], Terminal(False, True, False)),
    ):
        pass


def test_an_interrupted_fit_is_taken_up_again(run, folder, environment):
    parts = [folder / f"part{number}.npy" for number in range(2)]
    for number, part in enumerate(parts):
        np.save(part, two_humps(100_000, number))
    files = [part.name for part in parts]
    options = ["--checkpoint", "fit.checkpoint", *FAMILY, "--n-components", "64"]
    arguments = ["fit", *files, "-o", "resumed.kexpfam", *options]
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING_OFTEN, *arguments],
        **{"cwd": folder, "env": environment, "start_new_session": True},
        **{"stdin": subprocess.DEVNULL, "stderr": theirs},
    )
    os.close(theirs)
    while not (folder / "fit.checkpoint").exists() and process.poll() is None:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130
    said = read_terminal(terminal)
    assert "moments" in said  # a bar, since there was a terminal
    assert "Interrupted. The same command goes on from fit.checkpoint." in said
    assert "Traceback" not in said
    assert not list(folder.glob("*resumed*"))
    assert run(*arguments).code == 0
    assert not (folder / "fit.checkpoint").exists()
    assert run("fit", *files, "-o", "whole.kexpfam", *options[2:]).code == 0
    resumed, whole = (kexpfam.load(folder / f"{name}.kexpfam") for name in ("resumed", "whole"))
    np.testing.assert_array_equal(resumed.coefficients_, whole.coefficients_)
    assert np.abs(whole.coefficients_).max() > 0.1


def read_terminal(descriptor):
    pieces = []
    try:
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
    except OSError:  # the other end is closed
        pass
    os.close(descriptor)
    return " ".join(b"".join(pieces).decode().split())


def test_version_help_and_completion(environment):
    def said(*arguments, **more):
        command = [sys.executable, "-m", "kexpfam", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**environment, **more}, check=False
        )
        return done.stdout

    assert "_KEXPFAM_COMPLETE=complete_bash" in said(_KEXPFAM_COMPLETE="source_bash")
    asked = {"_KEXPFAM_COMPLETE": "complete_bash", "COMP_WORDS": "kexpfam s", "COMP_CWORD": "1"}
    assert said(**asked).split() == ["score", "sample"]


def test_help_of_every_command_has_an_example(run):
    assert kexpfam.__version__ in run("--version").out
    for arguments in ([], ["--help"]):
        assert "Usage: kexpfam" in run(*arguments).out
    for command in (
        "fit",
        "score",
        "predict",
        "sample",
        "impute",
        "test",
        "info",
        "report",
        "demo",
        "reproduce",
    ):
        assert f"kexpfam {command} " in run(command, "--help").out.partition("Example")[2]


def test_the_demo_prints_a_table_and_writes_a_figure(run, folder):
    options = ["--rows", "100", "--seeds", "1", "--output", "pictures/demo.png"]
    done = run("demo", *options, "--json")
    assert done.code == 0, done.err
    for word in ("log-likelihood", "Fisher", "Denoising", "seconds", "truth", "denoised", "plain"):
        assert word in done.err
    picture = folder / "pictures" / "demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    record = json.loads(done.out)
    assert record["output"] == "pictures/demo.png"
    assert [line["name"] for line in record["models"]][:2] == ["truth", "kexpfam, denoised"]


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ([0.3, 0.2, 0.25], "helps here: +0.250 ± 0.029 nats per row over plain score matching"),
        ([-0.3, -0.2], "does not help here"),
        ([0.3, -0.2], "no clear difference here"),
        ([0.3], "one seed is not enough"),
    ],
)
def test_the_demos_verdict_is_what_the_seeds_say(gains, words):
    figures = {
        "denoised": [_Figures(-3.0 + gain, 1.0, 1.0) for gain in gains],
        "plain": [_Figures(-3.0, 1.0, 1.0) for _ in gains],
    }
    assert words in _verdict(figures)


def test_experiments_are_listed(run):
    done = run("reproduce", "--list", "--json")
    assert "figure_1" in done.err
    listed = json.loads(done.out)["experiments"]
    assert {"name", "whose", "title"} == set(listed[0])
    assert "figure_1" in [one["name"] for one in listed]
