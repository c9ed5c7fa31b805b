"""Rows that the terms of a table's density are fitted to, and numbers that follow from content.

| name    | shape  | meaning                                        |
|---------|--------|------------------------------------------------|
| numbers | (n, m) | spread over their cells; NaN where missing     |
| keys    | (n,)   | hashes of the rows                             |
| gaps    | (m,)   | widths of cells of coarsely written columns    |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from kexpfam.base.ordered import normal_numbers
from kexpfam.data.layout import Layout, Parts
from kexpfam.data.sketch import uniform_numbers
from kexpfam.data.ties import spread_ties, tied_gaps

__all__ = ["TableRows", "cell_gaps", "normal_scores", "table_rows"]

_SALTS_PER_COPY = 10_000_000
_SALTS = {"cell": 11, "fill": 12, "score": 13, "choice": 14, "normal": 15, "place": 16, "hide": 17}


class TableRows(NamedTuple):
    """Rows to fit to, distinct and in the order of their keys."""

    layout: Layout
    parts: Parts
    numbers: Float[np.ndarray, "n m"]
    weights: Float[np.ndarray, " n"]
    keys: UInt64[np.ndarray, " n"]
    folds: Int[np.ndarray, " n"]

    def where(self, chosen: Int[np.ndarray, " j"]) -> TableRows:
        """Some of the rows."""
        own = (part[chosen] for part in (self.numbers, self.weights, self.keys, self.folds))
        return TableRows(self.layout, self.parts.where(chosen), *own)

    def in_order(self, order: Sequence[int]) -> TableRows:
        """The same with the layout's numbers in another order."""
        parts = self.parts._replace(numbers=self.parts.numbers[:, order])
        layout = self.layout.with_numbers_in(order)
        return self._replace(layout=layout, parts=parts, numbers=self.numbers[:, order])

    def uniform(
        self,
        purpose: str,
        number: int | Int[np.ndarray, "..."] = 0,
        copy: int | Int[np.ndarray, "..."] = 0,
    ) -> Float[np.ndarray, "... n"]:
        """Random numbers that follow from the rows' content."""
        return uniform_numbers(self.keys, _SALTS_PER_COPY * copy + 1000 * number + _SALTS[purpose])


def table_rows(
    layout: Layout,
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    keys: UInt64[np.ndarray, " n"],
    folds: Int[np.ndarray, " n"],
    gaps: Float[np.ndarray, " m"] | None = None,
) -> TableRows:
    """Values spread over their cells: of coarsely written columns for good, of whole numbers for
    the mixture alone. The cells of coarsely written columns are those of other rows, if given.
    """
    parts = layout.split(rows)
    lattice = layout.is_lattice
    numbers = parts.numbers.copy()
    gaps = cell_gaps(layout, rows) if gaps is None else gaps
    for place in np.flatnonzero(~lattice):
        there = ~np.isnan(numbers[:, place])
        own, gap = numbers[there, place][:, None], gaps[place : place + 1]
        numbers[there, place] = spread_ties(own, keys[there] + np.uint64(place), gap)[:, 0]
    low, high = layout.support
    numbers = np.clip(numbers, low, high)
    parts = parts._replace(numbers=np.where(lattice, parts.numbers, numbers))
    table = TableRows(layout, parts, numbers, weights, keys, folds)
    for place in np.flatnonzero(lattice):
        numbers[:, place] += table.uniform("cell", int(place)) - 0.5
    return table


def cell_gaps(layout: Layout, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " m"]:
    """Widths of the cells of coarsely written numbers; zero for all others."""
    numbers = layout.split(rows).numbers
    gaps = np.zeros(numbers.shape[1])
    for place in np.flatnonzero(~layout.is_lattice):
        own = numbers[~np.isnan(numbers[:, place]), place]
        gaps[place] = tied_gaps(own[:, None])[0]
    return gaps


def normal_scores(
    column: Float[np.ndarray, " n"], shares: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Normal quantiles of a column's ranks; zero where it is missing, which may be everywhere."""
    scores = np.zeros(len(column))
    order = np.argsort(column)[: int((~np.isnan(column)).sum())]
    if not len(order):
        return scores
    sums = np.cumsum(shares[order])
    scores[order] = normal_numbers((sums - shares[order] / 2) / sums[-1])
    return scores
