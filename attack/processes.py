"""Fits that are killed at any moment, and begun again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import kexpfam
from attack.cases import REFUSED, RIGHT, FaultError, Kind, rows_of_two_humps

__all__ = ["KilledFits"]

_SMALL = ["--n-components", "16", "--quiet", "--seed", "0"]
_COMMANDS = {
    "family": [*_SMALL, "--estimator", "family", "--tuning", "folds", "--checkpoint", "progress"],
    "diffusion": [*_SMALL, "--estimator", "diffusion", "--levels", "3", "--checkpoint", "progress"],
    "conditional": [*_SMALL, "--target", "north"],
    "chain": ["--quiet", "--seed", "0"],
}


class KilledFits(Kind):
    """`kexpfam fit`, killed: no model or the whole one, and the same one when begun again."""

    name = "killed fits"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rows = rows_of_two_humps(300, 5)
        lines = ["east,north", *(f"{one!r},{other!r}" for one, other in rows.tolist())]
        (folder / "rows.csv").write_text("\n".join(lines) + "\n", "utf-8")
        self.rows = rows[:5]
        self.expected: dict[str, tuple[float, np.ndarray]] = {}

    def case(self, generator: np.random.Generator) -> str:
        name = str(generator.choice(list(_COMMANDS)))
        if name not in self.expected:
            begun = time.monotonic()
            self._fitted(name)
            self.expected[name] = time.monotonic() - begun, self._predictions(name)
        seconds, expected = self.expected[name]
        process = self._started(name)
        # Most of the time passes before the first row is read.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds * float(generator.uniform(0.3, 1.0)))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        there = (self.folder / "model").exists()
        if there:
            self._compare(name, expected)
        self._fitted(name)
        self._compare(name, expected)
        left = {path.name for path in self.folder.iterdir()} - {"rows.csv"}
        if left:
            raise FaultError(f"{name}: {sorted(left)} was left behind")
        return RIGHT if there else REFUSED

    def _started(self, name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kexpfam", "fit", "rows.csv", "-o", "model", "--force"]
        return subprocess.Popen(
            [*command, *_COMMANDS[name]],
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _fitted(self, name: str) -> None:
        process = self._started(name)
        _, said = process.communicate()
        if process.returncode:
            raise FaultError(f"{name} ended with {process.returncode}: {said[-500:]}")

    def _predictions(self, name: str) -> np.ndarray:
        model = kexpfam.load(self.folder / "model")
        (self.folder / "model").unlink()
        given = (self.rows[:, :1], self.rows[:, 1]) if name == "conditional" else (self.rows,)
        return np.asarray(model.score_samples(*given))

    def _compare(self, name: str, expected: np.ndarray) -> None:
        if not np.array_equal(self._predictions(name), expected):
            raise FaultError(f"{name}: another model after a fit was killed")
