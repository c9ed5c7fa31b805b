"""Every Python block of the README and of the pages runs; the repository says one thing once."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import kexpfam

ROOT = Path(__file__).parents[1]
NOT_EXECUTED = r"<!-- not executed: [^>]+ -->\n+"
BLOCK = re.compile(rf"({NOT_EXECUTED})?```python\n(.*?)```", flags=re.DOTALL)


def blocks(page: Path) -> list[str]:
    """The Python blocks of a page, less those that say why they cannot run here."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [code for excuse, code in found if not excuse]


README = blocks(ROOT / "README.md")
PAGES = {
    str(page.relative_to(ROOT)): blocks(page)
    for folder in ("docs", "docs/how_to")
    for page in sorted((ROOT / folder).glob("*.md"))
}

# Figures that pages quote from committed results: measured anew, they must be quoted anew.
QUOTED = {
    "docs/how_to/anomalies.md": {
        "benchmarks/results/anomalies.md": ["81.1", "88.4", "65.1", "86.0", "87.2", "85.4", "82.1"],
    },
    "docs/how_to/drift.md": {
        "benchmarks/results/compare.md": [
            *("0.84", "0.96", "0.53", "0.46", "0.88", "0.94", "0.66", "0.33"),
            *("0.035", "0.050", "0.055", "0.495", "0.052", "0.051"),
        ],
    },
    "docs/choosing.md": {
        "docs/benchmarks.md": ["1.3 ", "1.6 "],
        "benchmarks/results/flows.md": ["-4.15", "-2.95", "-3.01"],
        "benchmarks/results/tables.md": [
            *("-9.09", "-9.14", "-10.93", "-10.07", "-12.68", "-14.15", "-14.33", "-4.17", "-3.48"),
        ],
        "experiments/results/table_1.md": ["-12.67", "-11.73", "-13.47", "-12.00"],
        "experiments/results/comparison.md": ["3.7", "2.7", "7.8", "14.0", "48.3", "24.7"],
        "experiments/results/known_densities.md": [
            "-3.027",
            "-3.064",
            "-2.901",
            "-4.724",
            "-4.715",
        ],
    },
}


def test_there_are_blocks():
    assert README
    assert PAGES["docs/quick_start.md"]


@pytest.mark.parametrize("block", README)
def test_readme_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("page", [page for page, found in PAGES.items() if found])
def test_pages_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(PAGES[page], start=1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)


@pytest.mark.parametrize(
    ("page", "source"), [(page, source) for page, found in QUOTED.items() for source in found]
)
def test_quoted_figures_are_those_of_the_results(page, source):
    said, measured = ((ROOT / name).read_text(encoding="utf-8") for name in (page, source))
    for figure in QUOTED[page][source]:
        assert figure.replace("-", "−") in said, f"{page} does not quote {figure}"
        assert figure in measured, f"{figure} of {page} is not in {source}"


def test_the_page_of_benchmarks_is_that_of_the_results():
    written = runpy.run_path(str(ROOT / "benchmarks" / "page.py"))["page"]()
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == written, "run python benchmarks/page.py"


def test_the_version_is_the_same_everywhere():
    assert f"version: {kexpfam.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {kexpfam.__version__}" in (ROOT / "CHANGELOG.md").read_text()
