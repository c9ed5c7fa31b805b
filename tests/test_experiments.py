"""Every experiment runs from the command line in its quick form, and can be taken up again."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from kexpfam.cli.app import app
from kexpfam.progress import Progress
from kexpfam_experiments import EXPERIMENTS, Experiment, Options, reproduce
from kexpfam_experiments.harness import markdown_table

NEEDS_DATA = {"table_1"}


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_a_quick_run_writes_numbers_a_table_and_a_picture(name, tmp_path):
    if name in NEEDS_DATA and "KEXPFAM_DATA" not in os.environ:
        pytest.skip("KEXPFAM_DATA names no folder")
    command = ["reproduce", name, "--quick", "--output", str(tmp_path)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    experiment = EXPERIMENTS[name]
    records = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))["records"]
    assert set(records) == {"/".join(cell) for cell in experiment.cells(Options(quick=True))}
    table = (tmp_path / f"{name}.md").read_text("utf-8")
    assert table.startswith(f"# {experiment.title}")
    assert experiment.protocol.strip() in table
    assert "| --- |" in table
    assert (tmp_path / f"{name}.png").exists() == (experiment.draw is not None)
    page = (tmp_path / "README.md").read_text("utf-8")
    assert page.startswith("# The paper, reproduced")
    assert f"## {experiment.title}" in page


def test_what_there_is():
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in EXPERIMENTS)


def test_an_unknown_name_is_refused():
    result = CliRunner().invoke(app, ["reproduce", "figure_99"])
    assert result.exit_code == 2


def test_an_interrupted_experiment_goes_on_where_it_stopped(tmp_path):
    done = []

    def measure(cell, options):
        if cell == ("b",) and len(done) == 1:
            done.append(cell)
            raise KeyboardInterrupt
        done.append(cell)
        return {"value": 1.0}

    experiment = Experiment(
        name="tiny",
        title="Tiny",
        protocol="Nothing.",
        cells=lambda options: [("a",), ("b",)],
        measure=measure,
        table=lambda results: markdown_table(
            ["cell", "value"],
            [[cell[0], record["value"]] for cell, record in results.records.items()],
        ),
    )
    with pytest.raises(KeyboardInterrupt):
        reproduce(experiment, Options(), tmp_path, Progress())
    table = reproduce(experiment, Options(), tmp_path, Progress())
    assert done == [("a",), ("b",), ("b",)]
    assert "| b | 1.000 |" in table.read_text("utf-8")


def test_quick_records_are_not_taken_for_full_ones(tmp_path):
    sizes = []

    def measure(cell, options):
        sizes.append(options.size(100, 1))
        return {}

    experiment = Experiment(
        "tiny", "Tiny", "Nothing.", lambda options: [("a",)], measure, lambda results: ""
    )
    reproduce(experiment, Options(quick=True), tmp_path, Progress())
    reproduce(experiment, Options(), tmp_path, Progress())
    assert sizes == [1, 100]
