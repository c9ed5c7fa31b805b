"""Size and shrinkage of averaged mixtures, by held-out rows.

Averaging wants looser mixtures than a single fit, so what is judged is an average: one mixture of
every size that would be averaged (half, once and twice the candidate's). By how much an average of
k is better than one of m is foreseen to first order from what m gain over one,

    log p̄_k ≈ log p̄_m + (1/m − 1/k) / (1 − 1/m) · (log p̄_m − mean over s of log p_s),

which for m = 3 and k = 16 is 0.4 of a gain that was seen. Two starts of one size say less: they
differ by chance, or by a symmetry (a few components around a ring, turned), and 0.9 of their gain
would have to be added. A fit to all rows wants more components than one to those not held out.

| symbol | name     | shape |
|--------|----------|-------|
| p_s    | each     | (m, n) log densities |
| k      | count    | ()    |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.averaged import (
    N_AVERAGED,
    ROWS_PER_COMPONENT,
    STRONGEST,
    AverageSearch,
    averaged_sizes,
    fit_average,
    log_densities_of,
    n_starts,
)
from kexpfam.base.clusters import Start
from kexpfam.base.density import require_rows
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.monomial_tables import MonomialTable, SeveralTables, worth_threads
from kexpfam.base.shrunk import mixture_path, nearly_converged
from kexpfam.data.coordinates import FEW_ROWS_PER_COLUMN
from kexpfam.data.sketch import Sketch
from kexpfam.logarithms import log_sum_exp
from kexpfam.progress import Progress
from kexpfam.threads import in_threads

__all__ = [
    "ENOUGH_JUDGES",
    "LARGEST",
    "PSEUDO_ROWS",
    "AveragedMixtureBase",
    "Trial",
    "best_average",
    "choose_average",
    "held_until",
]

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# The largest size, unless more are asked for; beyond it every size must be better than the last.
LARGEST = 256
_SHRINKAGES = (STRONGEST, 20.0, 6.0, 2.0, 0.6, 0.2)
# How many shrinkages in a row may be worse for single mixtures: averages want weaker ones.
_PATIENCE = 1
# Rows for which one more component is sure to pay.
_TOO_MANY_ROWS = 500
# Rows that a component needs at least, beyond the largest size.
_ROWS_PER_FURTHER = 16
# Rows of a standard normal that are tried where rows are few, as multiples of the columns.
PSEUDO_ROWS = (0.25, 1.0, 4.0, 16.0, 64.0)
_N_FOLDS = 5
# Folds are held out one after the other until this many rows have judged. A base density by itself
# is of few columns, and has time for more.
ENOUGH_JUDGES, _MORE_JUDGES = 300, 1000
# By how many nats a size may fall behind the best and larger ones still be tried; likewise a single
# mixture behind the best single one, which would not catch up in an average.
_FALLEN_BEHIND = 0.1
# By how many nats more components must be better: every row that is scored later meets them.
_LEAST_GAIN = 0.005


@dataclass(frozen=True)
class AveragedMixtureBase:
    """An average of Gaussian mixtures; size and shrinkage are chosen on held-out rows.

    Parameters
    ----------
    n_averaged : int
        How many mixtures, each from its own start, are averaged.
    """

    n_averaged: int = N_AVERAGED

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> GaussianMixtureDensity:
        """Choose and fit on the rows of the sketch, whose order is random."""
        require_rows(
            len(sketch.rows), 4, "An averaged mixture base density", "Use base='gaussian'."
        )
        folds = np.arange(len(sketch.rows)) % _N_FOLDS
        seed = int(generator.integers(2**31))
        search = choose_average(
            sketch.rows,
            sketch.weights,
            folds,
            seed,
            Progress(),
            self.n_averaged,
            n_judges=_MORE_JUDGES,
        )
        average = fit_average(sketch.rows, sketch.weights, search, seed, self.n_averaged)
        return average.density()


def choose_average(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    folds: Int[np.ndarray, " n"],
    seed: int,
    progress: Progress,
    n_averaged: int = N_AVERAGED,
    largest: int = LARGEST,
    n_judges: int = ENOUGH_JUDGES,
) -> AverageSearch:
    """Size and shrinkage with the best held-out likelihood of an average.

    The fold with the lowest number is held out first, and others only until `n_judges` rows are.
    """
    trials = _whole_trials(rows, weights, folds, seed, n_judges)
    return best_average(trials, len(rows), seed, progress, n_averaged, largest)


def best_average(
    each: Sequence[Trial],
    n_rows: int,
    seed: int,
    progress: Progress,
    n_averaged: int = N_AVERAGED,
    largest: int = LARGEST,
) -> AverageSearch:
    """The same by trials, for a table of this many rows."""
    trials = _Trials(each, np.concatenate([trial.counts for trial in each]), seed, {})
    first = each[0].table
    n_train, n_columns = first.n_rows, first.rows.shape[1]
    fewest = min(8, n_train // _TOO_MANY_ROWS)
    sizes = [
        size
        for size in _SIZES
        if size == 1 or max(2, fewest) <= size <= min(_room(n_train, size), largest)
    ]
    best = AverageSearch(1, _SHRINKAGES[0], -np.inf, 0.0)
    for size in progress.track(sizes, "base density"):
        if size > LARGEST and 2 * best.n_components < size:
            break
        count = n_starts(size, n_columns, n_averaged)
        members = sorted(set(averaged_sizes(size, count, n_train).tolist()))
        for member in members:
            trials.add(member)
        found = max(
            (trials.foreseen(members, size, shrinkage, count) for shrinkage in trials.logs[size]),
            key=lambda search: search.held_out,
        )
        if found.held_out > best.held_out + _LEAST_GAIN:
            best = found
        elif found.held_out < best.held_out - _FALLEN_BEHIND:
            break
        if trials.alone(members[-1]) < max(map(trials.alone, trials.logs)) - _FALLEN_BEHIND:
            break
    best = best._replace(error=best.error / np.sqrt(n_rows))
    if best.n_components > 1:
        best = best._replace(n_components=round(best.n_components * n_rows / n_train))
    return best._replace(pseudo_rows=first.pseudo_rows)


def _room(n_rows: int, size: int) -> float:
    """Components for which there are rows."""
    return n_rows / (ROWS_PER_COMPONENT if size <= LARGEST else _ROWS_PER_FURTHER)


class Trial(NamedTuple):
    """A table of some rows, and the log densities of other rows, with weights, that judge it."""

    table: MonomialTable
    judged: Callable[[GaussianMixtureDensity], Float[np.ndarray, " j"]]
    counts: Float[np.ndarray, " j"]


@dataclass(frozen=True)
class _Whole:
    """Complete rows that judge."""

    rows: Float[np.ndarray, "j d"]

    def __call__(self, mixture: GaussianMixtureDensity) -> Float[np.ndarray, " j"]:
        return log_densities_of(mixture, self.rows)


def _whole_trials(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    folds: Int[np.ndarray, " n"],
    seed: int,
    n_judges: int,
) -> list[Trial]:
    """Folds in the order of their numbers, until enough rows are held out."""
    trials: list[Trial] = []
    for held in held_until(folds, n_judges):
        table = MonomialTable(rows[~held], weights[~held])
        trial = Trial(table, _Whole(rows[held]), weights[held])
        if not trials:
            pseudo_rows = _pseudo_rows_chosen(trial, seed)
        trials.append(trial._replace(table=table.with_pseudo_rows(pseudo_rows)))
    return trials


def held_until(folds: Int[np.ndarray, " n"], n_judges: int) -> Iterator[Bool[np.ndarray, " n"]]:
    """Rows that are held out, fold by fold, until they are enough together."""
    count = 0
    for number in np.unique(folds):
        if count < n_judges:
            held = folds == number
            count += int(held.sum())
            yield held


class _Trials(NamedTuple):
    """Log densities of held-out rows under single mixtures, by size and shrinkage."""

    each: Sequence[Trial]
    counts: Float[np.ndarray, " k"]
    seed: int
    logs: dict[int, dict[float, Float[np.ndarray, " k"]]]

    def add(self, size: int) -> None:
        """Fit mixtures of one size, from strong to weak shrinkage while they gain by it."""
        if size in self.logs:
            return
        own = self.logs[size] = {}
        # One Gaussian has nothing to be shrunk to.
        shrinkages = _SHRINKAGES if size > 1 else _SHRINKAGES[:1]
        tables = SeveralTables([trial.table for trial in self.each])
        n_rows, n_columns = self.each[0].table.rows.shape
        starts, enough = [Start(size, self.seed)] * len(self.each), nearly_converged(n_columns)
        path = mixture_path(tables, starts, shrinkages, enough)
        worth = worth_threads(n_rows, n_columns, size)
        highest, n_worse = -np.inf, 0
        for shrinkage, mixtures in zip(shrinkages, path, strict=True):
            pairs = zip(self.each, mixtures, strict=True)
            judged = in_threads(lambda pair: pair[0].judged(pair[1]), pairs, worth=worth)
            own[shrinkage] = np.concatenate(list(judged))
            mean = self.mean(own[shrinkage])
            n_worse = 0 if mean >= highest else n_worse + 1
            if n_worse > _PATIENCE:
                break
            highest = max(highest, mean)

    def mean(self, logs: Float[np.ndarray, " k"]) -> float:
        return float(np.average(logs, weights=self.counts))

    def alone(self, size: int) -> float:
        """The likelihood of the best single mixture of a size."""
        return max(map(self.mean, self.logs[size].values()))

    def foreseen(
        self, members: list[int], size: int, shrinkage: float, count: int
    ) -> AverageSearch:
        """What an average of mixtures of several sizes will reach, with an error for one row."""
        each = np.stack(
            [
                # Of a size for which so weak a shrinkage was not tried any more, the weakest.
                self.logs[member][max(shrinkage, min(self.logs[member]))]
                for member in members
            ]
        )
        logs = log_sum_exp(each, axis=0) - np.log(len(each))
        if len(each) > 1:
            still_to_gain = (1 / len(each) - 1 / count) / (1 - 1 / len(each))
            logs += still_to_gain * (logs - each.mean(axis=0))
        likelihood = self.mean(logs)
        error = float(np.sqrt(self.mean((logs - likelihood) ** 2)))
        return AverageSearch(size, shrinkage, likelihood, error)


def _pseudo_rows_chosen(trial: Trial, seed: int) -> float:
    """As many rows of a standard normal as suit one Gaussian best."""
    n_rows, n_columns = trial.table.rows.shape
    if n_rows >= FEW_ROWS_PER_COLUMN * n_columns:
        return 0.0
    choices = [0.0, *(factor * n_columns for factor in PSEUDO_ROWS)]
    likelihoods = []
    for pseudo_rows in choices:
        table = trial.table.with_pseudo_rows(pseudo_rows)
        (mixture,) = next(mixture_path(table, [Start(1, seed)], [STRONGEST]))
        likelihoods.append(np.average(trial.judged(mixture), weights=trial.counts))
    return choices[int(np.argmax(likelihoods))]
