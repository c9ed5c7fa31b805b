"""From a table to densities that say how unusual a row is, each without one fold of the rows.

rows → kinds of columns (numbers are real, whatever their bounds), robust units of the numbers
     → distinct rows in folds
     → twice, with and without power transforms: size and shrinkage of a mixture
     → mixtures and categories of the rows outside of each fold, with noise
     → rows that may be neighbors
     → the abnormality of every row under the densities that have not seen it

Units and the size of the mixtures are chosen once, on all rows: they are a few numbers for a whole
table, and choosing them for every fold would take five times as long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.data.coordinates import whitening
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.layout import Layout, layout_of
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.mixed import MixedTable, read_mixed
from kexpfam.data.tails import Tails, robust_tails
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import CategoryTerm
from kexpfam.model.expected import Expected, expected_values
from kexpfam.model.pooled import Neighbors, PooledDensity, neighbor_rows, noisy
from kexpfam.pipeline.chain_ground import N_FOLDS, distinct_rows, require_distinct_rows
from kexpfam.progress import Progress
from kexpfam.threads import in_turn, one_blas_thread
from kexpfam.tuning.categories import choose_category, fit_category
from kexpfam.tuning.table_base import BaseChoice, choose_base
from kexpfam.tuning.table_rows import TableRows

__all__ = ["AnomalyFit", "expected_without_folds", "fit_anomalies", "read_for_anomalies"]

_COORDINATES: tuple[MarginalKind, ...] = (None, "yeo_johnson")
# Noise added to every number, in units of the column's spread, and that for columns that repeat
# their values, times the probability that two rows have the same one. Both, the number of neighbors
# and their weight in the pool were chosen by the mean AUROC over one-class problems made of other
# tables (benchmarks/anomaly_choices.py), where 0.03 to 0.3 and 1 to 2 are nearly as good.
NOISE, TIE_NOISE = 0.1, 2.0
# Neighbors are looked for among this many rows at most.
_MOST_POINTS = 4000


class AnomalyFit(NamedTuple):
    """Densities without each fold, and what rows become before they are looked at.

    `scores` are the training rows' abnormalities by the densities that did not see them, and
    `folds` the folds that these left out.
    """

    density: PooledDensity
    table: MixedTable
    tails: Tails
    scores: Float[np.ndarray, " n"]
    folds: Int[np.ndarray, " n"]

    def numbers(self, codes: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Rows as the densities take them: numbers in robust units, levels as they are."""
        is_number = np.array([not kind.is_category for kind in self.table.kinds])
        return np.where(is_number, self.tails.forward(codes), codes)


def read_for_anomalies(
    X: Any, names: list[str] | None, given: Any
) -> tuple[MixedTable, Float[np.ndarray, "n d"]]:
    """Kinds of all columns, every number a real one, and the table as numbers.

    Bounds, lattices and atoms would make values impossible that are only unusual.
    """
    table, codes = read_mixed(X, names, np.ones(len(X)), given)
    kinds = []
    for place, kind in enumerate(table.kinds):
        if kind.is_category or kind.family != "number":
            kinds.append(kind)
            continue
        if kind.levels:
            there = np.isfinite(codes[:, place])
            codes[there, place] = np.array(kind.levels, float)[codes[there, place].astype(int)]
        kinds.append(ColumnKind("real", missing=kind.missing, dtype=kind.dtype))
    return table._replace(kinds=tuple(kinds)), codes


def _layout(table: MixedTable) -> Layout:
    """Grades are numbers here, too: their places."""
    kinds = (
        kind if kind.is_category else ColumnKind("real", missing=kind.missing, dtype=kind.dtype)
        for kind in table.kinds
    )
    return layout_of(tuple(kinds))


@in_turn
@one_blas_thread()
def fit_anomalies(
    table: MixedTable,
    codes: Float[np.ndarray, "n d"],
    seed: int,
    progress: Progress,
) -> AnomalyFit:
    """Fit without each fold, and judge every row by the densities that did not see it."""
    layout = _layout(table)
    is_number = np.isin(np.arange(codes.shape[1]), layout.numerics)
    tails = robust_tails(codes, is_number)
    numbers = np.where(is_number, tails.forward(codes), codes)
    rows, folds = distinct_rows(layout, numbers, np.ones(len(codes)), seed)
    require_distinct_rows(rows, "KernelAnomalyDetector")
    everything = np.ones(len(rows.weights), bool)
    categories = [
        choose_category(rows, place, everything, rows.folds == 0)
        for place in progress.track(range(len(layout.categories)), "categories")
    ]
    terms = [
        tuple(
            fit_category(rows, place, rows.folds != fold, choice)
            for place, choice in enumerate(categories)
        )
        for fold in range(N_FOLDS)
    ]
    bases = [choose_base(rows, everything, kind, seed, progress) for kind in _COORDINATES]
    experts = tuple(
        tuple(
            _expert(rows, base, fold, terms[fold])
            for fold in progress.track(range(N_FOLDS), "folds")
        )
        for base in bases
    )
    more_noise = (NOISE + TIE_NOISE * _ties(numbers[:, list(layout.numerics)])) ** 2 - NOISE**2
    neighbors = _neighbors(rows, bases[0])
    density = PooledDensity(experts, more_noise, neighbors, len(codes))
    found = density.abnormality(numbers)[np.arange(len(codes)), folds]
    return AnomalyFit(density, table, tails, found, folds)


def expected_without_folds(
    fit: AnomalyFit, codes: Float[np.ndarray, "n d"], folds: Int[np.ndarray, " n"], coverage: float
) -> Expected:
    """Responsible columns of rows, each by the densities without its fold, in robust units.

    Where every value agrees with the others, the row is far out as a whole, and responsible is the
    value that is least likely by itself.
    """
    numbers, strange = fit.numbers(codes), float(np.log(fit.density.n_rows + 1.0))
    n_rows = len(codes)
    ends, surprise = np.full((3, n_rows), np.nan), np.zeros(codes.shape)
    low, high, share = ends
    columns, alone = np.zeros(n_rows, int), np.zeros(n_rows, bool)
    for fold in np.unique(folds):
        members = np.flatnonzero(folds == fold)
        density = fit.density.experts[0][fold]
        found = expected_values(density, numbers[members], coverage, strange)
        surprise[members] = found.surprise
        found = _or_alone(density, numbers[members], coverage, strange, found)
        columns[members], alone[members] = found.columns, found.alone
        ends[:, members] = found.low, found.high, found.share
    return Expected(columns, surprise, low, high, share, alone)


def _or_alone(
    density: ChainDensity,
    numbers: Float[np.ndarray, "n d"],
    coverage: float,
    strange: float,
    given: Expected,
) -> Expected:
    """What was expected given the other values, or where all agree, of a column by itself."""
    largest = np.full(len(numbers), -np.log1p(-coverage))
    agree = given.surprise.max(axis=1) < largest
    for column in range(numbers.shape[1]) if agree.any() else ():
        single = np.full(numbers.shape, np.nan)
        single[:, column] = numbers[:, column]
        one = expected_values(density, single, coverage, strange)
        own = one.surprise[:, column]
        better = agree & (own > largest)
        largest = np.where(better, own, largest)
        given = Expected(
            np.where(better, column, given.columns),
            given.surprise,
            np.where(better, one.low, given.low),
            np.where(better, one.high, given.high),
            np.where(better, one.share, given.share),
            given.alone | better,
        )
    return given


def _expert(
    rows: TableRows, base: BaseChoice, fold: int, terms: tuple[CategoryTerm, ...]
) -> ChainDensity:
    """The base density of a chain for the rows outside of a fold, with noise."""
    mixture = None
    if base.average is not None:
        members = rows.folds != fold
        # Mixtures are shrunk toward a normal distribution in whitened coordinates: where rows are
        # few for their columns, a row must have no part in these either.
        nobody = np.zeros(int(members.sum()), bool)
        shift, root = whitening(base.filled[members], rows.weights[members], nobody)
        mixture = base._replace(shift=shift, root=root).fitted_to(rows, members)
    noise = np.full(len(rows.layout.numerics), NOISE**2)
    return noisy(replace(base.density(rows.layout, mixture), category_terms=terms), noise)


def _ties(numbers: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " m"]:
    """The probability that two values of a column are the same."""
    found = np.zeros(numbers.shape[1])
    for place, column in enumerate(numbers.T):
        _, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        found[place] = ((counts / max(counts.sum(), 1)) ** 2).sum()
    return found


def _neighbors(rows: TableRows, base: BaseChoice) -> Neighbors:
    """Complete rows, in the coordinates of the first mixtures."""
    layout = rows.layout
    deviations = layout.indicators(rows.parts)[:, len(layout.flagged) :].std(axis=0)
    deviations = np.where(deviations > 0, deviations, 1.0)
    density = base.density(layout, None)
    points, columns = neighbor_rows(density, rows.parts, deviations)
    n_numbers = len(layout.numerics)
    points[:, :n_numbers] = base.filled[:, base.filled.shape[1] - n_numbers :]
    # A level that is not known is the first one.
    some = np.nan_to_num(points[:_MOST_POINTS])
    return Neighbors(some, rows.folds[:_MOST_POINTS], columns, deviations, NOISE)
