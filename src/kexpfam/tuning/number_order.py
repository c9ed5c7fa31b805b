"""An order for the numbers of a chain in which what follows from the others comes last.

Under the mixture alone every order gives the same density. A location and a tilt see the columns
before theirs only: a smooth function of other columns is found where these come first, and lost
where the function itself does. What a column j gains from columns S before it is guessed by the
evidence of a Gaussian process for what a linear regression leaves,

    G(j | S) = max_s −½ log(rᵀM⁻¹r / n) − (1/2n) log|M| + ½ log(rᵀr / n),     M = s K + (1 − s) I,

with normal scores of a few hundred rows, and an RBF kernel K of two length-scales. The column that
gains most from all others is the last one, of the rest that which gains most from these the last
but one, and so on, until nothing is gained; the others stay in the table's order. With fewer
columns before it a column hardly ever gains more, so that gains are computed again only for the
column that would be taken next. Numbers with masses stay before those with densities.

| symbol | name      | shape  |
|--------|-----------|--------|
| r      | residuals | (n,)   |
| K, M   | kernel, matrix | (n, n) |
| G      | gain      |        |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from kexpfam.threads import in_threads
from kexpfam.tuning.table_rows import TableRows, normal_scores
from kexpfam.unlocked import factored, solve_lower

__all__ = ["promising_order", "smooth_gain"]

# Rows that gains are guessed from, and fewer that show nothing.
_ROWS, _FEWEST_ROWS = 256, 40
# Length-scales, times the square root of the number of columns, and shares of the kernel.
_LENGTH_SCALES, _SHARES = (1.0, 2.0), (0.5, 0.9, 0.99)
# Nats a row: of the column that gains most, so that an order is tried, and of the others, so that
# they are moved.
_PROMISING, _LEAST_GAIN = 0.08, 0.02
_RIDGE = 1e-3


def promising_order(rows: TableRows) -> list[int] | None:
    """Places of the numbers in such an order; None if it is the table's or promises nothing.

    Rows of fold 0, which judge in the end, are not looked at.
    """
    places = np.flatnonzero(rows.folds > 0)[:_ROWS]
    if len(places) < _FEWEST_ROWS:
        return None
    shares = np.full(len(places), 1 / len(places))
    columns = [normal_scores(column, shares) for column in rows.numbers[places].T]
    scores = np.array(columns).reshape(len(columns), len(places)).T
    lattice = rows.layout.is_lattice
    first, last = np.flatnonzero(lattice).tolist(), np.flatnonzero(~lattice).tolist()
    order = [*_most_gaining_last(scores, [], first), *_most_gaining_last(scores, first, last)]
    return None if order == [*first, *last] else order


def _most_gaining_last(
    scores: Float[np.ndarray, "n m"], before: list[int], columns: list[int]
) -> list[int]:
    """These columns, with others before all of them, so that those that gain most come last."""

    def from_rest(column: int) -> float:
        return smooth_gain(scores, column, [*before, *(one for one in rest if one != column)])

    rest, last = list(columns), list[int]()
    if len(rest) < 2:
        return columns
    gains = dict(zip(rest, in_threads(from_rest, rest), strict=True))
    if max(gains.values()) < _PROMISING:
        return columns
    known = set(rest)
    while len(rest) > 1:
        column = max(rest, key=lambda one: gains[one])
        if gains[column] < _LEAST_GAIN:
            break
        if column not in known:
            gains[column] = from_rest(column)
            known.add(column)
            continue
        rest.remove(column)
        last.insert(0, column)
        known.clear()
    return [*rest, *last]


def smooth_gain(scores: Float[np.ndarray, "n m"], column: int, before: Sequence[int]) -> float:
    """Nats a row that a smooth function of some columns is worth beside a linear one."""
    if not before:
        return 0.0
    inputs, target = scores[:, list(before)], scores[:, column]
    n_rows = len(scores)
    plane = np.column_stack([np.ones(n_rows), inputs])
    ridge = _RIDGE * n_rows * np.eye(plane.shape[1])
    residuals = target - plane @ np.linalg.solve(plane.T @ plane + ridge, plane.T @ target)
    spread = float(residuals @ residuals)
    if spread == 0:
        return 0.0
    squares = (inputs**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * inputs @ inputs.T, 0)
    best = 0.0
    for length_scale in _LENGTH_SCALES:
        kernel = np.exp(-distances / (2 * length_scale**2 * len(before)))
        for share in _SHARES:
            matrix = np.asfortranarray(share * kernel)
            matrix[np.diag_indices(n_rows)] += 1 - share
            right = np.array(residuals[:, None], order="F")
            if factored(matrix):
                solve_lower(matrix, right)
                explained = np.log(spread / float((right**2).sum())) / 2
                best = max(best, explained - float(np.log(np.diag(matrix)).mean()))
    return best
