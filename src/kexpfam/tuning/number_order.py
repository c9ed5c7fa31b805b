"""An order for the numbers of a chain in which what follows from the others comes last.

Under the mixture alone every order gives the same density. A location and a tilt see the columns
before theirs only: a smooth function of other columns is found where these come first, and lost
where the function itself does. What a column j gains from columns S before it is guessed by the
evidence of a Gaussian process for what a linear regression leaves,

    G(j | S) = max_s −½ log(rᵀM⁻¹r / n) − (1/2n) log|M| + ½ log(rᵀr / n),     M = s K + (1 − s) I,

with normal scores of a few hundred rows. Kernels K are, with k(x, x′) = exp(−|x − x′|²/2ℓ²) and a
few length-scales ℓ,

    k(x_S, x′_S),    Σ_i k(x_i, x′_i) / |S|,    Σ_{i<j} k(x_i, x′_i) k(x_j, x′_j) / (|S| choose 2):

of all columns together, or additive (Duvenaud, Nickisch and Rasmussen 2011), which see a function
of one or two of many columns that turns too fast for the first. The sum over pairs is found from
those of kernels and of their squares.

The column that gains most from all others is the last one, of the rest that which gains most from
these the last but one, and so on, until nothing is gained; the others stay in the table's order.
With fewer columns before it a column hardly ever gains more, so that gains are computed again only
for the column that would be taken next. Numbers with masses stay before those with densities.

| symbol | name      | shape  |
|--------|-----------|--------|
| r      | residuals | (n,)   |
| k      | parts     | (l, n, n), for each length-scale |
| K, M   | kernel, matrix | (n, n) |
| G      | gain      |        |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.threads import in_threads
from kexpfam.tuning.table_rows import TableRows, normal_scores
from kexpfam.unlocked import factored, solve_lower

__all__ = ["promising_order", "smooth_gain"]

# Rows that gains are guessed from, and fewer that show nothing.
_ROWS, _FEWEST_ROWS = 256, 40
# Length-scales of all columns together, times the square root of their number; those of additive
# kernels; and shares of the kernel.
_LENGTH_SCALES, _SHARES = (0.25, 0.5, 1.0, 2.0), (0.5, 0.9, 0.99, 0.999)
_PART_LENGTH_SCALES = np.array([0.15, 0.3, 0.6])
# Nats a row: of the column that gains most, so that an order is tried, and of the others, so that
# they are moved. Chosen on simulated tables of functions of one to three of up to eight columns;
# the first also by how often orders are then tried on real ones, which takes time.
_PROMISING, _LEAST_GAIN = 0.08, 0.04
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
        others = [*before, *(one for one in rest if one != column)]
        return _gain(scores, column, others, parts.without(scores[:, column]))

    rest, last = list(columns), list[int]()
    if len(rest) < 2:
        return columns
    parts = _Parts.of(scores[:, [*before, *rest]])
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
        parts = parts.without(scores[:, column])
        last.insert(0, column)
        known.clear()
    return [*rest, *last]


class _Parts(NamedTuple):
    """Sums over columns of kernels of each, and of their squares, for every length-scale."""

    sums: Float[np.ndarray, "l n n"]
    squares: Float[np.ndarray, "l n n"]
    n_columns: int

    @classmethod
    def of(cls, scores: Float[np.ndarray, "n m"]) -> _Parts:
        sums, squares = np.zeros((2, len(_PART_LENGTH_SCALES), len(scores), len(scores)))
        for column in scores.T:
            part = _part(column)
            sums += part
            squares += part**2
        return cls(sums, squares, scores.shape[1])

    def without(self, column: Float[np.ndarray, " n"]) -> _Parts:
        """Without one of the columns."""
        part = _part(column)
        return _Parts(self.sums - part, self.squares - part**2, self.n_columns - 1)

    def kernels(self) -> Iterator[Float[np.ndarray, "n n"]]:
        """Additive kernels, of single columns and of pairs."""
        for sums, squares in zip(self.sums, self.squares, strict=True):
            yield sums / self.n_columns
            if self.n_columns > 1:
                yield (sums**2 - squares) / (self.n_columns * (self.n_columns - 1))


def _part(column: Float[np.ndarray, " n"]) -> Float[np.ndarray, "l n n"]:
    distances = (column[:, None] - column) ** 2
    return np.exp(-0.5 * distances / _PART_LENGTH_SCALES[:, None, None] ** 2)


def smooth_gain(scores: Float[np.ndarray, "n m"], column: int, before: Sequence[int]) -> float:
    """Nats a row that a smooth function of some columns is worth beside a linear one."""
    return _gain(scores, column, before, _Parts.of(scores[:, list(before)]))


def _gain(
    scores: Float[np.ndarray, "n m"], column: int, before: Sequence[int], parts: _Parts
) -> float:
    """The same with the additive kernels of these columns."""
    if not before:
        return 0.0
    inputs, target = scores[:, list(before)], scores[:, column]
    plane = np.column_stack([np.ones(len(scores)), inputs])
    ridge = _RIDGE * len(scores) * np.eye(plane.shape[1])
    residuals = target - plane @ np.linalg.solve(plane.T @ plane + ridge, plane.T @ target)
    spread = float(residuals @ residuals)
    if spread == 0:
        return 0.0
    squares = (inputs**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * inputs @ inputs.T, 0)
    together = (np.exp(-distances / (2 * one**2 * len(before))) for one in _LENGTH_SCALES)
    unit = residuals / np.sqrt(spread)
    return max(_explained(kernel, unit) for kernel in (*together, *parts.kernels()))


def _explained(kernel: Float[np.ndarray, "n n"], residuals: Float[np.ndarray, " n"]) -> float:
    """What a kernel gains for residuals with a sum of squares of one, with the best of the shares.

    They ascend, as long as the gain does.
    """
    best = 0.0
    for share in _SHARES:
        matrix = np.asfortranarray(share * kernel)
        matrix[np.diag_indices(len(matrix))] += 1 - share
        right = np.array(residuals[:, None], order="F")
        if not factored(matrix):
            break
        solve_lower(matrix, right)
        gain = -float(np.log((right**2).sum()) / 2 + np.log(np.diag(matrix)).mean())
        if gain <= best:
            break
        best = gain
    return best
