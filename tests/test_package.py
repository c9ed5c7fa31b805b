"""What is packed for others, and what the command line does not keep in memory."""

from __future__ import annotations

import re
import sys
import tomllib
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kexpfam import KernelChain, KernelExponentialFamily
from kexpfam.cli import main, sampling


def test_the_source_distribution_has_what_it_names_and_nothing_else():
    """A pattern without its slash is found in every folder: README.md in experiments/, too."""
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(pattern.startswith("/") for pattern in included)
    assert not any("experiments" in pattern for pattern in included)


def test_draws_are_written_piece_by_piece(tmp_path, monkeypatch):
    """So that memory does not grow with their number."""
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["east", "north"])
    KernelChain(random_state=0).fit(rows).save(tmp_path / "model")
    asked, sample = [], KernelChain.sample

    def counted(self, n_samples, *args, **kwargs):
        asked.append(n_samples)
        return sample(self, n_samples, *args, **kwargs)

    monkeypatch.setattr(KernelChain, "sample", counted)
    monkeypatch.setattr(sampling, "_PIECE", 10)
    out = tmp_path / "draws.csv"
    words = ["sample", str(tmp_path / "model"), "-n", "25", "-o", str(out), "--quiet"]
    monkeypatch.setattr(sys, "argv", ["kexpfam", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    assert asked == [10, 10, 5]
    assert len(pd.read_csv(out).drop_duplicates()) == 25


def test_blocks_of_an_iterator_are_let_go():
    generator, alive, most = np.random.default_rng(0), weakref.WeakSet(), []

    class Block(np.ndarray):
        """An array that a set can hold weakly."""

        __hash__ = object.__hash__

    def blocks():
        for _ in range(8):
            block = generator.normal(size=(500, 2)).view(Block)
            alive.add(block)
            most.append(len(alive))
            yield block

    model = KernelExponentialFamily(
        n_components=8, penalty=0.1, noise_scale=0.2, length_scale=1.0, gate=False, base="gaussian"
    )
    model.fit(blocks())
    # The one that is being made, the one before it, and one on its way to the disk.
    assert len(most) == 8
    assert max(most) <= 3


def test_every_promise_names_tests_that_exist():
    page = Path(__file__).parents[1].joinpath("docs", "promises.md").read_text("utf-8")
    promises = [line for line in page.splitlines() if re.match(r"\| (?!promise)", line)]
    assert promises
    for promise in promises:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", promise)
        assert named, promise
        for file, name in named:
            content = Path(__file__).parent.joinpath(file).read_text("utf-8")
            assert f"def {name}(" in content, f"{file} has no {name}"


def test_every_stage_of_the_path_is_tested_by_itself():
    """The numbered folders of the drawing in ARCHITECTURE.md."""
    root = Path(__file__).parents[1]
    drawing = root.joinpath("ARCHITECTURE.md").read_text("utf-8").split("```")[1]
    stages = re.findall(r"^ *\d+  (\w+)/", drawing, re.MULTILINE)
    assert len(stages) == 10
    for stage in stages:
        assert list(root.joinpath("src/kexpfam", stage).glob("*.py"))
        assert list(root.joinpath("tests/stages", stage).glob("test_*.py")), stage
