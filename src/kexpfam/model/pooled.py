"""A logarithmic pool of smooth densities, whose low values are anomalies.

Densities of a table, each fitted to the rows outside of one fold k, are pooled:

    log p_k(x) = ½ mean over experts e of log p_ek(x) + ½ log n_k(x) + constant,

    log p_ek(x) = Σ categories log p_k(c | categories before) + log p_ek(numbers | categories),
    log n_k(x)  = −(d + 1)/2 log(d σ² + mean over the five nearest rows of the squared distance),

and the *abnormality* of a row is −log p_k, of a new row averaged over the folds. The experts are
Gaussian mixtures of the numbers in robust units, and others after a power transform of each number.
Mixtures know how columns depend on each other; distances to neighbors find rows that are simply far
from all others. n_k has the tails of a Cauchy distribution in the d columns of the row: robust
units of numbers divided by their standard deviation, and indicators of levels divided by theirs.

Every density is smooth: noise of a share of each column's spread is added, which for a mixture
means Σ_c + diag(σ_j²). A sharp density follows columns that repeat their values, or nearly follow
from others, into peaks of any height, and then these columns alone decide what is unusual. Hence
columns get the more noise the more often their values repeat: σ_j = σ + 2 Σ_v (share of value v)².
Every expert's density is one of its own coordinates: the slopes of power transforms are left out.
What is missing is left out, of distances as well. A level that was never seen counts as one in
n + 1 rows.

| symbol  | name        | shape                                                       |
|---------|-------------|-------------------------------------------------------------|
| p_ek    | experts     | (coordinates)(folds), base densities of a chain with noise  |
| σ_j²−σ² | more_noise  | (m,), variances for columns that repeat their values        |
|         | points      | (p, w), rows that may be neighbors                          |
|         | point_folds | (p,)                                                        |
|         | columns     | (w,), which column of the table each coordinate is of       |
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.ordered import patterns_of
from kexpfam.data.layout import Parts
from kexpfam.model.chain import ChainDensity
from kexpfam.threads import one_blas_thread

__all__ = [
    "Neighbors",
    "PooledDensity",
    "category_logs",
    "mixture_rows",
    "neighbor_rows",
    "noisy",
]

# Distances that are in memory at the same time.
_BLOCK_NUMBERS = 2_000_000
# Neighbors whose distance counts.
_N_NEAREST = 5


def noisy(density: ChainDensity, variances: Float[np.ndarray, " m"]) -> ChainDensity:
    """The density with noise added to its numbers, in units of their spread."""
    mixture = density.mixture
    if mixture is None:
        return density
    n_scores = mixture.means.shape[1] - len(variances)
    added = np.append(np.zeros(n_scores), variances)
    smooth = mixture._replace(covariances=mixture.covariances + np.diag(added))
    return replace(density, mixture=smooth)


class Neighbors(NamedTuple):
    """Rows of the folds, the scales of the levels' indicators, and the least distance."""

    points: Float[np.ndarray, "p w"]
    point_folds: Int[np.ndarray, " p"]
    columns: Int[np.ndarray, " w"]
    deviations: Float[np.ndarray, " u"]
    noise: float

    def log_density(self, rows: Float[np.ndarray, "n w"], n_folds: int) -> Float[np.ndarray, "n k"]:
        """log n_k without fold k, up to a constant; NaN stands for what is missing."""
        logs = np.zeros((len(rows), n_folds))
        size = max(1, _BLOCK_NUMBERS // max(1, len(self.points)))
        for there, members in patterns_of(~np.isnan(rows)):
            n_columns = len(np.unique(self.columns[there]))
            if n_columns == 0:
                continue
            centers = self.points[:, there]
            for start in range(0, len(members), size):
                some = members[start : start + size]
                own = rows[some][:, there]
                squares = (own**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1)
                squares = np.maximum(squares - 2 * own @ centers.T, 0.0)
                for fold in range(n_folds):
                    near = _nearest(squares[:, self.point_folds != fold])
                    distance = n_columns * self.noise**2 + near
                    logs[some, fold] = -(n_columns + 1) / 2 * np.log(distance)
        return logs


def _nearest(squares: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """The mean of the smallest in each row."""
    count = min(_N_NEAREST, squares.shape[1])
    return np.partition(squares, count - 1, axis=1)[:, :count].mean(axis=1)


def neighbor_rows(
    density: ChainDensity, parts: Parts, deviations: Float[np.ndarray, " u"]
) -> tuple[Float[np.ndarray, "n w"], Int[np.ndarray, " w"]]:
    """Numbers in the density's coordinates and indicators of levels; the column of each."""
    layout = density.layout
    indicators = layout.indicators(parts)[:, len(layout.flagged) :] / deviations
    columns = list(layout.numerics)
    for place, count in enumerate(layout.level_counts):
        first = len(columns) - len(layout.numerics)
        columns += [layout.categories[place]] * (count - 1)
        indicators[np.isnan(parts.codes[:, place]), first : first + count - 1] = np.nan
    numbers = density.mapped(parts.numbers)
    return np.concatenate([numbers, indicators], axis=1), np.array(columns, int)


class PooledDensity(NamedTuple):
    """Densities without each fold of the rows, in several coordinates."""

    experts: tuple[tuple[ChainDensity, ...], ...]
    more_noise: Float[np.ndarray, " m"]
    neighbors: Neighbors
    n_rows: int

    @property
    def n_folds(self) -> int:
        """How many densities of each kind there are."""
        return len(self.experts[0])

    def split(self, codes: Float[np.ndarray, "n d"]) -> tuple[Parts, Int[np.ndarray, " n"]]:
        """The variables of rows, and how many levels of each row were never seen."""
        unknown = np.isinf(codes)
        known = np.where(unknown, np.nan, codes)
        return self.experts[0][0].layout.split(known), unknown.sum(axis=1)

    @one_blas_thread()
    def abnormality(self, codes: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """−log density under the pool without each fold."""
        parts, n_unknown = self.split(codes)
        each = np.zeros((len(codes), self.n_folds))
        for folds in self.experts:
            for fold, density in enumerate(folds):
                smooth = noisy(density, self.more_noise)
                each[:, fold] += _numbers(smooth, parts) / len(self.experts)
        for fold, density in enumerate(self.experts[0]):
            each[:, fold] += category_logs(density, parts).sum(axis=1)
        rows, _ = neighbor_rows(self.experts[0][0], parts, self.neighbors.deviations)
        each += self.neighbors.log_density(rows, self.n_folds)
        return n_unknown[:, None] * np.log(self.n_rows + 1) - each / 2


def category_logs(density: ChainDensity, parts: Parts) -> Float[np.ndarray, "n c"]:
    """log p of each category given those before it; zero where it is missing."""
    nothing = parts._replace(numbers=np.full(parts.numbers.shape, np.nan))
    return density.terms(nothing).categories


def _numbers(density: ChainDensity, parts: Parts) -> Float[np.ndarray, " n"]:
    """log density of the numbers given the categories, in the density's own coordinates."""
    if density.mixture is None:
        return np.zeros(len(parts.numbers))
    rows, n_scores = mixture_rows(density, parts)
    logs = density.mixture.log_marginal(rows)
    if n_scores:
        rows[:, n_scores:] = np.nan
        logs = logs - density.mixture.log_marginal(rows)
    return logs


def mixture_rows(density: ChainDensity, parts: Parts) -> tuple[Float[np.ndarray, "n w"], int]:
    """Scores of the categories and numbers, as a chain's mixture takes them; how many scores.

    A category that is not there, where it always was in training, leaves the scores unknown.
    """
    inputs = density.inputs(parts)
    scores = density.scores(inputs.indicators)
    flagged = np.isin(density.layout.categories, density.layout.flagged)
    scores[np.isnan(parts.codes[:, ~flagged]).any(axis=1)] = np.nan
    return np.concatenate([scores, inputs.mapped], axis=1), scores.shape[1]
