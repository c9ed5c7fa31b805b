"""Columns that number the rows instead of measuring them: saved indices and identifiers.

Such a column is recognized by the fact that no value occurs twice. If k whole numbers were drawn
from a range of s, some k²/2s pairs of them would be equal, and more if some values are likelier
than others. Where ten or more are expected and there is none, chance has a probability below e⁻¹⁰;
with fewer than 20 rows there are never so many. The sketch holds distinct rows only, so its values
may also differ because copies were put together: then it has fewer rows than the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["Numbering", "row_numbers"]

_EXPECTED_PAIRS = 10.0
# Beyond it, numbers are sparse enough for something that was measured.
_WIDEST = 10.0
_LARGEST_WHOLE = 2.0**53
# The ends of a sample of k lie within this many k-ths of the ends of the whole; e⁻²⁰ says no.
_ENDS = 20.0


class Numbering(NamedTuple):
    """A column with a whole number of its own for every row."""

    column: int
    low: int
    high: int
    counts_rows: bool


def row_numbers(
    rows: Float[np.ndarray, "k d"], weights: Float[np.ndarray, " k"], n_rows: int
) -> list[Numbering]:
    """Columns that number the rows of a table of `n_rows`, of which distinct ones are given."""
    n_given = len(rows)
    if n_given < n_rows and np.ptp(weights) > 0:
        return []
    # The ends are known to within this share of the range.
    margin = 0.0 if n_given >= n_rows else min(1.0, _ENDS / n_given)
    found = []
    for column, values in enumerate(rows.T):
        low, high = float(values.min()), float(values.max())
        span = high - low + 1
        if max(-low, high) > _LARGEST_WHOLE or n_given**2 < 2 * _EXPECTED_PAIRS * span:
            continue
        if not n_rows * (1 - margin) <= span <= _WIDEST * n_rows:
            continue
        if (values != np.rint(values)).any() or len(np.unique(values)) < n_given:
            continue
        counts = span <= n_rows and 0 <= low <= 1 + margin * n_rows
        found.append(Numbering(column, int(low), int(high), bool(counts)))
    return found
