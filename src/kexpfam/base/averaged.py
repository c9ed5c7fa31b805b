"""An average of Gaussian mixtures, each shrunk towards shared covariances.

    q0 = (1 − w) mean over starts s of Σ_k π_sk N(μ_sk, Σ_sk)  +  w N(0, wide² I)

A mixture with full covariances has more parameters than a table has rows for; those here share what
they have in common (see `kexpfam.base.shrunk`), and with many small components become a compressed
kernel density estimate. Size and shrinkage are chosen on held-out rows, and mixtures from several
starts are averaged, which removes what is accidental in each: the choice is made for averages of
two, since averaging wants larger and looser mixtures than a single fit. One wide component of small
weight w covers rows far from all others. Rows are expected whitened, or nearly so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from kexpfam.base.density import require_rows
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.shrunk import RowTable, improve_mixture, mixture_path
from kexpfam.data.sketch import Sketch
from kexpfam.progress import Progress

__all__ = [
    "Average",
    "AverageSearch",
    "AveragedMixtureBase",
    "choose_average",
    "fit_average",
    "held_out_logs",
]

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SHRINKAGES = (60.0, 20.0, 6.0, 2.0)
# Rows a component needs at least, and rows for which one more component is sure to pay.
_ROWS_PER_COMPONENT, _TOO_MANY_ROWS = 8, 500
_N_AVERAGED, _MOST_COMPONENTS = 5, 512
_ONE_HELD_OUT_OF = 5
# By how many standard errors a size may fall behind the best and still be taken, and by how many
# nats, and larger ones still be tried.
_NO_WORSE, _FALLEN_BEHIND = 0.5, 0.1
# A single mixture that is so far behind the best single one will not catch up in an average.
_FAR_BEHIND = 0.2
# To move a mixture to a few more rows.
_REFIT_ITERATIONS = 6
_WIDE, _WIDE_WEIGHT = 3.0, 3e-4


class AverageSearch(NamedTuple):
    """Size and shrinkage of averaged mixtures, the held-out likelihood of two, and those two.

    `error` is the standard error of a mean log density over as many rows as there are.
    """

    n_components: int
    shrinkage: float
    held_out: float
    error: float
    mixtures: tuple[GaussianMixtureDensity, ...]


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
        search = choose_average(sketch.rows, sketch.weights, held, seed, Progress())
        average = fit_average(sketch.rows, sketch.weights, search, seed, self.n_averaged)
        return average.density()


def choose_average(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    held: Bool[np.ndarray, " n"],
    seed: int,
    progress: Progress,
) -> AverageSearch:
    """Size and shrinkage with the best held-out likelihood of an average of two."""
    best = AverageSearch(1, _SHRINKAGES[0], -np.inf, 0.0, ())
    highest = highest_alone = -np.inf
    table, judges, counts = RowTable(rows[~held], weights[~held]), rows[held], weights[held]
    n_train = len(table.rows)
    fewest = min(8, n_train // _TOO_MANY_ROWS)
    sizes = [
        size
        for size in _SIZES
        if size == 1 or max(2, fewest) <= size <= n_train / _ROWS_PER_COMPONENT
    ]
    for size in progress.track(sizes, "base density"):
        path: list[GaussianMixtureDensity] = []
        alone = -np.inf
        for mixture in mixture_path(table, size, seed, _SHRINKAGES):
            path.append(mixture)
            likelihood = float(np.average(_log_densities([mixture], judges), weights=counts))
            if likelihood < alone:
                break
            alone = likelihood
        if alone < highest_alone - _FAR_BEHIND:
            break
        highest_alone = max(highest_alone, alone)
        shrinkages = _SHRINKAGES[: len(path)]
        others = [mixture_path(table, size, seed + 1, shrinkages)] if size > 1 else []
        found = AverageSearch(size, shrinkages[0], -np.inf, 0.0, ())
        for shrinkage, mixtures in zip(shrinkages, zip(path, *others, strict=True), strict=True):
            logs = _log_densities(mixtures, judges)
            likelihood = float(np.average(logs, weights=counts))
            if likelihood > found.held_out:
                error = float(np.sqrt(np.average((logs - likelihood) ** 2, weights=counts)))
                error /= np.sqrt(len(rows))
                found = AverageSearch(size, shrinkage, likelihood, error, mixtures)
        highest = max(highest, found.held_out)
        # With all rows and more to average, larger mixtures will do better than they do here.
        if found.held_out >= highest - _NO_WORSE * found.error:
            best = found
        elif found.held_out < highest - _FALLEN_BEHIND:
            break
    return best


class Average(NamedTuple):
    """Mixtures of the same kind from several starts."""

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
    """Several mixtures of the chosen kind, on all rows; the search's own are only moved to them."""
    most = max(2, _MOST_COMPONENTS // search.n_components)
    starts = 1 if search.n_components == 1 else min(n_averaged, most)
    table = RowTable(rows, weights)
    mixtures = [
        improve_mixture(one, table, search.shrinkage, _REFIT_ITERATIONS)
        for one in search.mixtures[:starts]
    ]
    for start in range(len(mixtures), starts):
        path = mixture_path(table, search.n_components, seed + start, [search.shrinkage])
        mixtures.append(next(path))
    return Average(tuple(mixtures))


def held_out_logs(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    held: Bool[np.ndarray, " n"],
    seed: int,
) -> Float[np.ndarray, " k"]:
    """Held-out log densities of one mixture of middling size: enough to compare coordinates by."""
    size = max(1, min(8, int((~held).sum()) // 20))
    path = mixture_path(RowTable(rows[~held], weights[~held]), size, seed, [_SHRINKAGES[0]])
    return _log_densities([next(path)], rows[held])


def _log_densities(
    mixtures: Sequence[GaussianMixtureDensity], rows: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, " n"]:
    """Of an average of mixtures and the wide component."""
    logs = [logsumexp(mixture.component_log_densities(rows), axis=1) for mixture in mixtures]
    average = logsumexp(logs, axis=0) - np.log(len(mixtures))
    n_columns = rows.shape[1]
    wide = -(rows**2).sum(axis=1) / 2 / _WIDE**2 - n_columns * np.log(_WIDE * np.sqrt(2 * np.pi))
    return np.logaddexp(average + np.log1p(-_WIDE_WEIGHT), wide + np.log(_WIDE_WEIGHT))
