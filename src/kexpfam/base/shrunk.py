"""Gaussian mixtures by expectation–maximization, their covariances shrunk to a common one.

    Σ_k = (N_k S_k + ν W + κ I)/(N_k + ν + κ) + floor,     W = Σ_k N_k S_k / Σ_k N_k,

as if ν more rows of the average kind had been seen in every component (Friedman 1989), and κ of a
standard normal, where rows are few for their columns. Rows have weights; the sums over them are
made in `kexpfam.base.monomial_tables`.

| symbol | name        | shape     |
|--------|-------------|-----------|
| N_k    | masses      | (k,)      |
| μ_k    | means       | (k, d)    |
| Σ_k    | covariances | (k, d, d) |
| ν      | shrinkage   | ()        |
| κ      | pseudo_rows | ()        |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import isqrt

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.clusters import Clusters, Start, clusters_of
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.monomial_tables import (
    JoinedMixtures,
    MonomialTable,
    SeveralTables,
    StreamedTable,
)
from kexpfam.symmetric import half_places

__all__ = ["CONVERGED", "improved_mixtures", "mixture_path", "nearly_converged"]

# What is added to variances, and what rounding may take from them relative to a mean's square.
_FLOOR, _ROUNDING = 1e-4, 1e-6
# Expectation–maximization stops when an iteration gains less than this, in nats a row.
CONVERGED = 3e-3
_MOST_ITERATIONS = 30
# The same for each column, where mixtures are only compared or rows placed by them.
_NEARLY = 3e-4
# Finding them takes longer than using them.
_places = cache(half_places)


def nearly_converged(n_columns: int) -> float:
    """When to stop where mixtures are no density yet: they are compared, or place rows."""
    return max(CONVERGED, _NEARLY * n_columns)


def mixture_path(
    table: MonomialTable | SeveralTables,
    starts: Sequence[Start],
    shrinkages: Sequence[float],
    converged: float = CONVERGED,
) -> Iterator[list[GaussianMixtureDensity]]:
    """A mixture for each start, for ever weaker shrinkage: each continues from the one before.

    Where there are several tables, each has a start.
    """
    mixtures = _clustered(table, starts)
    for number, shrinkage in enumerate(shrinkages, 1):
        # On the way to weaker shrinkage there is no need to arrive.
        most = _MOST_ITERATIONS if number == len(shrinkages) else _MOST_ITERATIONS // 2
        mixtures = improved_mixtures(mixtures, table, shrinkage, most, converged)
        yield mixtures


def _clustered(
    table: MonomialTable | SeveralTables, starts: Sequence[Start]
) -> list[GaussianMixtureDensity]:
    """Clusters of rows as components with one covariance."""
    if isinstance(table, SeveralTables):
        pairs = zip(table.tables, starts, strict=True)
        return [mixture for own, start in pairs for mixture in _clustered(own, [start])]
    found = clusters_of(table.rows, table.weights, starts)
    return [_one_covariance(table, clusters) for clusters in found]


def _one_covariance(table: MonomialTable, clusters: Clusters) -> GaussianMixtureDensity:
    centers, labels = clusters
    away = table.rows - centers[labels]
    within = (away * table.shares[:, None]).T @ away + _FLOOR * np.eye(away.shape[1])
    masses = np.bincount(labels, table.shares, minlength=len(centers)) + 1e-6
    covariances = np.repeat(within[None], len(centers), axis=0)
    return GaussianMixtureDensity(masses / masses.sum(), centers, covariances)


def improved_mixtures(
    mixtures: Sequence[GaussianMixtureDensity],
    table: MonomialTable | SeveralTables | StreamedTable,
    shrinkage: float,
    most_iterations: int = _MOST_ITERATIONS,
    converged: float = CONVERGED,
) -> list[GaussianMixtureDensity]:
    """Expectation–maximization of each mixture until it gains little."""
    joined, going_on = JoinedMixtures.of(mixtures), np.arange(len(mixtures))
    found, reached = list(mixtures), np.full(len(mixtures), -np.inf)

    def keep(numbers: Int[np.ndarray, " s"], some: JoinedMixtures) -> None:
        for number, mixture in zip(numbers, some.apart(), strict=True):
            found[number] = mixture

    for _ in range(most_iterations):
        likelihoods, sums, *_ = table.expected(joined, going_on)
        gaining = likelihoods - reached >= converged
        if not gaining.all():
            keep(going_on[~gaining], joined.where(~gaining))
            sums, joined = sums[np.repeat(gaining, joined.sizes)], joined.where(gaining)
            going_on, likelihoods = going_on[gaining], likelihoods[gaining]
        if not len(going_on):
            break
        reached = likelihoods
        counts = table.counts(going_on)
        joined = _maximized(sums, joined.sizes, counts, shrinkage, table.pseudo_rows)
    keep(going_on, joined)
    return found


def _maximized(
    sums: Float[np.ndarray, "k p"],
    sizes: tuple[int, ...],
    counts: Float[np.ndarray, " s"],
    shrinkage: float,
    pseudo_rows: float,
) -> JoinedMixtures:
    """The next mixtures, of these sizes and for so many rows, from the sums of all components."""
    # Of d columns there are (d + 1)(d + 2)/2 monomials.
    n_columns = (isqrt(8 * sums.shape[1] + 1) - 3) // 2
    starts = np.cumsum([0, *sizes[:-1]])
    shares = np.maximum(sums[:, 0], 1e-300)
    averages = sums / shares[:, None]
    means = averages[:, 1 : n_columns + 1]
    scatters = averages[:, n_columns + 1 :][:, _places(n_columns)]
    scatters -= means[:, :, None] * means[:, None, :]
    masses = np.repeat(counts, sizes) * shares
    totals = np.add.reduceat(shares, starts)
    within = np.add.reduceat(shares[:, None, None] * scatters, starts) / totals[:, None, None]
    covariances = masses[:, None, None] * scatters
    covariances += shrinkage * np.repeat(within, sizes, axis=0)
    covariances /= (masses + shrinkage + pseudo_rows)[:, None, None]
    floors = _FLOOR + _ROUNDING * (means**2).sum(axis=1)
    floors += pseudo_rows / (masses + shrinkage + pseudo_rows)
    diagonal = np.arange(n_columns)
    covariances[:, diagonal, diagonal] += floors[:, None]
    weights = (masses + 1) / np.repeat(np.add.reduceat(masses + 1, starts), sizes)
    try:
        factors = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        covariances = _made_positive(covariances)
        factors = np.linalg.cholesky(covariances)
    return JoinedMixtures(weights, means, covariances, factors, sizes)


def _made_positive(covariances: Float[np.ndarray, "k d d"]) -> Float[np.ndarray, "k d d"]:
    """Without directions that rounding has made negative, as a value far from all others can."""
    values, vectors = np.linalg.eigh(covariances)
    values = np.maximum(values, _ROUNDING * np.abs(values).max(axis=1, keepdims=True))
    return (vectors * values[:, None]) @ vectors.transpose(0, 2, 1)
