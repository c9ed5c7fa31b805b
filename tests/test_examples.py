"""Every example runs as a script, without a warning, and draws its picture."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = sorted(Path(__file__).parents[1].joinpath("examples").glob("*.py"))
# What is repeated or drawn for the sake of figures is less here. Models have one shape: what is
# compiled for an example serves the others.
FEWER = {
    "anomaly_detection": [("range(5)", "range(1)")],
    "compare_tables": [("week(600", "week(90"), ("week(450", "week(80")],
    "conditional_density": [("draw(1500", "draw(300"), ("n_components=256", "n_components=32")],
    "density_ratio": [("1000", "300"), ("n_components=128", "n_components=32")],
    "hamiltonian_sampling": [("400, seed", "200, seed"), ("n_components=128", "n_components=32")],
    "impute_missing": [("n_draws = 20", "n_draws = 2")],
    "prediction_intervals": [("tables(400", "tables(150"), ("tables(2000", "tables(300")],
    "quick_start": [("sample(800", "sample(300"), ("n_components=256", "n_components=32")],
    "simulator_check": [
        ("n_repeats = [0.01, 0.02, 0.05, 0.1], 20", "n_repeats = [0.01, 0.1], 2"),
        ("n_rows=2000", "n_rows=300"),
        ("n_components=128", "n_components=32"),
    ],
}


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    code = example.read_text(encoding="utf-8")
    for many, few in FEWER.get(example.stem, []):
        assert many in code
        code = code.replace(many, few)
    variables = {"__name__": "__main__"}
    try:
        exec(compile(code, str(example), "exec"), variables)
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        assert [figure for figure in figures if figure.axes and figure.axes[0].has_data()]
    finally:
        pyplot.close("all")
    assert capsys.readouterr().out.strip()
    assert variables["__doc__"].strip().splitlines()[1].startswith("===")
