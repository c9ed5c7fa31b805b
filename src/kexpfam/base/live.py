"""Conditionals of a large mixture along its columns, with the components that matter in each row.

Column after column, the components of a row are compared by their log weights so far; those that
are more than 30 nats below the best are dropped, unless they are within 30 nats of the best at the
whole row. With k components and w columns the log density of a row is therefore too small by at
most

    (w + 1) k e⁻³⁰,

and the density of each column, given the ones before, is normalized to k e⁻³⁰. The components that
matter at the whole row are found by one matrix product in single precision, with its monomials.

| symbol | name       | shape  |
|--------|------------|--------|
|        | components | (n, j), the components of each row that are left |
|        | logs       | (n, j), log weights so far                       |
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.monomial_tables import monomials
from kexpfam.base.ordered import Column, Factors, Walked, walk, walk_to_last

__all__ = ["walk_live", "walk_live_to"]

_FAR_BELOW = 30.0
# Components are dropped once so many of them can be.
_WORTH_DROPPING = 0.7
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


def walk_live(factors: Factors, rows: Float[np.ndarray, "n w"]) -> Walked:
    """Residuals, weights and log densities of all columns."""
    if factors.polynomials is None:
        return walk(factors, rows)
    n_columns = len(factors.deviations)
    kept = _live_at_last(factors.polynomials, rows)
    components: Int[np.ndarray, "n j"] | None = None
    logs = np.repeat(factors.log_weights[None], len(rows), axis=0)
    columns, log_density = [], np.empty((len(rows), n_columns))
    for column in range(n_columns):
        if column > 0:
            live = logs > logs.max(axis=1, keepdims=True) - _FAR_BELOW
            live |= kept
            most = int(live.sum(axis=1).max())
            if most < _WORTH_DROPPING * live.shape[1]:
                places, there = _packed(live, most)
                components = places if components is None else _taken(components, places)
                logs = np.where(there, _taken(logs, places), -np.inf)
                kept = there & _taken(kept, places)
        turns, before = factors.turns[: column + 1, column], rows[:, : column + 1]
        shifts, deviations = factors.shifts[column], factors.deviations[column]
        if components is None:
            residuals = before @ turns
        else:
            residuals = np.einsum("ni,inj->nj", before, turns[:, components])
            shifts, deviations = shifts[components], deviations[components]
        residuals -= shifts
        columns.append(Column(logs, residuals, deviations))
        after = residuals * residuals
        after *= -0.5
        after -= np.log(deviations) + _HALF_LOG_TWO_PI
        after += logs
        top = after.max(axis=1, keepdims=True)
        step = top + np.log(np.exp(after - top).sum(axis=1, keepdims=True))
        log_density[:, column] = step[:, 0]
        logs = np.subtract(after, step, out=after)
    return Walked(tuple(columns), log_density)


def walk_live_to(factors: Factors, rows: Float[np.ndarray, "n w"], place: int) -> Column:
    """One column; of few components the factors must be those of the columns up to it."""
    if factors.polynomials is None:
        return walk_to_last(factors, rows)
    return walk_live(factors, rows).columns[place]


def _packed(
    live: Bool[np.ndarray, "n k"], most: int
) -> tuple[Int[np.ndarray, "n j"], Bool[np.ndarray, "n j"]]:
    """Places of what is live in each row, and which of them are no padding."""
    rows, places = np.nonzero(live)
    counts = live.sum(axis=1)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    packed = np.zeros((len(live), most), np.int64)
    packed[rows, within] = places
    return packed, np.arange(most) < counts[:, None]


def _taken(values: np.ndarray, places: Int[np.ndarray, "n j"]) -> np.ndarray:
    return np.take_along_axis(values, places, axis=1)


def _live_at_last(
    polynomials: Float[np.ndarray, "p k"], rows: Float[np.ndarray, "n w"]
) -> Bool[np.ndarray, "n k"]:
    """Components within 30 nats of the best at the whole row."""
    logs = monomials(rows) @ polynomials
    return logs > logs.max(axis=1, keepdims=True) - np.float32(_FAR_BELOW)
