"""Rows of inputs with a target each: in units, distinct, in the order of their keys.

Copies of a row, inputs and target, are one row with the sum of their weights; a weight is the same
as a repetition, and the order in which rows came changes no last digit.

| name    | shape  | meaning                                   |
|---------|--------|-------------------------------------------|
| inputs  | (n, d) | standardized                              |
| y       | (n,)   | targets, in their own units               |
| weights | (n,)   | summed over copies                        |
| keys    | (n,)   | ascending, of inputs and target           |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt64

from kexpfam.data.sketch import row_keys, sketch_rows
from kexpfam.data.standardize import Standardizer

__all__ = ["Pairs", "make_pairs"]


class Pairs(NamedTuple):
    """Inputs and targets of distinct rows."""

    inputs: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    keys: UInt64[np.ndarray, " n"]

    def where(self, chosen: Bool[np.ndarray, " n"] | slice) -> Pairs:
        """Some of the rows."""
        return Pairs(*(part[chosen] for part in self))

    @property
    def relative(self) -> Float[np.ndarray, " n"]:
        """The noise of each row relative to the others: a heavier row counts as a surer one."""
        return self.weights.mean() / self.weights


def make_pairs(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    seed: int,
) -> tuple[Standardizer, Pairs]:
    """Units from all rows; copies of a row become one with their weights' sum."""
    table = np.column_stack([X, y])
    kept = weights > 0
    table, weights = table[kept], weights[kept]
    # Sorted before anything is summed, so that the order of the rows changes no last digit.
    order = np.lexsort(table.T)
    table, weights = table[order], weights[order]
    first = np.append(True, (np.diff(table, axis=0) != 0).any(axis=1))
    totals = np.add.reduceat(weights, np.flatnonzero(first))
    table = table[first]
    center = np.average(table, axis=0, weights=totals)
    scale = np.sqrt(np.average((table - center) ** 2, axis=0, weights=totals))
    scale[~(scale > 1e-12 * np.abs(center))] = 1.0
    keys = row_keys((table - center) / scale, seed)
    sketch = sketch_rows(table, totals, keys, len(table))
    standardizer = Standardizer(center[:-1], scale[:-1])
    inputs = standardizer.forward(sketch.rows[:, :-1])
    return standardizer, Pairs(inputs, sketch.rows[:, -1], sketch.weights, sketch.keys)
