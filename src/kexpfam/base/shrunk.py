"""One Gaussian mixture by expectation–maximisation, its covariances shrunk to a common one.

    Σ_k = (N_k S_k + ν W)/(N_k + ν) + floor,     W = Σ_k N_k S_k / Σ_k N_k,

as if ν more rows of the average kind had been seen in every component (Friedman 1989). Rows have
weights. The quadratic forms of all components are one matrix product with the products x_i x_j
(i ≤ j) of a row's columns, and so are their second moments.

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
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from kexpfam.base.mixture import GaussianMixtureDensity

__all__ = ["RowTable", "mixture_path"]

_FLOOR = 1e-4
# Expectation–maximisation stops when an iteration gains less than this, in nats a row.
_CONVERGED = 1e-2
# Numbers in a block of products of columns.
_BLOCK_NUMBERS = 2_000_000
# Of such numbers, as many are kept between iterations (a quarter of a gigabyte).
_MOST_KEPT = 32_000_000
_MOST_ITERATIONS = 30


class RowTable:
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


def mixture_path(
    table: RowTable, size: int, seed: int, shrinkages: Sequence[float]
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
    table: RowTable,
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


def _expected(mixture: GaussianMixtureDensity, table: RowTable) -> _Sums:
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
