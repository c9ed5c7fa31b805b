"""Every example runs as a script, without a warning, and draws its picture."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = sorted(Path(__file__).parents[1].joinpath("examples").glob("*.py"))
# What is repeated for the sake of figures is repeated less here.
FEWER = {
    "anomaly_detection": ("range(5)", "range(1)"),
    "simulator_check": ("n_repeats = [0.01, 0.02, 0.05, 0.1], 20", "n_repeats = [0.01, 0.1], 2"),
}


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    code = example.read_text(encoding="utf-8")
    many, few = FEWER.get(example.stem, ("", ""))
    assert many in code
    variables = {"__name__": "__main__"}
    try:
        exec(compile(code.replace(many, few), str(example), "exec"), variables)
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        assert [figure for figure in figures if figure.axes and figure.axes[0].has_data()]
    finally:
        pyplot.close("all")
    assert capsys.readouterr().out.strip()
    assert variables["__doc__"].strip().splitlines()[1].startswith("===")
