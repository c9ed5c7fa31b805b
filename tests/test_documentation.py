"""Every Python block of the README runs, and the repository says one thing once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kexpfam

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_there_are_blocks():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_blocks_run(block):
    exec(compile(block, "README.md", "exec"), {})


def test_the_version_is_the_same_everywhere():
    assert f"version: {kexpfam.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {kexpfam.__version__}" in (ROOT / "CHANGELOG.md").read_text()
