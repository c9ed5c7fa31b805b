"""Mixtures of incomplete rows: filled in many times, and judged by the values that are present
only.

Rows are filled in by draws from a Gaussian at first, whose correlations are shrunk as much as suits
other rows (`kexpfam.base.incomplete`), then in rounds by draws from the mixture fitted before
(Monte-Carlo expectation–maximization). One draw of a cell would be taken for knowledge: a table of
few rows is filled in several times, and its copies count as one table.

Size, shrinkage and pseudo-rows are chosen by the log densities of values that are present, in rows
of folds that had no part in anything: neither in the Gaussian, nor in its coordinates. Cells that
were filled in follow from the Gaussian that filled them, and would reward any mixture that repeats
it.

A mixture of few rows is too sure of itself, and most of all in these rows, which are those that
users want to have filled in. So some of their values are hidden, then others, and components made
wider until nine tenths of these values lie between the 5 % and 95 % quantiles that a mixture which
has not seen them, foresees given the others.

| symbol | name        | shape     | meaning                                       |
|--------|-------------|-----------|-----------------------------------------------|
| x      | rows        | (n, w)    | noisy scores and mapped numbers, NaN where missing |
|        | copies      | (c, n, w) | the same, filled in                           |
| μ, A   | shift, root | (w,), (w, w) | of the Gaussian, AAᵀ = Σ                   |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.average_search import (
    ENOUGH_JUDGES,
    LARGEST,
    Trial,
    best_average,
    held_until,
)
from kexpfam.base.averaged import (
    N_AVERAGED,
    STRONGEST,
    Average,
    AverageSearch,
    compared_starts,
    fit_average,
    refit_average,
)
from kexpfam.base.incomplete import IncompleteGaussian, incomplete_gaussian
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.monomial_tables import MonomialTable
from kexpfam.base.ordered import OrderedMixture, normal_numbers, surely_positive
from kexpfam.base.shrunk import mixture_path
from kexpfam.data.coordinates import root_of
from kexpfam.logarithms import log_sum_exp
from kexpfam.progress import Progress
from kexpfam.tuning.table_rows import TableRows

__all__ = [
    "Filled",
    "drawn_copies",
    "filled_in",
    "held_out_logs",
    "holed",
    "in_own_coordinates",
    "incomplete_search",
    "widening",
]

# Copies at most, and rows in all of them.
_MOST_COPIES, _COPIED_ROWS = 12, 12_000
# Pseudo-rows of mixtures, in multiples of the columns, are tried from many to few until they are
# worse by this many nats.
_PSEUDO_ROWS, _FALLEN_BEHIND = (64.0, 4.0, 0.25), 0.1
# Factors of the components' standard deviations, mixtures that they are tried with, the share of
# values that are hidden from these, and rows that judge.
_WIDENINGS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4)
_N_WIDENED, _HIDDEN, _WIDENING_JUDGES = 4, 0.15, 500
# So many shares are hidden one after the other, at most: few values would say little.
_MOST_HIDINGS = 6
# Of this many draws, those that are second from either end should cover such a share of values.
_QUANTILE_DRAWS, _COVERED = 39, 0.9
# Rounds of drawing what is missing by mixtures.
_ROUNDS = 3
# With more rows there are none, and nothing is widened.
_FEW_ROWS_PER_COLUMN = 100
# Rows of a fold that judge at most: every one has factors of its own.
_MOST_JUDGES = 1000


class Filled(NamedTuple):
    """Rows that were filled in, and mixtures of some of them, whitened."""

    copies: Float[np.ndarray, "c n w"]
    average: Average
    shift: Float[np.ndarray, " w"]
    root: Float[np.ndarray, "w w"]

    def mixture(self) -> OrderedMixture:
        """In the rows' own coordinates."""
        return in_own_coordinates(self.average.density(), self.shift, self.root)


def _are_few(rows: Float[np.ndarray, "n w"]) -> bool:
    return len(rows) < _FEW_ROWS_PER_COLUMN * rows.shape[1]


def n_copies(n_rows: int) -> int:
    """How many times so many rows are filled in."""
    return int(np.clip(_COPIED_ROWS // n_rows, 1, _MOST_COPIES))


def holed(
    own: Float[np.ndarray, "n s"], numbers: Float[np.ndarray, "n m"], gone: Bool[np.ndarray, "n m"]
) -> Float[np.ndarray, "n w"]:
    """Scores and numbers, NaN where these are missing."""
    return np.concatenate([own, np.where(gone, np.nan, numbers)], axis=1)


def drawn_copies(
    table: TableRows, rows: Float[np.ndarray, "n w"], mixture: OrderedMixture, copies: int
) -> Float[np.ndarray, "c n w"]:
    """Missing values, drawn given the values that are present, several times."""
    numbers = np.arange(copies)
    uniform = table.uniform("choice", copy=numbers).ravel()
    each = table.uniform("normal", np.arange(rows.shape[1]), numbers[:, None])
    normal = normal_numbers(each).transpose(0, 2, 1).reshape(-1, rows.shape[1])
    # Copies of a row have their holes in the same places, and share factors.
    found = mixture.conditional_fill(np.tile(rows, (copies, 1)), uniform, normal)
    return found.reshape(copies, *rows.shape)


def in_own_coordinates(
    density: GaussianMixtureDensity, shift: Float[np.ndarray, " w"], root: Float[np.ndarray, "w w"]
) -> OrderedMixture:
    """A mixture of whitened rows, in the coordinates that they were whitened from."""
    return OrderedMixture(
        density.weights,
        density.means @ root.T + shift,
        surely_positive(root @ density.covariances @ root.T),
    )


@dataclass(frozen=True)
class _Holed:
    """Incomplete rows that judge mixtures of others, which are whitened."""

    rows: Float[np.ndarray, "j w"]
    shift: Float[np.ndarray, " w"]
    root: Float[np.ndarray, "w w"]

    def __call__(self, mixture: GaussianMixtureDensity) -> Float[np.ndarray, " j"]:
        density = Average((mixture,)).density()
        return in_own_coordinates(density, self.shift, self.root).log_marginal(self.rows)


def _trial(
    table: TableRows,
    rows: Float[np.ndarray, "n w"],
    held: Bool[np.ndarray, " n"],
    pseudo_rows: float,
    n_judges: int | None = None,
) -> Trial:
    """Everything without the rows that are held out, the first of which judge."""
    own, judges = np.flatnonzero(~held), np.flatnonzero(held)[:n_judges]
    weights = table.weights[own]
    gaussian = incomplete_gaussian(rows[own], weights, pseudo_rows)
    root = root_of(gaussian.covariance)
    copies = drawn_copies(table.where(own), rows[own], gaussian.mixture(), n_copies(len(rows)))
    white = (copies - gaussian.mean) @ np.linalg.inv(root).T
    stacked = MonomialTable(
        white.reshape(-1, rows.shape[1]), np.tile(weights, len(copies)), copies=len(copies)
    )
    return Trial(stacked, _Holed(rows[judges], gaussian.mean, root), table.weights[judges])


def incomplete_search(
    table: TableRows,
    rows: Float[np.ndarray, "n w"],
    pseudo_rows: float,
    seed: int,
    progress: Progress,
    largest: int = LARGEST,
) -> AverageSearch:
    """What suits values that are present; the Gaussians before have their own pseudo-rows."""
    trials = [
        _trial(table, rows, held, pseudo_rows, _MOST_JUDGES)
        for held in held_until(table.folds, ENOUGH_JUDGES)
    ]
    n_rows, n_columns = rows.shape
    best: AverageSearch | None = None
    for factor in _PSEUDO_ROWS if _are_few(rows) else (0.0,):
        each = [
            trial._replace(table=trial.table.with_pseudo_rows(factor * n_columns))
            for trial in trials
        ]
        found = best_average(each, n_rows, seed, progress, largest=largest)
        if best is None or found.held_out > best.held_out:
            best = found
        elif found.held_out < best.held_out - _FALLEN_BEHIND:
            break
    assert best is not None
    return best


def filled_in(
    table: TableRows,
    rows: Float[np.ndarray, "n w"],
    members: Bool[np.ndarray, " n"],
    gaussian: IncompleteGaussian,
    search: AverageSearch,
    seed: int,
    n_averaged: int = N_AVERAGED,
) -> Filled:
    """All rows filled in by mixtures of some of them, in rounds."""
    root = root_of(gaussian.covariance)
    weights, inverse = table.weights[members], np.linalg.inv(root)
    count = n_copies(len(weights))
    found, mixture = None, gaussian.mixture()
    for _ in range(1 + _ROUNDS):
        copies = drawn_copies(table, rows, mixture, count)
        white = ((copies[:, members] - gaussian.mean) @ inverse.T).reshape(-1, rows.shape[1])
        repeated = np.tile(weights, count)
        average = (
            fit_average(white, repeated, search, seed, n_averaged, count)
            if found is None
            else refit_average(found.average, white, repeated, search, count)
        )
        found = Filled(copies, average, gaussian.mean, root)
        mixture = found.mixture()
    assert found is not None
    return found


def widening(
    table: TableRows,
    rows: Float[np.ndarray, "n w"],
    pseudo_rows: float,
    search: AverageSearch,
    seed: int,
) -> float:
    """The factor of standard deviations with which values that were hidden are covered as they
    should be.

    One where rows are many: what a mixture then misses is not for lack of rows.
    """
    if not _are_few(rows):
        return 1.0
    parts = range(int(np.clip(_COPIED_ROWS // rows.size, 1, _MOST_HIDINGS)))
    trials = [_Hidden.of(table, rows, pseudo_rows, search, seed, part) for part in parts]
    before, last = 1.0, np.inf
    for factor in _WIDENINGS:
        covered, counted = np.sum([trial.covered(factor) for trial in trials], axis=0)
        share = float(covered / counted) if counted else 1.0
        if share >= _COVERED:
            # Between the last factor, if there was one, and this one.
            before = float(np.interp(_COVERED, [min(last, share), share], [before, factor]))
            break
        before, last = factor, share
    # There are more values than in the trials, but also more beside what is missing: with no
    # allowance for either, intervals of rows from known mixtures are nearest to nine tenths.
    return before


class _Hidden(NamedTuple):
    """Rows some of whose values are hidden, and mixtures that have not seen these."""

    table: TableRows
    rows: Float[np.ndarray, "n w"]
    partial: Float[np.ndarray, "n w"]
    found: Filled

    @classmethod
    def of(
        cls,
        table: TableRows,
        rows: Float[np.ndarray, "n w"],
        pseudo_rows: float,
        search: AverageSearch,
        seed: int,
        part: int,
    ) -> _Hidden:
        """One share of the values after the other."""
        partial = rows.copy()
        for column in range(rows.shape[1] - table.numbers.shape[1], rows.shape[1]):
            places = table.uniform("hide", column)
            chosen = (part * _HIDDEN <= places) & (places < (part + 1) * _HIDDEN)
            partial[chosen, column] = np.nan
        gaussian = incomplete_gaussian(partial, table.weights, pseudo_rows)
        everything = np.ones(len(rows), bool)
        found = filled_in(table, partial, everything, gaussian, search, seed, _N_WIDENED)
        hidden = np.isnan(partial) & ~np.isnan(rows)
        some = np.flatnonzero(hidden.any(axis=1))[:_WIDENING_JUDGES]
        return cls(table.where(some), rows[some], partial[some], found)

    def covered(self, factor: float) -> tuple[float, float]:
        """The weight of hidden values that draws cover, and that of all of them."""
        wider = self.found._replace(average=self.found.average.widened(factor)).mixture()
        draws = np.sort(drawn_copies(self.table, self.partial, wider, _QUANTILE_DRAWS), axis=0)
        covered = (draws[1] <= self.rows) & (self.rows <= draws[-2])
        hidden = np.isnan(self.partial) & ~np.isnan(self.rows)
        weights = np.where(hidden, self.table.weights[:, None], 0.0)
        return float(weights[covered].sum()), float(weights.sum())


def held_out_logs(
    table: TableRows,
    rows: Float[np.ndarray, "n w"],
    held: Bool[np.ndarray, " n"],
    seed: int,
) -> Float[np.ndarray, " j"]:
    """Held-out log densities of the values that are present: enough to compare coordinates by."""
    trial = _trial(table, rows, held, float(rows.shape[1]))
    starts = compared_starts(trial.table.n_rows, seed)
    mixtures = next(mixture_path(trial.table, starts, [STRONGEST]))
    each = np.stack([trial.judged(mixture) for mixture in mixtures])
    return log_sum_exp(each, axis=0) - np.log(len(each))
