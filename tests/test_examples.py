"""Every example runs as a script, without a warning, and draws its picture."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted(Path(__file__).parents[1].joinpath("examples").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    try:
        variables = runpy.run_path(str(example), run_name="__main__")
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        assert [figure for figure in figures if figure.axes and figure.axes[0].has_data()]
    finally:
        pyplot.close("all")
    assert capsys.readouterr().out.strip()
    assert variables["__doc__"].strip().splitlines()[1].startswith("===")
