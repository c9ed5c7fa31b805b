"""Columns whose values repeat: counts, grades, and measurements written with few digits.

A column of repeated values has no density. What is meant is the probability of a cell around each
value, and that a density has once the values are spread evenly over their cells (uniform
dequantization). A column is *tied* where fewer than half of its values in distinct rows are
distinct; its cells are as wide as the median gap between neighboring values. The spread of a row
follows from its key, so it does not depend on order or blocks.

| symbol | name  | shape |
|--------|-------|-------|
|        | gaps  | (d,)  |
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt64

from kexpfam.data.sketch import uniform_numbers

__all__ = ["spread_ties", "tied_gaps"]

_DISTINCT_SHARE = 0.5
# With so few rows, repeated values say little.
_FEWEST_ROWS = 20
_SALT = 0x7165


def tied_gaps(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """The median gap between values of each tied column, from distinct rows; zero elsewhere."""
    gaps = np.zeros(rows.shape[1])
    if len(rows) < _FEWEST_ROWS:
        return gaps
    for number, column in enumerate(rows.T):
        values = np.unique(column)
        if len(values) < _DISTINCT_SHARE * len(column):
            gaps[number] = np.median(np.diff(values))
    return gaps


def spread_ties(
    rows: Float[np.ndarray, "n d"], keys: UInt64[np.ndarray, " n"], gaps: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n d"]:
    """Values of tied columns moved evenly within their cells."""
    if not gaps.any():
        return rows
    moves = np.zeros_like(rows)
    for number in np.flatnonzero(gaps):
        moves[:, number] = gaps[number] * (uniform_numbers(keys, _SALT + int(number)) - 0.5)
    return rows + moves
