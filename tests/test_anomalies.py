"""Unusual rows: calibration, what is responsible, manners of PyOD and scikit-learn, the command."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.utils.estimator_checks import check_estimator

import kexpfam
from kexpfam import CalibrationWarning, KernelAnomalyDetector
from kexpfam.cli import main

NOISE = 0.1


def birds(n_rows, seed=0):
    """Two kinds whose weights differ, whole numbers, truth values, and some empty cells."""
    generator = np.random.default_rng(seed)
    large = generator.random(n_rows) < 0.5
    table = pd.DataFrame(
        {
            "kind": np.where(large, "large", "small"),
            "weight": np.where(large, 5.0, 2.0) + 0.4 * generator.standard_normal(n_rows),
            "eggs": generator.poisson(3, n_rows),
            "ringed": generator.random(n_rows) < 0.2,
        }
    )
    table.loc[::17, "weight"] = np.nan
    return table


@pytest.fixture(scope="module")
def table():
    table = birds(250)
    table.loc[7, ["kind", "weight", "eggs"]] = ["small", 5.1, 3]
    table.loc[12, "weight"] = 1e9
    return table


@pytest.fixture(scope="module")
def detector(table):
    return KernelAnomalyDetector(false_alarms=0.05, random_state=0).fit(table)


def test_labels_scores_and_p_values_agree_as_in_pyod(detector, table):
    fresh = birds(100, seed=1)
    scores = detector.decision_function(fresh)
    np.testing.assert_array_equal(detector.score_samples(fresh), -scores)
    np.testing.assert_array_equal(detector.predict(fresh), scores > detector.threshold_)
    counts = (detector.decision_scores_ >= scores[:, None]).sum(axis=1)
    np.testing.assert_allclose(detector.p_values(fresh), (1 + counts) / (len(table) + 1))
    # At most the stated share of the training rows, and as many as there can be without ties.
    assert detector.labels_.sum() == 12
    assert detector.contamination == 0.05
    assert set(np.unique(detector.labels_)) == {0, 1}


def test_false_alarms_on_fresh_rows_are_as_stated():
    # The share of alarms varies with the training rows by 0.1·0.9/200, and by half as much again
    # with the 400 test rows: three deviations of their mean over four tables are 0.039.
    rates = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        rows, fresh = (generator.standard_normal((n, 3)) @ MIX for n in (200, 400))
        found = KernelAnomalyDetector(false_alarms=0.1, random_state=0).fit(rows)
        rates.append(found.predict(fresh).mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.039)


MIX = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.3], [0.0, 0.0, 1.0]])


def test_a_training_row_is_judged_without_its_fold(detector, table):
    fit = detector.fitted_
    each = fit.density.abnormality(fit.numbers(fit.table.codes(table)))
    own = each[np.arange(len(table)), detector.folds_]
    np.testing.assert_allclose(detector.decision_scores_, own)
    # A row far from all others has components and a neighbor, itself, where it was seen: it is
    # likelier there by more than a factor of e.
    others = np.delete(each[12], detector.folds_[12])
    assert own[12] > others.max() + 1


def test_the_densities_that_saw_a_row_know_it():
    """A row by itself has a component and a neighbor there, and none where it is judged."""
    rows = np.random.default_rng(0).standard_normal((200, 3))
    rows[7] = [40.0, -40.0, 40.0]
    found = KernelAnomalyDetector(random_state=0).fit(rows)
    fit, fold = found.fitted_, found.folds_[7]
    each = fit.density.abnormality(fit.numbers(fit.table.codes(rows[7:8])))[0]
    assert found.decision_scores_[7] == pytest.approx(each[fold])
    assert each[fold] > np.delete(each, fold).max() + 5


def test_copies_of_a_row_are_in_one_fold():
    rows = np.random.default_rng(0).standard_normal((60, 2))
    found = KernelAnomalyDetector(false_alarms=0.1, random_state=0).fit(np.tile(rows, (2, 1)))
    np.testing.assert_array_equal(found.folds_[:60], found.folds_[60:])
    np.testing.assert_allclose(found.decision_scores_[:60], found.decision_scores_[60:])


def test_the_responsible_column_and_its_range_are_named(detector, table):
    strange = pd.DataFrame(
        {
            "kind": ["small", "ostrich", "large", "large"],
            "weight": [5.0, 2.0, 5.0, np.nan],
            "eggs": [3, 3, 30, 3],
            "ringed": [False, False, False, False],
        }
    )
    why = detector.explain(strange)
    assert why.columns[1:3] == ["kind", "eggs"]
    assert why.columns[0] in ("kind", "weight")
    assert why.values[1:3] == ["a level never seen", 30]
    assert 0 <= why.low[2] <= 2
    assert 4 <= why.high[2] <= 9
    assert why.in_words()[2] == f"'eggs' is 30, expected {why.low[2]} to {why.high[2]} given " + (
        "the other values"
    )
    assert (why.surprise[3, 1], list(detector.predict(strange)[:3])) == (0.0, [1, 1, 1])
    own = detector.explain_training_rows(table, [12])
    assert own.columns == ["weight"]
    assert own.values == [1e9]
    # One gross value among 250 does not widen what is expected of the others.
    assert 0 < own.low[0] < own.high[0] < 7


def test_the_expected_range_of_correlated_normal_columns():
    covariance = np.array([[4.0, 5.4, 1.2], [5.4, 9.0, 1.8], [1.2, 1.8, 1.0]])
    center = np.array([10.0, 30.0, 0.0])
    rows = np.random.default_rng(0).multivariate_normal(center, covariance, 600)
    found = KernelAnomalyDetector(random_state=0).fit(rows)
    row = np.array([12.0, 25.0, 0.8])
    why = found.explain(row[None], coverage=0.9)
    # The closed form, with noise of a tenth of each column's deviation.
    precision = np.linalg.inv(covariance + np.diag(NOISE**2 * np.diag(covariance)))
    mean = row[1] - precision[1] @ (row - center) / precision[1, 1]
    half = 1.645 / np.sqrt(precision[1, 1])
    assert why.columns == ["1"]
    # A fit of 480 rows knows the mean to about 0.1 here, and the deviation, 1.3, to 3 %.
    np.testing.assert_allclose([why.low[0], why.high[0]], [mean - half, mean + half], atol=0.4)
    # Four deviations out, but on the line that all columns follow: by itself the value is strange.
    far = center + 4 * covariance[1] / 3
    why = found.explain(far[None], coverage=0.9)
    assert why.columns == ["1"]
    assert why.in_words()[0].endswith("and the other values agree with it")
    half = 1.645 * 3 * np.sqrt(1 + NOISE**2)
    np.testing.assert_allclose([why.low[0], why.high[0]], [30 - half, 30 + half], atol=0.5)


def test_columns_of_few_values_do_not_decide():
    # A sharp density of the rounded column would give its rare values any weight it likes.
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((400, 3))
    rows[:, 0] = np.rint(2 * rows[:, 0]) / 2
    found = KernelAnomalyDetector(false_alarms=0.05, random_state=0).fit(rows)
    surprise = found.explain_training_rows(rows, np.arange(400)).surprise
    flagged = surprise[found.labels_ == 1].argmax(axis=1)
    assert len(flagged) == 20
    # By chance a third; 14 of 20 or more happen once in a thousand times.
    assert (flagged == 0).sum() < 14


def test_frames_and_arrays_of_numbers_are_the_same():
    rows = np.random.default_rng(0).standard_normal((60, 2))
    options = {"false_alarms": 0.1, "random_state": 0}
    plain = KernelAnomalyDetector(**options).fit(rows).decision_scores_
    for frame in (pd.DataFrame(rows, columns=["a", "b"]), pl.DataFrame(rows, schema=["a", "b"])):
        np.testing.assert_array_equal(
            KernelAnomalyDetector(**options).fit(frame).decision_scores_, plain
        )


def test_a_detector_is_saved_and_loaded(detector, tmp_path):
    path, fresh = tmp_path / "birds.kexpfam", birds(30, seed=2)
    detector.save(path)
    again = kexpfam.load(path)
    np.testing.assert_array_equal(again.decision_function(fresh), detector.decision_function(fresh))
    np.testing.assert_array_equal(again.p_values_, detector.p_values_)
    assert again.threshold_ == detector.threshold_
    assert again.explain(fresh[:3]).in_words() == detector.explain(fresh[:3]).in_words()


def test_what_cannot_be_is_said(detector, table):
    rows = np.random.default_rng(0).standard_normal((40, 2))
    with pytest.raises(ValueError, match="false_alarms must be a number between 0 and 1; got 5"):
        KernelAnomalyDetector(false_alarms=5).fit(rows)
    with pytest.raises(ValueError, match="at least 4 distinct rows; got 3"):
        KernelAnomalyDetector().fit(rows[:3])
    with pytest.warns(CalibrationWarning, match="no row can be an anomaly at false_alarms=0.01"):
        found = KernelAnomalyDetector(random_state=0).fit(rows)
    assert found.threshold_ == np.inf
    assert not found.labels_.any()
    with pytest.raises(ValueError, match="the 250 rows of fit; got 3"):
        detector.explain_training_rows(table[:3], [0])


@pytest.mark.filterwarnings("ignore::kexpfam.exceptions.CalibrationWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_battery():
    results = check_estimator(KernelAnomalyDetector(random_state=0), on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, failed
    assert Counter(result["status"] for result in results)["passed"] >= 38


def run(*arguments):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "kexpfam", "anomalies", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False, timeout=240
    )


def run_here(*arguments):
    """The command in this process: its exit code, and what it wrote."""
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["kexpfam", "anomalies", *map(str, arguments)])
        patch.setattr(signal, "signal", lambda *_: None)
        with pytest.raises(SystemExit) as end:
            main()
    return end.value.code, out.getvalue(), errors.getvalue()


def test_the_command_shows_flagged_rows_and_writes_all(tmp_path, table):
    table.to_csv(tmp_path / "birds.csv", index=False)
    output = tmp_path / "scores.csv"
    done = run(tmp_path / "birds.csv", "--false-alarms", "0.02", "-o", output)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("5 of 250 rows are flagged.")
    assert "'weight' is 1e+09, expected " in lines[2]
    assert lines[2].split()[0] == "13"
    scores = pd.read_csv(output)
    names = ["row", "score", "p_value", "anomaly", "column", "value", "low", "high"]
    assert list(scores.columns) == names
    assert (len(scores), scores.anomaly.sum(), scores.column.notna().sum()) == (250, 5, 5)
    assert scores.loc[12, "column"] == "weight"
    code, _, errors = run_here(tmp_path / "birds.csv", "-o", output)
    assert code == 1
    assert "--force" in errors


def test_the_command_judges_rows_by_others(tmp_path, table):
    table.to_csv(tmp_path / "good.csv", index=False)
    strange = pd.DataFrame(
        {"eggs": [3, 30], "weight": [2.0, 2.0], "ringed": [False, True], "kind": ["small"] * 2}
    )
    strange.to_csv(tmp_path / "new.csv", index=False)
    code, out, errors = run_here(tmp_path / "new.csv", "--train", tmp_path / "good.csv", "--json")
    assert code == 0, errors
    record = json.loads(out)
    assert (record["rows"], record["training_rows"], record["false_alarms"]) == (2, 250, 0.01)
    (found,) = record["anomalies"]
    assert (found["row"], found["column"], found["value"]) == (2, "eggs", 30)
    assert found["p_value"] <= 0.01
    code, _, errors = run_here(tmp_path / "new.csv", "-o", tmp_path / "scores.npy")
    assert code == 2
    assert ".csv" in errors
