"""A logarithmic pool of smooth densities, whose low values are anomalies.

Several densities of a table, each fitted to the rows outside of one fold k, are pooled:

    log p_k(x) = Σ categories log p_k(c | categories before)
               + mean over experts e of log p_ek(numbers | categories),

and the *abnormality* of a row is −log p_k, of a new row averaged over the folds. The experts are

1. Gaussian mixtures of the numbers in robust units,
2. Gaussian mixtures after a power transform of each number as well, and
3. a Gaussian kernel around each row, in robust units.

Every expert is smooth: with noise of a fixed share σ of each column's spread added, which for a
mixture means Σ_c + σ²I. A sharp density follows columns that repeat their values, or nearly follow
from others, into peaks of any height, and then these columns alone decide what is unusual. Every
expert's density is one of its own coordinates: the slopes of power transforms are left out. What is
missing is integrated out. A level that was never seen counts as one in n + 1 rows.

| symbol | name        | shape                                                       |
|--------|-------------|-------------------------------------------------------------|
| p_ek   | experts     | (coordinates)(folds), base densities of a chain with noise  |
|        | points      | (p, w), rows in the first coordinates                       |
|        | point_folds | (p,)                                                        |
|        | bandwidth   | (), of the kernels                                          |
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.ordered import patterns_of
from kexpfam.data.layout import Parts
from kexpfam.logarithms import log_sum_exp
from kexpfam.model.chain import ChainDensity
from kexpfam.threads import one_blas_thread

__all__ = ["KernelPoints", "PooledDensity", "category_logs", "mixture_rows", "noisy"]

# Distances that are in memory at the same time.
_BLOCK_NUMBERS = 2_000_000


def noisy(density: ChainDensity, noise: float) -> ChainDensity:
    """The density with noise added to its numbers, in units of their spread."""
    mixture = density.mixture
    if mixture is None:
        return density
    n_scores = mixture.means.shape[1] - len(density.layout.numerics)
    added = np.append(np.zeros(n_scores), np.full(len(density.layout.numerics), noise**2))
    smooth = mixture._replace(covariances=mixture.covariances + np.diag(added))
    return replace(density, mixture=smooth)


class KernelPoints(NamedTuple):
    """A kernel around each row of the folds, of a width in all directions."""

    points: Float[np.ndarray, "p w"]
    point_folds: Int[np.ndarray, " p"]
    bandwidth: float

    def log_density(
        self, rows: Float[np.ndarray, "n w"], n_scores: int, n_folds: int
    ) -> Float[np.ndarray, "n k"]:
        """log density of the numbers given the scores before them, without fold k."""
        logs = np.zeros((len(rows), n_folds))
        size = max(1, _BLOCK_NUMBERS // max(1, len(self.points)))
        for there, members in patterns_of(~np.isnan(rows)):
            for start in range(0, len(members), size):
                some = members[start : start + size]
                logs[some] = self._joint(rows[some], there, n_folds)
                if n_scores:
                    before = there & (np.arange(len(there)) < n_scores)
                    logs[some] -= self._joint(rows[some], before, n_folds)
        return logs

    def _joint(
        self, rows: Float[np.ndarray, "n w"], there: Bool[np.ndarray, " w"], n_folds: int
    ) -> Float[np.ndarray, "n k"]:
        own, centers = rows[:, there] / self.bandwidth, self.points[:, there] / self.bandwidth
        squares = (own**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2 * own @ centers.T
        heights = -np.maximum(squares, 0.0) / 2
        constant = int(there.sum()) * np.log(self.bandwidth * np.sqrt(2 * np.pi))
        found = np.empty((len(rows), n_folds))
        for fold in range(n_folds):
            others = self.point_folds != fold
            found[:, fold] = log_sum_exp(heights[:, others], axis=1) - np.log(others.sum())
        return found - constant


class PooledDensity(NamedTuple):
    """Densities without each fold of the rows, in several coordinates."""

    experts: tuple[tuple[ChainDensity, ...], ...]
    kernels: KernelPoints | None
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
        found = np.zeros((len(codes), self.n_folds))
        found += n_unknown[:, None] * np.log(self.n_rows + 1)
        each = [np.stack([_numbers(one, parts) for one in folds], axis=1) for folds in self.experts]
        if self.kernels is not None:
            rows, n_scores = mixture_rows(self.experts[0][0], parts)
            each.append(self.kernels.log_density(rows, n_scores, self.n_folds))
        found -= np.mean(each, axis=0)
        for fold, density in enumerate(self.experts[0]):
            found[:, fold] -= category_logs(density, parts).sum(axis=1)
        return found


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
