"""An average of Gaussian mixtures, each shrunk towards shared covariances.

A mixture with full covariances has more parameters than a table has rows for. Expectation–
maximisation is therefore run with covariances that are drawn together (Friedman 1989),

    Σ_k = (N_k S_k + ν W)/(N_k + ν) + floor,     W = Σ_k N_k S_k / Σ_k N_k,

as if ν more rows of the average kind had been seen in every component: with many small components
the mixture becomes a compressed kernel density estimate. Size and ν are chosen on held-out rows,
and mixtures from several starts are averaged, which removes what is accidental in each: the choice
is made for averages of two, since averaging wants larger and looser mixtures than a single fit. One
wide component of small weight covers rows far from all others.

| symbol | name        | shape     |
|--------|-------------|-----------|
| N_k    | masses      | (k,)      |
| μ_k    | means       | (k, d)    |
| Σ_k    | covariances | (k, d, d) |
| ν      | shrinkage   | ()        |
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from kexpfam.base.density import require_rows
from kexpfam.base.mixture import GaussianMixtureDensity
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
_FLOOR = 1e-4
_MOST_ITERATIONS, _REFIT_ITERATIONS = 30, 6
# Expectation–maximisation stops when an iteration gains less than this, in nats a row.
_CONVERGED = 3e-3
# Numbers in a block of products of columns.
_BLOCK_NUMBERS = 2_000_000
# Of such numbers, as many are kept between iterations (a quarter of a gigabyte).
_MOST_KEPT = 32_000_000
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
    table, judges, counts = _Table(rows[~held], weights[~held]), rows[held], weights[held]
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
        for mixture in _path(table, size, seed, _SHRINKAGES):
            path.append(mixture)
            likelihood = float(np.average(_log_densities([mixture], judges), weights=counts))
            if likelihood < alone:
                break
            alone = likelihood
        if alone < highest_alone - _FAR_BEHIND:
            break
        highest_alone = max(highest_alone, alone)
        shrinkages = _SHRINKAGES[: len(path)]
        others = [_path(table, size, seed + 1, shrinkages)] if size > 1 else []
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
    table = _Table(rows, weights)
    mixtures = [
        _improved(one, table, search.shrinkage, _REFIT_ITERATIONS)
        for one in search.mixtures[:starts]
    ]
    for start in range(len(mixtures), starts):
        path = _path(table, search.n_components, seed + start, [search.shrinkage])
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
    path = _path(_Table(rows[~held], weights[~held]), size, seed, [_SHRINKAGES[0]])
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


class _Table:
    """Rows with their shares, and the products x_i x_j (i ≤ j) of their columns by blocks.

    The products turn all quadratic forms into one matrix product. They are kept while they fit.
    """

    def __init__(self, rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> None:
        self.rows, self.weights = rows, weights
        self.shares = weights / weights.sum()
        # How many rows of equal weight would be as certain (Kish).
        self.count = float(1 / (self.shares**2).sum())
        n_products = rows.shape[1] * (rows.shape[1] + 1) // 2
        self._size = max(256, _BLOCK_NUMBERS // n_products)
        self._kept: list[np.ndarray] = []
        if len(rows) * n_products <= _MOST_KEPT:
            self._kept = [_products(rows[part]) for part in self._parts()]

    def _parts(self) -> Iterator[slice]:
        return (slice(at, at + self._size) for at in range(0, len(self.rows), self._size))

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for number, part in enumerate(self._parts()):
            piece = self.rows[part]
            products = self._kept[number] if self._kept else _products(piece)
            yield piece, self.shares[part], products


def _products(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    return np.concatenate([rows[:, i : i + 1] * rows[:, i:] for i in range(rows.shape[1])], axis=1)


def _path(
    table: _Table, size: int, seed: int, shrinkages: Sequence[float]
) -> Iterator[GaussianMixtureDensity]:
    """Mixtures of one size for ever weaker shrinkage, each started from the one before."""
    rows, shares = table.rows, table.shares
    clusters = KMeans(size, n_init=1, max_iter=50, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = clusters.fit(rows, sample_weight=table.weights).labels_
    centers = clusters.cluster_centers_
    spread = (rows - centers[labels]) * shares[:, None]
    within = spread.T @ (rows - centers[labels]) + _FLOOR * np.eye(rows.shape[1])
    masses = np.bincount(labels, shares, minlength=size) + 1e-6
    mixture = GaussianMixtureDensity(masses / masses.sum(), centers, np.array([within] * size))
    for number, shrinkage in enumerate(shrinkages, 1):
        # On the way to weaker shrinkage there is no need to arrive.
        most = _MOST_ITERATIONS if number == len(shrinkages) else _MOST_ITERATIONS // 2
        mixture = _improved(mixture, table, shrinkage, most)
        yield mixture


def _improved(
    mixture: GaussianMixtureDensity,
    table: _Table,
    shrinkage: float,
    most_iterations: int,
) -> GaussianMixtureDensity:
    """Expectation–maximisation until it gains little."""
    last = -np.inf
    for _ in range(most_iterations):
        sums = _expected(mixture, table)
        if sums.likelihood - last < _CONVERGED:
            break
        last = sums.likelihood
        mixture = _maximized(sums, table.count, shrinkage)
    return mixture


class _Sums(NamedTuple):
    """Over rows, by component: shares, shares times rows and times products of their columns."""

    likelihood: float
    shares: Float[np.ndarray, " k"]
    firsts: Float[np.ndarray, "k d"]
    seconds: Float[np.ndarray, "k p"]


def _expected(mixture: GaussianMixtureDensity, table: _Table) -> _Sums:
    """Who belongs where, summed."""
    n_columns = table.rows.shape[1]
    one, other = np.triu_indices(n_columns)
    precisions = np.linalg.inv(mixture.covariances)
    pulls = np.einsum("kij,kj->ki", precisions, mixture.means)
    constants = np.log(mixture.weights) + np.linalg.slogdet(precisions)[1] / 2
    constants -= (pulls * mixture.means).sum(axis=1) / 2 + n_columns / 2 * np.log(2 * np.pi)
    # Both x_i x_j and x_j x_i stand in the form.
    forms = -np.where(one == other, 0.5, 1.0) * precisions[:, one, other]
    likelihood = 0.0
    sums = [np.zeros(len(pulls)), np.zeros(pulls.shape), np.zeros((len(pulls), len(one)))]
    for piece, shares, products in table.blocks():
        logs = products @ forms.T
        logs += piece @ pulls.T
        logs += constants
        highest = logs.max(axis=1, keepdims=True)
        members = np.exp(np.subtract(logs, highest, out=logs), out=logs)
        totals = members.sum(axis=1)
        likelihood += float(shares @ (np.log(totals) + highest[:, 0]))
        members *= (shares / totals)[:, None]
        sums[0] += members.sum(axis=0)
        sums[1] += members.T @ piece
        sums[2] += members.T @ products
    return _Sums(likelihood, *sums)


def _maximized(sums: _Sums, count: float, shrinkage: float) -> GaussianMixtureDensity:
    n_columns = sums.firsts.shape[1]
    one, other = np.triu_indices(n_columns)
    shares = np.maximum(sums.shares, 1e-300)
    means = sums.firsts / shares[:, None]
    scatters = np.empty((len(shares), n_columns, n_columns))
    scatters[:, one, other] = scatters[:, other, one] = sums.seconds / shares[:, None]
    scatters -= means[:, :, None] * means[:, None, :]
    masses = count * shares
    within = np.einsum("k,kij->ij", shares, scatters) / shares.sum()
    weighted = masses[:, None, None] * scatters + shrinkage * within
    covariances = weighted / (masses + shrinkage)[:, None, None] + _FLOOR * np.eye(n_columns)
    weights = (masses + 1) / (masses + 1).sum()
    return GaussianMixtureDensity(weights, means, covariances)
