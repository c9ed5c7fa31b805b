"""How far apart two tables are: Kullback–Leibler divergences by densities of other rows.

    KL(A ‖ B) = E_A [log p_A − log p_B]  ≈  mean over rows x of A of  log p̂_A(x) − log p̂_B(x).

Each table is cut into halves at random, and a density fitted to each: p̂_A is that of the half that
x is not in, and log p̂_B the mean over both halves of B. All densities are fitted to the same
number of rows: the errors that come from few rows cancel if the tables come from one distribution,
and the estimate is then zero but for chance. It is an estimate, not a bound: too small by what p̂_A
misses of A, too large by what p̂_B misses where A has rows and B has none, and it can be negative.
Which cells are empty is part of a row: a column of truth values for each column with empty cells.

The densities' own chance is seen in the difference of two of them that share no row. With m_B1 and
m_B2 the means of log p̂_B over the rows of A by either half of B, and m_A1, m_A2 those of log p̂_A
over the rows of B,

    error² = variance of the rows' ratios / n  +  (m_B1 − m_B2)² / 4  +  (m_A1 − m_A2)² / 4.

| symbol | name      | shape                                          |
|--------|-----------|------------------------------------------------|
| x      | codes     | (N, d), of both tables                         |
|        | half      | (N,), the half of its table that a row is in   |
|        | own       | (n,), log densities by the row's own table     |
|        | other     | (n, 2), by both halves of the other table      |
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.comparison.joined import JoinedTables
from kexpfam.comparison.result import Divergence
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import MixedTable
from kexpfam.data.rows import ArrayRows
from kexpfam.model.chain import ChainDensity
from kexpfam.pipeline.chain import ChainSettings, fit_chain
from kexpfam.progress import Progress

__all__ = ["FEWEST_ROWS", "estimate_divergence"]

# Fewer rows in a table have no density worth the name.
FEWEST_ROWS = 30
# Rows that a density is fitted to, and rows of each table that are averaged over.
_MOST_TRAINING, _MOST_JUDGED = 2000, 10_000


def estimate_divergence(
    tables: JoinedTables, seed: int, generator: np.random.Generator, progress: Progress
) -> Divergence:
    """Both divergences with their standard errors; ValueError where no density can be fitted."""
    kinds, codes = _with_holes(tables)
    n_training = min(min(tables.sizes) // 2, _MOST_TRAINING)
    half = _halves(tables.is_second, generator)
    members = [
        [(tables.is_second == bool(side)) & (half == number) for number in range(2)]
        for side in range(2)
    ]
    densities = {
        (side, number): _fitted(
            kinds, codes[_some(members[side][number], n_training, generator)], seed
        )
        for side, number in progress.track([(0, 0), (0, 1), (1, 0), (1, 1)], "divergence")
    }
    ratios, gaps = [], []
    for side in range(2):
        own, other = [], []
        for number in range(2):
            rows = codes[_some(members[side][number], _MOST_JUDGED // 2, generator)]
            own.append(densities[side, 1 - number].log_density(rows))
            both = [densities[1 - side, one].log_density(rows) for one in range(2)]
            other.append(np.stack(both, axis=1))
        logs = np.concatenate(other)
        ratios.append(np.concatenate(own) - logs.mean(axis=1))
        gaps.append(float(np.subtract(*logs.mean(axis=0))))
    of_fits = sum(gap**2 for gap in gaps) / 4
    first, second = ratios
    return Divergence(
        float(first.mean()),
        _standard_error(first, of_fits),
        float(second.mean()),
        _standard_error(second, of_fits),
        n_training,
        (len(first), len(second)),
    )


def _standard_error(values: Float[np.ndarray, " n"], of_fits: float) -> float:
    return float(np.sqrt(values.var(ddof=1) / len(values) + of_fits))


def _with_holes(
    tables: JoinedTables,
) -> tuple[tuple[ColumnKind, ...], Float[np.ndarray, "N k"]]:
    """A column of truth values more for each column with empty cells."""
    gone = np.isnan(tables.codes)
    holed = np.flatnonzero(gone.any(axis=0))
    flag = ColumnKind("boolean", levels=(False, True), dtype="bool")
    kinds = (*tables.kinds, *(flag for _ in holed))
    return kinds, np.concatenate([tables.codes, gone[:, holed].astype(float)], axis=1)


def _halves(
    is_second: Bool[np.ndarray, " N"], generator: np.random.Generator
) -> Int[np.ndarray, " N"]:
    """0 or 1 for the rows of each table, at random, equally often."""
    half = np.empty(len(is_second), int)
    for side in (False, True):
        members = np.flatnonzero(is_second == side)
        half[generator.permutation(members)] = np.arange(len(members)) % 2
    return half


def _some(
    members: Bool[np.ndarray, " N"], most: int, generator: np.random.Generator
) -> Int[np.ndarray, " n"]:
    places = np.flatnonzero(members)
    return places if len(places) <= most else generator.choice(places, most, replace=False)


def _fitted(
    kinds: tuple[ColumnKind, ...], rows: Float[np.ndarray, "n k"], seed: int
) -> ChainDensity:
    table = MixedTable(kinds, None, "numpy", "number")
    with warnings.catch_warnings():
        # Of columns that follow from others the notes of a comparison need not speak.
        warnings.simplefilter("ignore")
        source = ArrayRows(rows, np.ones(len(rows)))
        fit = fit_chain(table, source, ChainSettings("auto", True), seed, Progress())
    return fit.density
