"""Rows by their monomials, and what one step of expectation–maximization sums over them.

The log densities of all components are one matrix product with the monomials 1, x_i and x_i x_j
(i ≤ j) of a row, and sums, means and second moments of the rows that each component is responsible
for are another; both in single precision, which takes half the time, and what it rounds off is
below the floor under the covariances. Sums over blocks add up: rows may be in memory, or visited in
each step wherever they are.

| symbol | name        | shape     |
|--------|-------------|-----------|
| m(x)   | monomials   | (n, p)    |
| c_k    | polynomials | (k, p), log π_k N(x; μ_k, Σ_k) = c_k·m(x) |
| a      | shares      | (n,), weights that add up to one |
| r_k    | members     | (k, n), a exp(c_k·m) / Σ_j exp(c_j·m) |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import groupby
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.device_sums import summed_on_device
from kexpfam.base.expected_sums import ExpectedSums
from kexpfam.base.mixture import GaussianMixtureDensity, Polynomials
from kexpfam.data.rows import Chunk, RowSource, make_chunk
from kexpfam.logarithms import shares_of
from kexpfam.precision import is_accelerated
from kexpfam.symmetric import form_coefficients
from kexpfam.threads import in_threads
from kexpfam.unlocked import inverted_triangles

__all__ = [
    "Expectation",
    "JoinedMixtures",
    "MonomialTable",
    "SeveralTables",
    "StreamedTable",
    "monomials",
    "worth_threads",
]

# Numbers in a block of monomials, and in a row of one at least: there may be more components.
# Blocks are what threads share among them, and what lies between should stay near the processor.
_BLOCK_NUMBERS, _FEWEST_NUMBERS = 500_000, 256
# Of such numbers, as many are kept between iterations (a quarter of a gigabyte).
_MOST_KEPT = 64_000_000
# Numbers of members in a block: rows times components of all mixtures.
_MOST_MEMBERS = 4_000_000
# The same where several tables are worked on together: all of it should stay near the processor.
_MOST_TOGETHER = 1_000_000
# Rows for which an accelerator, where there is one, takes less time than it takes to compile.
_FEWEST_ON_DEVICE = 10_000
# Products in an expectation step, from which threads that take a step each do not wait for each
# other: with fewer, two took up to half as long again as one.
_WORTH_THREADS = 4_000_000


class JoinedMixtures(NamedTuple):
    """The components of several mixtures, one after the other.

    For mixtures of few columns, calls take longer than the arithmetic: all go in one.
    """

    weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    covariances: Float[np.ndarray, "k d d"]
    factors: Float[np.ndarray, "k d d"]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, mixtures: Sequence[GaussianMixtureDensity]) -> JoinedMixtures:
        weights, means, covariances = (
            np.concatenate(parts)
            for parts in zip(
                *((one.weights, one.means, one.covariances) for one in mixtures), strict=True
            )
        )
        sizes = tuple(len(one.weights) for one in mixtures)
        return cls(weights, means, covariances, np.linalg.cholesky(covariances), sizes)

    def apart(self) -> list[GaussianMixtureDensity]:
        """Each by itself."""
        ends = np.cumsum(self.sizes).tolist()
        parts = [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]
        return [
            GaussianMixtureDensity(self.weights[own], self.means[own], self.covariances[own])
            for own in parts
        ]

    def where(self, chosen: Bool[np.ndarray, " s"]) -> JoinedMixtures:
        """Some of the mixtures."""
        own = np.repeat(chosen, self.sizes)
        sizes = tuple(np.array(self.sizes)[chosen].tolist())
        return JoinedMixtures(
            self.weights[own], self.means[own], self.covariances[own], self.factors[own], sizes
        )

    def polynomials(self) -> Float[np.ndarray, "k p"]:
        """Log densities of the components as sums of monomials."""
        roots = inverted_triangles(self.factors)
        parts = Polynomials.of(
            np.log(self.weights),
            self.means,
            roots.transpose(0, 2, 1) @ roots,
            2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1),
        )
        forms = parts.halves * _form_factors(self.means.shape[1])
        columns = (parts.constants[:, None], parts.pulls, forms)
        return np.concatenate(columns, axis=1, dtype=np.float32)


@cache
def _form_factors(n_columns: int) -> Float[np.ndarray, " p"]:
    """Factors of the entries of a precision's upper half in −½ xᵀPx."""
    half = n_columns * (n_columns + 1) // 2
    return -form_coefficients(np.ones((1, half)), n_columns)[0] / 2


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

    @property
    def is_kept(self) -> bool:
        """Whether the monomials are in memory."""
        return bool(self._kept)

    def kept(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of monomials that are in memory, and where their rows are."""
        first = 0
        for products in self._kept:
            yield slice(first, first + len(products)), products
            first += len(products)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number, part in enumerate(_parts(len(self.rows), self._size)):
            kept = self._kept[number] if self._kept else monomials(self.rows[part])
            yield self.shares[part], kept

    def counts(self, numbers: Int[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        """For how many rows each mixture stands."""
        return np.full(len(numbers), self.count)

    def expected(
        self, mixtures: JoinedMixtures, numbers: Int[np.ndarray, " s"] | None = None
    ) -> ExpectedSums:
        """The likelihood of each mixture, and sums of monomials over rows, by component."""
        step = Expectation.under(mixtures)
        if self._on_device:
            return step([make_chunk(self.rows, self.shares)])
        if not self._kept:
            return step.total(self.blocks())
        return reduce(ExpectedSums.joined, in_threads(step.of_block, step.smaller(self.blocks())))


class SeveralTables:
    """A table for each mixture: those of all folds continue in parallel.

    All mixtures of small tables are worked on together, if they have one size.
    """

    def __init__(self, tables: Sequence[MonomialTable]) -> None:
        self.tables = tables
        self.pseudo_rows = tables[0].pseudo_rows

    @cached_property
    def _padded_shares(self) -> Float[np.ndarray, "t n"]:
        """Shares of the rows of each table, padded to the longest."""
        found = np.zeros((len(self.tables), max(len(table.rows) for table in self.tables)))
        for own, table in zip(found, self.tables, strict=True):
            own[: len(table.rows)] = table.shares
        return found

    def counts(self, numbers: Int[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        """For how many rows each mixture stands."""
        return np.array([self.tables[number].count for number in numbers])

    def expected(self, mixtures: JoinedMixtures, numbers: Int[np.ndarray, " s"]) -> ExpectedSums:
        """The same, for mixtures of the tables of these numbers."""
        if len(self.tables) == 1:
            return self.tables[0].expected(mixtures)
        n_members = len(mixtures.weights) * self._padded_shares.shape[1]
        alike = len(set(mixtures.sizes)) == 1 and all(table.is_kept for table in self.tables)
        if alike and n_members <= _MOST_TOGETHER:
            return self._together(mixtures, numbers)
        return self._apart(mixtures, numbers)

    def _together(self, mixtures: JoinedMixtures, numbers: Int[np.ndarray, " s"]) -> ExpectedSums:
        shares, count = self._padded_shares[numbers], mixtures.sizes[0]
        polynomials = mixtures.polynomials().reshape(len(numbers), count, -1)
        members = np.zeros((len(numbers), count, shares.shape[1]), np.float32)
        blocks = [
            (place, part, products)
            for place, number in enumerate(numbers)
            for part, products in self.tables[number].kept()
        ]
        for place, part, products in blocks:
            members[place, :, part] = polynomials[place] @ products.T
        likelihoods = _shared_out(members, shares)
        sums = np.zeros(polynomials.shape)
        for place, part, products in blocks:
            sums[place] += members[place, :, part] @ products
        return ExpectedSums(likelihoods, sums.reshape(-1, sums.shape[2]), 1.0, 0.0)

    def _apart(self, mixtures: JoinedMixtures, numbers: Int[np.ndarray, " s"]) -> ExpectedSums:
        every = np.arange(len(numbers))
        n_rows, n_columns = self.tables[0].rows.shape
        worth = worth_threads(n_rows, n_columns, max(mixtures.sizes))

        def one(place: int) -> ExpectedSums:
            return self.tables[numbers[place]].expected(mixtures.where(every == place))

        each = list(in_threads(one, every.tolist(), worth=worth))
        likelihoods = np.concatenate([found.likelihoods for found in each])
        return ExpectedSums(likelihoods, np.concatenate([found.sums for found in each]), 1.0, 0.0)


class StreamedTable:
    """Rows of sources, which are visited in every iteration and never held.

    `count` is known after the first visit.
    """

    def __init__(self, sources: Sequence[RowSource], pseudo_rows: float = 0.0) -> None:
        self._sources, self.pseudo_rows = sources, pseudo_rows
        self.count = np.nan

    def counts(self, numbers: Int[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        """For how many rows each mixture stands."""
        return np.full(len(numbers), self.count)

    def expected(
        self, mixtures: JoinedMixtures, numbers: Int[np.ndarray, " s"] | None = None
    ) -> ExpectedSums:
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
    def under(cls, mixtures: JoinedMixtures) -> Expectation:
        return cls(mixtures.polynomials(), mixtures.sizes)

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
        """The sums of one block."""
        shares, products = block
        members, likelihoods, first = self.polynomials @ products.T, [], 0
        # Neighbors of one size together.
        for size, some in groupby(self.sizes):
            count = len(list(some))
            own = members[first : first + count * size].reshape(count, size, -1)
            likelihoods.append(_shared_out(own, shares[None]))
            first += count * size
        sums = (members @ products).astype(float)
        return ExpectedSums(
            np.concatenate(likelihoods), sums, float(shares.sum()), float(shares @ shares)
        )

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


def _shared_out(
    logs: Float[np.ndarray, "s k n"], shares: Float[np.ndarray, "#s n"]
) -> Float[np.ndarray, " s"]:
    """Likelihoods of mixtures; members take the place of the components' log densities."""
    highest = logs.max(axis=1)
    shares_of(np.subtract(logs, highest[:, None], out=logs))
    totals = logs.sum(axis=1)
    likelihoods = ((np.log(totals) + highest) * shares).sum(axis=1)
    logs *= (shares / totals).astype(np.float32)[:, None]
    return likelihoods


def worth_threads(n_rows: int, n_columns: int, n_components: int) -> bool:
    """Whether steps with so many components in all are large enough for threads in parallel."""
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
