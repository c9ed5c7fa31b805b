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

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import isqrt

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.clusters import Start, clusters_of
from kexpfam.base.device_sums import summed_on_device
from kexpfam.base.expected_sums import ExpectedSums
from kexpfam.base.mixture import GaussianMixtureDensity, Polynomials
from kexpfam.data.rows import Chunk, RowSource, make_chunk
from kexpfam.logarithms import shares_of
from kexpfam.precision import is_accelerated
from kexpfam.symmetric import form_coefficients, half_places
from kexpfam.threads import in_threads

__all__ = [
    "MonomialTable",
    "Start",
    "StreamedTable",
    "improved_mixtures",
    "mixture_path",
    "monomials",
    "worth_threads",
]

# What is added to variances, and what rounding may take from them relative to a mean's square.
_FLOOR, _ROUNDING = 1e-4, 1e-6
# Expectation–maximization stops when an iteration gains less than this, in nats a row.
_CONVERGED = 3e-3
# Numbers in a block of monomials, and in a row of one at least: there may be more components.
# Blocks are what threads share among them, and what lies between should stay near the processor.
_BLOCK_NUMBERS, _FEWEST_NUMBERS = 500_000, 256
# Of such numbers, as many are kept between iterations (a quarter of a gigabyte).
_MOST_KEPT = 64_000_000
# Numbers of members in a block: rows times components of all mixtures.
_MOST_MEMBERS = 4_000_000
# Rows for which an accelerator, where there is one, takes less time than it takes to compile.
_FEWEST_ON_DEVICE = 10_000
_MOST_ITERATIONS = 30
# Products in an expectation step, from which threads that take a step each do not wait for each
# other: with fewer, two took up to half as long again as one.
_WORTH_THREADS = 4_000_000


class MonomialTable:
    """Rows with their shares, and their monomials 1, x_i and x_i x_j (i ≤ j) by blocks.

    The monomials turn all quadratic forms into one matrix product. They are kept while they fit.
    Of `copies` of incomplete rows, filled in anew in each, all together count as one table.
    """

    def __init__(
        self,
        rows: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, " n"],
        pseudo_rows: float = 0.0,
        copies: int = 1,
    ) -> None:
        self.rows, self.weights, self.pseudo_rows = rows, weights, pseudo_rows
        self.n_rows = len(rows) // copies
        self.shares = weights / weights.sum()
        # How many rows of equal weight would be as certain (Kish).
        self.count = float(1 / (self.shares**2).sum()) / copies
        n_monomials = (rows.shape[1] + 1) * (rows.shape[1] + 2) // 2
        self._size = _block_rows(n_monomials)
        self._kept: list[np.ndarray] = []
        self._on_device = len(rows) >= _FEWEST_ON_DEVICE and is_accelerated()
        if not self._on_device and len(rows) * n_monomials <= _MOST_KEPT:
            self._kept = [monomials(rows[part]) for part in _parts(len(rows), self._size)]

    def with_pseudo_rows(self, pseudo_rows: float) -> MonomialTable:
        """The same rows and monomials."""
        other = copy(self)
        other.pseudo_rows = pseudo_rows
        return other

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number, part in enumerate(_parts(len(self.rows), self._size)):
            kept = self._kept[number] if self._kept else monomials(self.rows[part])
            yield self.shares[part], kept

    def expected(self, mixtures: Sequence[GaussianMixtureDensity]) -> ExpectedSums:
        """The likelihood of each mixture, and sums of monomials over rows, by component."""
        step = Expectation.under(mixtures)
        if self._on_device:
            return step([make_chunk(self.rows, self.shares)])
        if not self._kept:
            return step.total(self.blocks())
        return reduce(ExpectedSums.joined, in_threads(step.of_block, step.smaller(self.blocks())))


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
        sizes = tuple(len(mixture.weights) for mixture in mixtures)
        return cls(_log_polynomials(mixtures).astype(np.float32), sizes)

    @property
    def parts(self) -> list[slice]:
        """Where the components of each mixture are."""
        return _pieces(self.sizes)

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
        nothing = ExpectedSums(np.zeros(len(self.sizes)), np.zeros(self.polynomials.shape), 0, 0)
        return reduce(ExpectedSums.joined, map(self.of_block, self.smaller(blocks)), nothing)

    def of_block(self, block: tuple[np.ndarray, np.ndarray]) -> ExpectedSums:
        """Of one block."""
        shares, products = block
        likelihoods = np.zeros(len(self.sizes))
        members = self.polynomials @ products.T
        for number, part in enumerate(self.parts):
            own = members[part]
            highest = own.max(axis=0)
            shares_of(np.subtract(own, highest, out=own))
            totals = own.sum(axis=0)
            likelihoods[number] = shares @ (np.log(totals) + highest)
            own *= (shares / totals).astype(np.float32)
        sums = (members @ products).astype(float)
        return ExpectedSums(likelihoods, sums, float(shares.sum()), float(shares @ shares))

    def smaller(
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


def worth_threads(n_rows: int, n_columns: int, n_components: int) -> bool:
    """Whether steps with so many components in all are large enough for threads side by side."""
    n_monomials = (n_columns + 1) * (n_columns + 2) // 2
    return n_rows * n_monomials * n_components >= _WORTH_THREADS


def _block_rows(n_monomials: int) -> int:
    return max(16, _BLOCK_NUMBERS // max(n_monomials, _FEWEST_NUMBERS))


def _parts(n_rows: int, size: int) -> Iterator[slice]:
    return (slice(at, at + size) for at in range(0, n_rows, size))


def monomials(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    """1, x_i and x_i x_j (i ≤ j), in single precision."""
    single = np.concatenate([np.ones((len(rows), 1)), rows], axis=1).astype(np.float32)
    columns = range(single.shape[1])
    return np.concatenate([single[:, i : i + 1] * single[:, i:] for i in columns], axis=1)


def mixture_path(
    table: MonomialTable, starts: Sequence[Start], shrinkages: Sequence[float]
) -> Iterator[list[GaussianMixtureDensity]]:
    """A mixture for each start, for ever weaker shrinkage: each goes on from the one before."""
    mixtures = _clustered(table, starts)
    for number, shrinkage in enumerate(shrinkages, 1):
        # On the way to weaker shrinkage there is no need to arrive.
        most = _MOST_ITERATIONS if number == len(shrinkages) else _MOST_ITERATIONS // 2
        mixtures = improved_mixtures(mixtures, table, shrinkage, most)
        yield mixtures


def _clustered(table: MonomialTable, starts: Sequence[Start]) -> list[GaussianMixtureDensity]:
    """Clusters of rows as components with one covariance."""
    rows, shares, found = table.rows, table.shares, []
    for centers, labels in clusters_of(rows, table.weights, starts):
        away = rows - centers[labels]
        within = (away * shares[:, None]).T @ away + _FLOOR * np.eye(rows.shape[1])
        masses = np.bincount(labels, shares, minlength=len(centers)) + 1e-6
        covariances = np.repeat(within[None], len(centers), axis=0)
        found.append(GaussianMixtureDensity(masses / masses.sum(), centers, covariances))
    return found


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
        if not going_on:
            break
        sizes = np.array([len(mixture.weights) for mixture in some])
        own = sums[np.repeat(gaining, sizes)]
        better = _maximized(own, sizes[gaining], table, shrinkage)
        for number, mixture in zip(going_on, better, strict=True):
            found[number] = mixture
    return found


def _log_polynomials(mixtures: Sequence[GaussianMixtureDensity]) -> Float[np.ndarray, "k p"]:
    """Log densities of the components as sums of monomials."""
    weights, means, covariances = (
        np.concatenate(parts)
        for parts in zip(
            *((one.weights, one.means, one.covariances) for one in mixtures), strict=True
        )
    )
    roots = np.linalg.cholesky(covariances)
    log_determinants = -2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    parts = Polynomials.of(np.log(weights), means, np.linalg.inv(covariances), log_determinants)
    forms = -form_coefficients(parts.halves, means.shape[1]) / 2
    return np.concatenate([parts.constants[:, None], parts.pulls, forms], axis=1)


def _maximized(
    sums: Float[np.ndarray, "k p"],
    sizes: Int[np.ndarray, " s"],
    table: MonomialTable | StreamedTable,
    shrinkage: float,
) -> list[GaussianMixtureDensity]:
    """The next mixtures, of these sizes, from the sums of all their components.

    All in one go: for one mixture of few columns the calls would take longer than the arithmetic.
    """
    # Of d columns there are (d + 1)(d + 2)/2 monomials.
    n_columns = (isqrt(8 * sums.shape[1] + 1) - 3) // 2
    starts = np.cumsum(sizes) - sizes
    shares = np.maximum(sums[:, 0], 1e-300)
    averages = sums / shares[:, None]
    means = averages[:, 1 : n_columns + 1]
    scatters = averages[:, n_columns + 1 :][:, half_places(n_columns)]
    scatters -= means[:, :, None] * means[:, None, :]
    masses = table.count * shares
    totals = np.add.reduceat(shares, starts)
    within = np.add.reduceat(shares[:, None, None] * scatters, starts) / totals[:, None, None]
    covariances = masses[:, None, None] * scatters
    covariances += shrinkage * np.repeat(within, sizes, axis=0)
    covariances /= (masses + shrinkage + table.pseudo_rows)[:, None, None]
    floors = _FLOOR + _ROUNDING * (means**2).sum(axis=1)
    floors += table.pseudo_rows / (masses + shrinkage + table.pseudo_rows)
    diagonal = np.arange(n_columns)
    covariances[:, diagonal, diagonal] += floors[:, None]
    covariances = _made_positive(covariances)
    weights = (masses + 1) / np.repeat(np.add.reduceat(masses + 1, starts), sizes)
    return [
        GaussianMixtureDensity(weights[part], means[part], covariances[part])
        for part in _pieces(sizes.tolist())
    ]


def _pieces(sizes: Sequence[int]) -> list[slice]:
    """Where pieces of these sizes are, one after the other."""
    ends = np.cumsum(sizes).tolist()
    return [slice(first, last) for first, last in pairwise([0, *ends])]


def _made_positive(covariances: Float[np.ndarray, "k d d"]) -> Float[np.ndarray, "k d d"]:
    """Without directions that rounding has made negative, as a value far from all others can."""
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariances)
        values = np.maximum(values, _ROUNDING * np.abs(values).max(axis=1, keepdims=True))
        return (vectors * values[:, None]) @ vectors.transpose(0, 2, 1)
    return covariances
