"""An average of Gaussian mixtures, each shrunk towards shared covariances.

    q0 = (1 − w) mean over starts s of Σ_k π_sk N(μ_sk, Σ_sk)  +  w N(0, wide² I)

A mixture with full covariances has more parameters than a table has rows for; those here share what
they have in common (see `kexpfam.base.shrunk`), and with many small components become a compressed
kernel density estimate. Size and shrinkage are chosen on held-out rows, and mixtures of half, once
and twice that size from several starts are averaged, which removes what is accidental in each.
Averaging wants larger and looser mixtures than a single fit, which is foreseen from what averages
of two gain over one; and a fit to all rows wants more components than one to those not held out.
One wide component of small weight w covers rows far from all others. Rows are expected whitened, or
nearly so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.density import require_rows
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.shrunk import MonomialTable, Start, improved_mixtures, mixture_path
from kexpfam.data.coordinates import FEW_ROWS_PER_COLUMN
from kexpfam.data.sketch import Sketch
from kexpfam.logarithms import log_sum_exp
from kexpfam.progress import Progress

__all__ = [
    "LARGEST",
    "Average",
    "AverageSearch",
    "AveragedMixtureBase",
    "choose_average",
    "fit_average",
    "held_out_logs",
    "refit_average",
]

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# The largest size, unless more are asked for; beyond it every size must be better than the last.
LARGEST = 256
_SHRINKAGES = (60.0, 20.0, 6.0, 2.0)
# Rows a component needs at least, and rows for which one more component is sure to pay.
_ROWS_PER_COMPONENT, _TOO_MANY_ROWS = 8, 500
# The same for components beyond the largest size.
_ROWS_PER_FURTHER = 16
_N_AVERAGED = 16
# Mixtures that coordinates are compared by.
_N_COMPARED = 4
# Rows of a standard normal that are tried where rows are few, as multiples of the columns.
_PSEUDO_ROWS = (0.25, 1.0, 4.0, 16.0, 64.0)
# Components of all mixtures together, and numbers in their covariances: every row meets them all.
_MOST_COMPONENTS, _MOST_NUMBERS = 512, 400_000
# Sizes that are averaged, as multiples of the chosen one.
_FACTORS = (1.0, 0.5, 2.0)
_ONE_HELD_OUT_OF = 5
# By how many nats a size may fall behind the best and larger ones still be tried; likewise a single
# mixture behind the best single one, which would not catch up in an average.
_FALLEN_BEHIND = 0.1
_WIDE, _WIDE_WEIGHT = 3.0, 3e-4


class AverageSearch(NamedTuple):
    """Size and shrinkage of averaged mixtures, and the held-out likelihood foreseen for them.

    `error` is the standard error of a mean log density over as many rows as there are;
    `pseudo_rows` of a standard normal are added to every component.
    """

    n_components: int
    shrinkage: float
    held_out: float
    error: float
    pseudo_rows: float = 0.0


@dataclass(frozen=True)
class AveragedMixtureBase:
    """An average of Gaussian mixtures; size and shrinkage are chosen on held-out rows.

    Parameters
    ----------
    n_averaged : int
        How many mixtures, each from its own start, are averaged.
    """

    n_averaged: int = _N_AVERAGED

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> GaussianMixtureDensity:
        """Choose and fit on the rows of the sketch, whose order is random."""
        require_rows(
            len(sketch.rows), 4, "An averaged mixture base density", "Take base='gaussian'."
        )
        held = np.arange(len(sketch.rows)) % _ONE_HELD_OUT_OF == 0
        seed = int(generator.integers(2**31))
        search = choose_average(
            sketch.rows, sketch.weights, held, seed, Progress(), self.n_averaged
        )
        average = fit_average(sketch.rows, sketch.weights, search, seed, self.n_averaged)
        return average.density()


def choose_average(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    held: Bool[np.ndarray, " n"],
    seed: int,
    progress: Progress,
    n_averaged: int = _N_AVERAGED,
    largest: int = LARGEST,
) -> AverageSearch:
    """Size and shrinkage with the best held-out likelihood, foreseen from averages of two."""
    best = AverageSearch(1, _SHRINKAGES[0], -np.inf, 0.0)
    highest_alone = -np.inf
    judges, counts = rows[held], weights[held]
    table = _pseudo_rows_chosen(rows[~held], weights[~held], judges, counts, seed)
    n_train = len(table.rows)
    fewest = min(8, n_train // _TOO_MANY_ROWS)
    sizes = [
        size
        for size in _SIZES
        if size == 1 or max(2, fewest) <= size <= min(_room(n_train, size), largest)
    ]
    for size in progress.track(sizes, "base density"):
        if size > LARGEST and 2 * best.n_components < size:
            break
        starts = [Start(size, seed), Start(size, seed + 1)] if size > 1 else [Start(size, seed)]
        # The gain by averaging k is to first order proportional to 1 − 1/k.
        still_to_gain = 1 - 2 / max(2, _n_starts(size, rows.shape[1], n_averaged))
        found = AverageSearch(size, _SHRINKAGES[0], -np.inf, 0.0)
        alone = -np.inf
        for shrinkage, mixtures in zip(
            _SHRINKAGES, mixture_path(table, starts, _SHRINKAGES), strict=True
        ):
            each = np.stack([_log_densities(mixture, judges) for mixture in mixtures])
            logs = log_sum_exp(each, axis=0) - np.log(len(each))
            logs += still_to_gain * (logs - np.mean(each, axis=0))
            likelihood = float(np.average(logs, weights=counts))
            if likelihood > found.held_out:
                error = float(np.sqrt(np.average((logs - likelihood) ** 2, weights=counts)))
                error /= np.sqrt(len(rows))
                found = AverageSearch(size, shrinkage, likelihood, error)
            by_itself = float(np.average(each.mean(axis=0), weights=counts))
            if by_itself < alone:
                break
            alone = by_itself
        if alone < highest_alone - _FALLEN_BEHIND:
            break
        highest_alone = max(highest_alone, alone)
        if found.held_out > best.held_out:
            best = found
        elif found.held_out < best.held_out - _FALLEN_BEHIND:
            break
    if best.n_components > 1:
        best = best._replace(n_components=round(best.n_components * len(rows) / n_train))
    return best._replace(pseudo_rows=table.pseudo_rows)


def _room(n_rows: int, size: int) -> float:
    """Components for which there are rows."""
    return n_rows / (_ROWS_PER_COMPONENT if size <= LARGEST else _ROWS_PER_FURTHER)


def _pseudo_rows_chosen(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    judges: Float[np.ndarray, "k d"],
    counts: Float[np.ndarray, " k"],
    seed: int,
) -> MonomialTable:
    """The rows, with as many of a standard normal as suits one Gaussian best."""
    n_columns = rows.shape[1]
    tables = [MonomialTable(rows, weights)]
    if len(rows) < FEW_ROWS_PER_COLUMN * n_columns:
        more = [factor * n_columns for factor in _PSEUDO_ROWS]
        tables += [MonomialTable(rows, weights, pseudo_rows) for pseudo_rows in more]
    if len(tables) == 1:
        return tables[0]
    likelihoods = []
    for table in tables:
        (mixture,) = next(mixture_path(table, [Start(1, seed)], [_SHRINKAGES[0]]))
        likelihoods.append(np.average(_log_densities(mixture, judges), weights=counts))
    return tables[int(np.argmax(likelihoods))]


class Average(NamedTuple):
    """Mixtures of several sizes and starts."""

    mixtures: tuple[GaussianMixtureDensity, ...]

    def density(self) -> GaussianMixtureDensity:
        """All components together, and the wide one."""
        count, n_columns = len(self.mixtures), self.mixtures[0].means.shape[1]
        share = (1 - _WIDE_WEIGHT) / count
        wide = _WIDE**2 * np.eye(n_columns)[None]
        return GaussianMixtureDensity(
            np.concatenate([[_WIDE_WEIGHT], *(share * one.weights for one in self.mixtures)]),
            np.concatenate([np.zeros((1, n_columns)), *(one.means for one in self.mixtures)]),
            np.concatenate([wide, *(one.covariances for one in self.mixtures)]),
        )


def fit_average(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    search: AverageSearch,
    seed: int,
    n_averaged: int = _N_AVERAGED,
) -> Average:
    """Several mixtures of about the chosen size, on all rows."""
    starts = _n_starts(search.n_components, rows.shape[1], n_averaged)
    table = MonomialTable(rows, weights, search.pseudo_rows)
    sizes = np.resize([factor * search.n_components for factor in _FACTORS], starts)
    sizes = np.clip(np.round(sizes), 1, max(1, len(rows) // _ROWS_PER_COMPONENT)).astype(int)
    each = [Start(int(size), seed + number) for number, size in enumerate(sizes)]
    return Average(tuple(next(mixture_path(table, each, [search.shrinkage]))))


def refit_average(
    average: Average,
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    search: AverageSearch,
) -> Average:
    """The same mixtures, improved with other rows."""
    table = MonomialTable(rows, weights, search.pseudo_rows)
    return Average(tuple(improved_mixtures(average.mixtures, table, search.shrinkage)))


def _n_starts(size: int, n_columns: int, n_averaged: int) -> int:
    """How many mixtures of a size are averaged."""
    most = min(_MOST_COMPONENTS, _MOST_NUMBERS // n_columns**2)
    return 1 if size == 1 else min(n_averaged, max(2, most // size))


def held_out_logs(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    held: Bool[np.ndarray, " n"],
    seed: int,
) -> Float[np.ndarray, " k"]:
    """Held-out log densities of mixtures of middling size: enough to compare coordinates by.

    Averages of a few, since where a single one begins can make more of a difference than the
    coordinates.
    """
    count = int((~held).sum())
    size = max(1, min(8, count // 20), min(32, count // 80))
    table = MonomialTable(rows[~held], weights[~held])
    starts = [Start(size, seed + number) for number in range(_N_COMPARED if size > 1 else 1)]
    mixtures = next(mixture_path(table, starts, [_SHRINKAGES[0]]))
    each = np.stack([_log_densities(mixture, rows[held]) for mixture in mixtures])
    return log_sum_exp(each, axis=0) - np.log(len(each))


def _log_densities(
    mixture: GaussianMixtureDensity, rows: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, " n"]:
    """Of a mixture and the wide component."""
    logs = log_sum_exp(mixture.component_log_densities(rows), axis=1)
    n_columns = rows.shape[1]
    wide = -(rows**2).sum(axis=1) / 2 / _WIDE**2 - n_columns * np.log(_WIDE * np.sqrt(2 * np.pi))
    return np.logaddexp(logs + np.log1p(-_WIDE_WEIGHT), wide + np.log(_WIDE_WEIGHT))
