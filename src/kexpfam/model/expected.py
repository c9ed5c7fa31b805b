"""Which column of an unusual row is responsible, and which values were expected there.

Every value of a row is compared with what could stand there given all its other values:

    numbers      p(t | rest) on a grid (`kexpfam.model.surprise`): of a chain, the conditional of
                 its mixture times what regressions and tilts add, log p − log p without them
    categories   p(c | rest) ∝ p(c and the other categories) p(numbers | categories)

The surprise of a value is −log of the probability of one that is no likelier, and the column with
the largest is responsible. What was to be expected is the central interval of a number, and the
likeliest level of a category with its probability. An atom is compared with the other atoms and
with all other numbers together, as a category is.

| name     | shape  | meaning                                                            |
|----------|--------|--------------------------------------------------------------------|
| columns  | (n,)   | the responsible column                                             |
| surprise | (n, d) | of every value; zero where it is missing                           |
| low      | (n,)   | lower end of what was expected, as a number of the density         |
| high     | (n,)   | upper end; of a category both are the likeliest level              |
| share    | (n,)   | the probability of the interval, or of the level                   |
| alone    | (n,)   | whether the value was compared with its column by itself           |
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr

from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.ordered import patterns_of
from kexpfam.data.layout import Layout, Parts
from kexpfam.logarithms import log_sum_exp
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import NumberTerm
from kexpfam.model.pooled import mixture_rows
from kexpfam.model.surprise import ColumnGrids, grids_of_mixture
from kexpfam.threads import one_blas_thread

__all__ = ["Expected", "expected_values"]

# Rows whose grids are in memory at the same time.
_ROWS = 32
# Levels of the quantiles at which a chain is looked at: bells may be a few times narrower than the
# mixture's conditionals.
_LEVELS = ndtr(np.linspace(-4, 4, 33))
# A probability below this is as good as none.
_LEAST = 1e-300


class Expected(NamedTuple):
    """The responsible column of each row, and what was to be expected there."""

    columns: Int[np.ndarray, " n"]
    surprise: Float[np.ndarray, "n d"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]
    alone: Bool[np.ndarray, " n"]


@one_blas_thread()
def expected_values(
    density: Any, codes: Float[np.ndarray, "n d"], coverage: float, impossible: float = np.inf
) -> Expected:
    """Under a density of a table, or of real numbers.

    `impossible` is the surprise of a value that has no probability: out of bounds, or a level that
    was never seen.
    """
    if isinstance(density, ChainDensity):
        surprise, ends, share = _of_chain(density, codes, coverage, impossible)
    else:
        grids = density.column_grids(codes)
        surprise, share = grids.surprise(), np.full(codes.shape, coverage)
        ends = np.stack([density.from_columns(end) for end in grids.interval(coverage)])
    columns = surprise.argmax(axis=1)
    places = np.arange(len(codes)), columns
    alone = np.zeros(len(codes), bool)
    return Expected(columns, surprise, ends[0][places], ends[1][places], share[places], alone)


def _of_chain(
    density: ChainDensity, codes: Float[np.ndarray, "n d"], coverage: float, impossible: float
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "two n d"], Float[np.ndarray, "n d"]]:
    """Surprise, both ends of what was expected, and its probability, of every value."""
    layout = density.layout
    known = _possible(layout, codes)
    parts = layout.split(known)
    surprise = np.zeros(codes.shape)
    ends = np.full((2, *codes.shape), np.nan)
    share = np.full(codes.shape, coverage)
    if density.mixture is not None and density.marginals is not None:
        numerics = list(layout.numerics)
        surprise[:, numerics], *found = _of_numbers(density, parts, coverage)
        ends[:, :, numerics] = found
    for place, column in enumerate(layout.categories):
        kind, own = layout.kinds[column], parts.codes[:, place]
        logs = _level_logs(density, parts, place)
        values, told = np.arange(logs.shape[1], dtype=float), np.ones(len(codes), bool)
        if not kind.is_category:
            # Where no atom is, the number has been compared with other numbers already.
            values, told = np.append(kind.atoms, np.nan), own < len(kind.atoms)
        ends[:, told, column] = values[logs.argmax(axis=1)[told]]
        share[told, column] = np.exp(logs.max(axis=1)[told])
        rows = np.flatnonzero(told & ~np.isnan(own))
        surprise[rows, column] = _surprise_of_levels(logs[rows], own[rows].astype(int))
    strange = np.isinf(codes) | (~np.isnan(codes) & (codes != known))
    surprise[strange] = impossible
    return surprise, ends, share


def _surprise_of_levels(
    logs: Float[np.ndarray, "n c"], own: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """−log of the probability of a level that is no likelier than the one there."""
    likely = logs[np.arange(len(own)), own]
    below = np.where(logs <= likely[:, None], np.exp(logs), 0.0).sum(axis=1)
    return -np.log(np.clip(below, _LEAST, 1.0))


def _possible(layout: Layout, codes: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The nearest values that have a probability; unknown levels are missing."""
    found = np.where(np.isinf(codes), np.nan, codes)
    low, high = layout.support
    for place, column in enumerate(layout.numerics):
        half = 0.5 * layout.kinds[column].is_discrete
        values = np.clip(found[:, column], low[place] + half, high[place] - half)
        found[:, column] = np.rint(values) if half else values
    return found


def _of_numbers(
    density: ChainDensity, parts: Parts, coverage: float
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Surprise and expected interval of all numbers, zero and NaN where they are missing."""
    assert density.mixture is not None
    assert density.marginals is not None
    rows, first = mixture_rows(density, parts)
    surprise = np.zeros(rows.shape)
    low, high = np.full(rows.shape, np.nan), np.full(rows.shape, np.nan)
    for there, members in patterns_of(~np.isnan(rows)):
        places = np.flatnonzero(there)
        if not len(places):
            continue
        mixture = GaussianMixtureDensity(
            density.mixture.weights,
            density.mixture.means[:, places],
            density.mixture.covariances[:, places][:, :, places],
        )
        for start in range(0, len(members), _ROWS):
            some = members[start : start + _ROWS]
            where = np.ix_(some, places)
            grids = grids_of_mixture(mixture, rows[where])
            grids = _as_in_chain(density, parts, some, grids, places - first)
            surprise[where] = grids.surprise()
            low[where], high[where] = grids.interval(coverage)
    gone = np.isnan(rows[:, first:])
    ends = [
        np.where(gone, np.nan, density.maps.backward(np.where(gone, 0.0, end[:, first:])))
        for end in (low, high)
    ]
    return surprise[:, first:], ends[0], ends[1]


def _as_in_chain(
    density: ChainDensity,
    parts: Parts,
    members: Int[np.ndarray, " n"],
    grids: ColumnGrids,
    numbers: Int[np.ndarray, " k"],
) -> ColumnGrids:
    """The mixture's conditionals with ends, regressions and tilts.

    `numbers` say which number each column of the grids is; those below zero are scores of
    categories, whose conditionals nobody asks for.
    """
    low, high = np.where(numbers >= 0, density.support[:, numbers], [[-np.inf], [np.inf]])
    if np.isfinite([low, high]).any():
        outside = (grids.nodes < low[:, None]) | (grids.nodes > high[:, None])
        grids = grids.tilted(np.where(outside, -np.inf, 0.0), np.zeros(grids.own.shape))
    if all(term.is_empty for term in density.number_terms):
        return grids
    own = Parts(*(part[members] for part in parts))
    levels = grids.quantiles(_LEVELS)
    tilt = np.zeros(levels.shape)
    for place in np.flatnonzero(numbers >= 0):
        moved = _moved(density, own, int(numbers[place]), levels[:, place])
        tilt[:, place] = _beside_mixture(density, moved).reshape(len(members), -1)
    own_tilt = np.where(numbers >= 0, _beside_mixture(density, own)[:, None], 0.0)
    return grids.tilted_between(levels, tilt, own_tilt)


def _moved(
    density: ChainDensity, parts: Parts, number: int, mapped: Float[np.ndarray, "n c"]
) -> Parts:
    """Every row so many times, with one of its numbers put to each of these places."""
    many = Parts(*(np.repeat(part, mapped.shape[1], axis=0) for part in parts))
    whole = np.zeros(many.numbers.shape)
    whole[:, number] = mapped.ravel()
    low, high = density.layout.support
    moved = many.numbers.copy()
    moved[:, number] = np.clip(density.maps.backward(whole)[:, number], low[number], high[number])
    return many._replace(numbers=moved)


def _beside_mixture(density: ChainDensity, parts: Parts) -> Float[np.ndarray, " n"]:
    """What regressions and tilts add to log p of the numbers."""
    alone = replace(density, number_terms=tuple(NumberTerm() for _ in density.number_terms))
    return density.terms(parts).numbers.sum(axis=1) - alone.terms(parts).numbers.sum(axis=1)


def _level_logs(density: ChainDensity, parts: Parts, place: int) -> Float[np.ndarray, "n c"]:
    """log p of all levels of a category given everything else in the row."""
    column, n_levels = density.layout.categories[place], density.layout.level_counts[place]
    numbers = parts.numbers.copy()
    if not density.layout.kinds[column].is_category:
        # A number beside atoms would give away that none of them is there.
        numbers[:, density.layout.numerics.index(column)] = np.nan
    logs = np.empty((len(numbers), n_levels))
    for level in range(n_levels):
        codes = parts.codes.copy()
        codes[:, place] = level
        moved = parts._replace(codes=codes, numbers=numbers)
        terms = density.terms(moved)
        logs[:, level] = terms.categories.sum(axis=1) + terms.numbers.sum(axis=1)
    return logs - log_sum_exp(logs, axis=1, keepdims=True)
