"""Rows of inputs with a target each: in units, distinct, in the order of their keys.

Copies of a row, inputs and target, are one row with the sum of their weights; a weight is the same
as a repetition, and the order in which rows came changes no last digit. Of more rows than a model
looks at one by one, a sample by their keys is kept (see `kexpfam.data.sketch`), and a source of all
of them for sums.

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

from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.data.sketch import InUnits, Sketching, row_keys, sketch_rows
from kexpfam.data.standardize import Standardizer, center_and_scale, sum_columns

__all__ = ["PairTable", "Pairs", "make_table", "with_target"]

# Rows that weigh less, in units of the mean weight, are as good as unseen; the noise of a row
# without any weight would not be a number.
_LIGHTEST = 1e-30


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
        typical = self.weights.mean()
        return typical / np.maximum(self.weights, _LIGHTEST * typical)


class PairTable(NamedTuple):
    """Units of the inputs, some or all of the rows, and a source of all of them.

    The source's rows are inputs in units with the target, in its own, as their last column. `low`
    and `high` are the smallest and largest target of all.
    """

    standardizer: Standardizer
    rows: Pairs
    source: RowSource
    low: float
    high: float


def make_table(source: RowSource, seed: int, size: int) -> PairTable:
    """Up to `size` rows, all of them if there are no more; two passes over those of a stream."""
    if isinstance(source, ArrayRows) and source.n_rows <= size:
        return _whole_table(source.table(), np.asarray(source.weights), seed)
    sums = sum_columns(source)
    if sums.n_rows == 0:
        raise ValueError("Expected rows of positive weight; got none.")
    scale = np.sqrt(sums.squares / sums.weight)
    spread = _units(sums.mean * sums.magnitude, scale * sums.magnitude)
    sketching = Sketching(spread, seed, size)
    sketch = source.total(sketching, sketching.combine, "sketch")
    if len(sketch.rows) < size:
        return _whole_table(sketch.rows, sketch.weights, seed)
    standardizer = Standardizer(spread.center[:-1], spread.scale[:-1])
    inputs = standardizer.forward(sketch.rows[:, :-1])
    rows = Pairs(inputs, sketch.rows[:, -1], sketch.weights, sketch.keys)
    in_units = source.mapped(InUnits(with_target(standardizer)))
    return PairTable(standardizer, rows, in_units, float(sketch.low[-1]), float(sketch.high[-1]))


def with_target(standardizer: Standardizer) -> Standardizer:
    """Units of inputs and target, where the target keeps its own."""
    return Standardizer(np.append(standardizer.center, 0.0), np.append(standardizer.scale, 1.0))


def _units(center: Float[np.ndarray, " e"], scale: Float[np.ndarray, " e"]) -> Standardizer:
    """A column that is constant has the unit one."""
    varies = scale > 1e-12 * np.abs(center)
    return Standardizer(center, np.where(varies, scale, 1.0))


def _whole_table(
    table: Float[np.ndarray, "n e"], weights: Float[np.ndarray, " n"], seed: int
) -> PairTable:
    """Units from all rows; copies of a row become one with their weights' sum."""
    kept = weights > 0
    table, weights = table[kept], weights[kept]
    # Sorted before anything is summed, so that the order of the rows changes no last digit.
    order = np.lexsort(table.T)
    table, weights = table[order], weights[order]
    first = np.append(True, (np.diff(table, axis=0) != 0).any(axis=1))
    totals = np.add.reduceat(weights, np.flatnonzero(first))
    table = table[first]
    spread = _units(*center_and_scale(table, totals))
    keys = row_keys(spread.forward(table), seed)
    sketch = sketch_rows(table, totals, keys, len(table))
    standardizer = Standardizer(spread.center[:-1], spread.scale[:-1])
    inputs = standardizer.forward(sketch.rows[:, :-1])
    rows = Pairs(inputs, sketch.rows[:, -1], sketch.weights, sketch.keys)
    source = ArrayRows(inputs, rows.weights, target=rows.y)
    return PairTable(standardizer, rows, source, float(rows.y.min()), float(rows.y.max()))
