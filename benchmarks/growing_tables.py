"""Tables that can be made as long as wanted, block by block, for every estimator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["blocks", "conditional_block", "mixed_block", "number_block", "written"]

BLOCK = 50_000
# How the columns of numbers hang together.
_MIXING = np.random.default_rng(98).standard_normal((11, 11))


def number_block(n_rows: int, seed: int) -> pd.DataFrame:
    """Eleven numbers, two of which are thin and bent."""
    generator = np.random.default_rng(seed)
    rows = np.tanh(generator.standard_normal((n_rows, 11)) @ _MIXING / 2)
    rows += 0.15 * generator.standard_normal(rows.shape)
    rows[:, 3] = rows[:, 0] ** 2 + 0.1 * rows[:, 3]
    rows[:, 7] = np.sin(2 * rows[:, 1]) + 0.2 * rows[:, 7]
    return pd.DataFrame(rows, columns=[f"x{number}" for number in range(11)])


def conditional_block(n_rows: int, seed: int) -> pd.DataFrame:
    """Eight inputs and a target with two branches and a scale that changes."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n_rows, 8))
    center = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    side = np.where(generator.random(n_rows) < 0.5, 1.0, -1.0)
    noise = np.exp(0.5 * X[:, 3]) * generator.standard_normal(n_rows)
    frame = pd.DataFrame(X, columns=[f"x{number}" for number in range(8)])
    frame["y"] = center + side * (X[:, 4] > 0) + 0.2 * noise
    return frame


def mixed_block(n_rows: int, seed: int) -> pd.DataFrame:
    """Six numbers on folded curves with fine structure, and four columns that depend on them.

    Those are two categories, a count and a truth value; a tenth of three columns is missing.
    """
    generator = np.random.default_rng(seed)
    turn, height = generator.uniform(0, 4 * np.pi, n_rows), generator.uniform(-1, 1, n_rows)
    curves = np.stack([turn * np.cos(turn) / 6, turn * np.sin(turn) / 6, height], axis=1)
    mixed = np.random.default_rng(99).normal(size=(3, 3))
    numbers = np.concatenate([curves, np.sin(2 * curves @ mixed)], axis=1)
    numbers += 0.05 * generator.standard_normal(numbers.shape)
    frame = pd.DataFrame(numbers, columns=[f"x{number}" for number in range(6)])
    sector = (turn / np.pi + 0.3 * generator.standard_normal(n_rows)).astype(int) % 4
    frame["sector"] = np.array(["north", "east", "south", "west"])[sector]
    frame["level"] = np.where(height + 0.2 * generator.standard_normal(n_rows) > 0, "up", "down")
    frame["steps"] = generator.poisson(np.exp(1.0 + height))
    frame["far"] = turn + generator.standard_normal(n_rows) > 2 * np.pi
    for name in ("x1", "x4", "sector"):
        frame.loc[generator.random(n_rows) < 0.1, name] = None
    return frame


def blocks(make, n_rows: int) -> Iterator[pd.DataFrame]:
    """The table of so many rows, from its beginning: longer ones go on from shorter ones."""
    for number, start in enumerate(range(0, n_rows, BLOCK)):
        yield make(BLOCK, 100 + number)[: min(BLOCK, n_rows - start)]


def written(make, n_rows: int, folder: str) -> list[Path]:
    """The same, in Parquet files."""
    files = []
    for number, block in enumerate(blocks(make, n_rows)):
        files.append(Path(folder) / f"part{number}.parquet")
        block.to_parquet(files[-1])
    return files
