"""One Gaussian mixture by expectation–maximization, its covariances shrunk to a common one.

    Σ_k = (N_k S_k + ν W + κ I)/(N_k + ν + κ) + floor,     W = Σ_k N_k S_k / Σ_k N_k,

as if ν more rows of the average kind had been seen in every component (Friedman 1989), and κ of a
standard normal, where rows are few for their columns. Rows have weights. The log densities of all
components are one matrix product with the monomials 1, x_i and x_i x_j (i ≤ j) of a row, and their
sums, means and second moments are another; both in single precision, which takes half the time, and
what it rounds off is below the floor. Sums over blocks add up: rows may be in memory, or visited in
each iteration wherever they are.

| symbol | name        | shape     |
|--------|-------------|-----------|
| N_k    | masses      | (k,)      |
| μ_k    | means       | (k, d)    |
| Σ_k    | covariances | (k, d, d) |
| ν      | shrinkage   | ()        |
| κ      | pseudo_rows | ()        |
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import compress, pairwise
from math import isqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from kexpfam.base.device_sums import summed_on_device
from kexpfam.base.expected_sums import ExpectedSums
from kexpfam.base.mixture import GaussianMixtureDensity, Polynomials
from kexpfam.data.rows import Chunk, RowSource
from kexpfam.precision import is_accelerated
from kexpfam.symmetric import form_coefficients
from kexpfam.threads import one_blas_thread

__all__ = [
    "MonomialTable",
    "Start",
    "StreamedTable",
    "improved_mixtures",
    "mixture_path",
    "monomials",
]

# What is added to variances, and what rounding may take from them relative to a mean's square.
_FLOOR, _ROUNDING = 1e-4, 1e-6
# Expectation–maximization stops when an iteration gains less than this, in nats a row.
_CONVERGED = 3e-3
# Numbers in a block of monomials, and in a row of one at least: there may be more components.
_BLOCK_NUMBERS, _FEWEST_NUMBERS = 2_000_000, 256
# Of such numbers, as many are kept between iterations (a quarter of a gigabyte).
_MOST_KEPT = 64_000_000
# Numbers of members in a block: rows times components of all mixtures.
_MOST_MEMBERS = 4_000_000
_MOST_ITERATIONS, _CLUSTER_ITERATIONS = 30, 8


class MonomialTable:
    """Rows with their shares, and their monomials 1, x_i and x_i x_j (i ≤ j) by blocks.

    The monomials turn all quadratic forms into one matrix product. They are kept while they fit.
    """

    def __init__(
        self,
        rows: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, " n"],
        pseudo_rows: float = 0.0,
    ) -> None:
        self.rows, self.weights, self.pseudo_rows = rows, weights, pseudo_rows
        self.shares = weights / weights.sum()
        # How many rows of equal weight would be as certain (Kish).
        self.count = float(1 / (self.shares**2).sum())
        n_monomials = (rows.shape[1] + 1) * (rows.shape[1] + 2) // 2
        self._size = _block_rows(n_monomials)
        self._kept: list[np.ndarray] = []
        if len(rows) * n_monomials <= _MOST_KEPT:
            self._kept = [monomials(rows[part]) for part in _parts(len(rows), self._size)]

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number, part in enumerate(_parts(len(self.rows), self._size)):
            kept = self._kept[number] if self._kept else monomials(self.rows[part])
            yield self.shares[part], kept

    def expected(self, mixtures: Sequence[GaussianMixtureDensity]) -> ExpectedSums:
        """The likelihood of each mixture, and sums of monomials over rows, by component."""
        return Expectation.under(mixtures).total(self.blocks())


class StreamedTable:
    """Rows of sources, which are visited in every iteration and never held.

    `count` is known after the first visit.
    """

    def __init__(self, sources: Sequence[RowSource], pseudo_rows: float = 0.0) -> None:
        self._sources, self.pseudo_rows = sources, pseudo_rows
        self.count = np.nan

    def expected(self, mixtures: Sequence[GaussianMixtureDensity]) -> ExpectedSums:
        """The same over all sources."""
        step = Expectation.under(mixtures)
        parts = (source.total(step, ExpectedSums.joined, "mixture") for source in self._sources)
        total = reduce(ExpectedSums.joined, parts)
        self.count = total.weight**2 / total.squares
        return ExpectedSums(
            total.likelihoods / total.weight, total.sums / total.weight, total.weight, total.squares
        )


@dataclass(frozen=True)
class Expectation:
    """The expectation step of several mixtures, as a summary of chunks.

    All mixtures in one go: the monomials are many, and reading them takes longer than multiplying
    them with the few components of one mixture.
    """

    polynomials: Float[np.ndarray, "k p"]
    sizes: tuple[int, ...]

    @classmethod
    def under(cls, mixtures: Sequence[GaussianMixtureDensity]) -> Expectation:
        polynomials = np.concatenate([_log_polynomials(mixture) for mixture in mixtures])
        sizes = tuple(len(mixture.weights) for mixture in mixtures)
        return cls(polynomials.astype(np.float32), sizes)

    @property
    def parts(self) -> list[slice]:
        """Where the components of each mixture are."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(first, last) for first, last in pairwise([0, *ends])]

    def __call__(self, chunks: Iterable[Chunk]) -> ExpectedSums:
        if is_accelerated():
            return summed_on_device(self.polynomials, self.sizes, chunks)
        size = _block_rows(self.polynomials.shape[1])
        return self.total(
            (chunk.weights[part], monomials(chunk.rows[part]))
            for chunk in chunks
            for part in _parts(len(chunk.weights), size)
        )

    def total(self, blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> ExpectedSums:
        """Over blocks of weights and monomials."""
        likelihoods, sums = np.zeros(len(self.sizes)), np.zeros(self.polynomials.shape)
        weight = squares = 0.0
        for shares, products in self._smaller(blocks):
            weight, squares = weight + float(shares.sum()), squares + float(shares @ shares)
            members = self.polynomials @ products.T
            for number, part in enumerate(self.parts):
                own = members[part]
                highest = own.max(axis=0)
                np.exp(np.subtract(own, highest, out=own), out=own)
                totals = own.sum(axis=0)
                likelihoods[number] += shares @ (np.log(totals) + highest)
                own *= (shares / totals).astype(np.float32)
            sums += members @ products
        return ExpectedSums(likelihoods, sums, weight, squares)

    def _smaller(
        self, blocks: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Blocks of fewer rows, where components are many."""
        most = _MOST_MEMBERS // len(self.polynomials)
        for shares, products in blocks:
            if len(shares) <= most:
                yield shares, products
                continue
            for part in _parts(len(shares), max(16, most)):
                yield shares[part], products[part]


def _block_rows(n_monomials: int) -> int:
    return max(16, _BLOCK_NUMBERS // max(n_monomials, _FEWEST_NUMBERS))


def _parts(n_rows: int, size: int) -> Iterator[slice]:
    return (slice(at, at + size) for at in range(0, n_rows, size))


def monomials(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    """1, x_i and x_i x_j (i ≤ j), in single precision."""
    single = np.concatenate([np.ones((len(rows), 1)), rows], axis=1).astype(np.float32)
    columns = range(single.shape[1])
    return np.concatenate([single[:, i : i + 1] * single[:, i:] for i in columns], axis=1)


class Start(NamedTuple):
    """How many components, and where they begin."""

    n_components: int
    seed: int


def mixture_path(
    table: MonomialTable, starts: Sequence[Start], shrinkages: Sequence[float]
) -> Iterator[list[GaussianMixtureDensity]]:
    """A mixture for each start, for ever weaker shrinkage: each goes on from the one before."""
    mixtures = [_clustered(table, start) for start in starts]
    for number, shrinkage in enumerate(shrinkages, 1):
        # On the way to weaker shrinkage there is no need to arrive.
        most = _MOST_ITERATIONS if number == len(shrinkages) else _MOST_ITERATIONS // 2
        mixtures = improved_mixtures(mixtures, table, shrinkage, most)
        yield mixtures


def _clustered(table: MonomialTable, start: Start) -> GaussianMixtureDensity:
    """Clusters of rows as components with one covariance."""
    rows, shares, size = table.rows, table.shares, start.n_components
    clusters = KMeans(size, n_init=1, max_iter=_CLUSTER_ITERATIONS, random_state=start.seed % 2**32)
    # Its threads wait for each other after every pass over a few rows: with other work on the
    # machine, two took eight times as long as one.
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = clusters.fit(rows, sample_weight=table.weights).labels_
    centers = clusters.cluster_centers_
    spread = (rows - centers[labels]) * shares[:, None]
    within = spread.T @ (rows - centers[labels]) + _FLOOR * np.eye(rows.shape[1])
    masses = np.bincount(labels, shares, minlength=size) + 1e-6
    return GaussianMixtureDensity(masses / masses.sum(), centers, np.array([within] * size))


def improved_mixtures(
    mixtures: Sequence[GaussianMixtureDensity],
    table: MonomialTable | StreamedTable,
    shrinkage: float,
    most_iterations: int = _MOST_ITERATIONS,
) -> list[GaussianMixtureDensity]:
    """Expectation–maximization of each mixture until it gains little."""
    found, going_on = list(mixtures), list(range(len(mixtures)))
    reached = np.full(len(mixtures), -np.inf)
    for _ in range(most_iterations):
        some = [found[number] for number in going_on]
        likelihoods, sums, *_ = table.expected(some)
        gaining = likelihoods - reached[going_on] >= _CONVERGED
        reached[going_on] = likelihoods
        going_on = [number for number, gains in zip(going_on, gaining, strict=True) if gains]
        ends = np.cumsum([len(mixture.weights) for mixture in some])[:-1]
        for number, own in zip(going_on, compress(np.split(sums, ends), gaining), strict=True):
            found[number] = _maximized(own, table, shrinkage)
        if not going_on:
            break
    return found


def _log_polynomials(mixture: GaussianMixtureDensity) -> Float[np.ndarray, "k p"]:
    """Log densities of the components as sums of monomials."""
    precisions = np.linalg.inv(mixture.covariances)
    parts = Polynomials.of(
        np.log(mixture.weights), mixture.means, precisions, np.linalg.slogdet(precisions)[1]
    )
    forms = -form_coefficients(parts.halves, mixture.means.shape[1]) / 2
    return np.concatenate([parts.constants[:, None], parts.pulls, forms], axis=1)


def _maximized(
    sums: Float[np.ndarray, "k p"], table: MonomialTable | StreamedTable, shrinkage: float
) -> GaussianMixtureDensity:
    # Of d columns there are (d + 1)(d + 2)/2 monomials.
    n_columns = (isqrt(8 * sums.shape[1] + 1) - 3) // 2
    one, other = np.triu_indices(n_columns)
    shares = np.maximum(sums[:, 0], 1e-300)
    averages = sums / shares[:, None]
    means = averages[:, 1 : n_columns + 1]
    scatters = np.empty((len(shares), n_columns, n_columns))
    scatters[:, one, other] = scatters[:, other, one] = averages[:, n_columns + 1 :]
    scatters -= means[:, :, None] * means[:, None, :]
    masses = table.count * shares
    within = np.einsum("k,kij->ij", shares, scatters) / shares.sum()
    weighted = masses[:, None, None] * scatters + shrinkage * within
    weighted += table.pseudo_rows * np.eye(n_columns)
    covariances = weighted / (masses + shrinkage + table.pseudo_rows)[:, None, None]
    floors = _FLOOR + _ROUNDING * (means**2).sum(axis=1)
    covariances += floors[:, None, None] * np.eye(n_columns)
    if np.linalg.eigvalsh(covariances)[:, 0].min() <= 0:
        covariances = _made_positive(covariances)
    weights = (masses + 1) / (masses + 1).sum()
    return GaussianMixtureDensity(weights, means, covariances)


def _made_positive(covariances: Float[np.ndarray, "k d d"]) -> Float[np.ndarray, "k d d"]:
    """Without directions that rounding has made negative, as a value far from all others can."""
    values, vectors = np.linalg.eigh(covariances)
    values = np.maximum(values, _ROUNDING * np.abs(values).max(axis=1, keepdims=True))
    return (vectors * values[:, None]) @ vectors.transpose(0, 2, 1)
