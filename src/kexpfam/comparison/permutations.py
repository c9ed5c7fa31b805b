"""Differences of means between two tables, as they are and after permutations of the labels.

Where the rows of both tables come from one distribution, all ways of saying which N₁ of the N rows
are the first table's are equally likely. A function with mean zero and standard deviation one
over all rows has the difference of means

    z = (mean over the second table − mean over the first) · √(N₁ N₂ (N − 1)) / N,

whose standard deviation over all permutations is one. With s the sum over the smaller table and
zero in total, the difference is s (1/N₁ + 1/N₂), so that a permutation costs as much as the smaller
table.

Many rows are permuted in blocks: m rows of one table, in an order drawn at random, keep together,
and the blocks' labels are permuted. These permutations are a group of their own, so the test is
still exact; only its null distribution is described by some thousand blocks instead of all rows.

| symbol | name             | shape      |
|--------|------------------|------------|
| N₁, N₂ | sizes            | (2,)       |
| m      | block_rows       |            |
|        | blocks           | (N,), −1 where a row keeps its label |
| z      | returned         | (1 + B, k): the observed labels first |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

__all__ = ["Relabelings", "relabelings"]

# Of more rows in the smaller table than this, blocks are permuted.
_MOST_BLOCKS = 1000


@dataclass(frozen=True)
class Relabelings:
    """The observed labels and permutations of them, as sums over blocks of rows.

    | name      | shape           | meaning                                                     |
    |-----------|-----------------|-------------------------------------------------------------|
    | gathering | (blocks, N)     | sums rows into blocks, and the rows that stay into the last |
    | chosen    | (1 + B, blocks) | blocks that are the smaller table's, observed labels first  |
    | sizes     | (2,)            | rows of the first and of the second table                   |
    """

    gathering: sparse.csr_array
    chosen: sparse.csr_array
    sizes: tuple[int, int]

    def differences(self, functions: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "B k"]:
        """Standardized differences of means, second table less first, for all labels."""
        n_first, n_second = self.sizes
        total = n_first + n_second
        sums = self.chosen @ (self.gathering @ functions)
        sign = 1.0 if n_second <= n_first else -1.0
        return sign * sums * (1 / n_first + 1 / n_second) * np.sqrt(
            n_first * n_second * (total - 1)
        ) / total  # fmt: skip


def relabelings(
    is_second: Bool[np.ndarray, " N"], n_permutations: int, generator: np.random.Generator
) -> Relabelings:
    """The observed labels, and permutations of them at random."""
    n_second = int(is_second.sum())
    sizes = len(is_second) - n_second, n_second
    in_smaller = is_second if n_second <= sizes[0] else ~is_second
    block_rows = max(1, min(sizes) // _MOST_BLOCKS)
    blocks = np.full(len(is_second), -1)
    n_blocks: list[int] = []
    for members in (in_smaller, ~in_smaller):
        places = generator.permutation(np.flatnonzero(members))
        count = len(places) // block_rows
        numbers = np.repeat(np.arange(count), block_rows) + sum(n_blocks)
        blocks[places[: count * block_rows]] = numbers
        n_blocks.append(count)
    # Rows that are left over keep their labels: those of the smaller table are one more block,
    # which is always chosen; those of the larger are in none.
    last = sum(n_blocks)
    blocks[(blocks < 0) & in_smaller] = last
    rows = np.flatnonzero(blocks >= 0)
    ones = np.ones(len(rows))
    gathering = sparse.csr_array((ones, (blocks[rows], rows)), shape=(last + 1, len(is_second)))
    return Relabelings(gathering, _chosen(n_blocks[0], last, n_permutations, generator), sizes)


def _chosen(
    n_chosen: int, n_blocks: int, n_permutations: int, generator: np.random.Generator
) -> sparse.csr_array:
    """One line for the observed labels and for each permutation."""
    places = np.empty((1 + n_permutations, n_chosen + 1), np.int64)
    places[:, -1] = n_blocks
    places[0, :-1] = np.arange(n_chosen)
    for line in places[1:]:
        line[:-1] = _some(n_chosen, n_blocks, generator)
    lines = np.arange(len(places) + 1) * (n_chosen + 1)
    return sparse.csr_array(
        (np.ones(places.size), places.ravel(), lines), shape=(len(places), n_blocks + 1)
    )


def _some(count: int, total: int, generator: np.random.Generator) -> Int[np.ndarray, " n"]:
    return generator.choice(total, count, replace=False, shuffle=False)
