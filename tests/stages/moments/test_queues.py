"""Rows on their way into blocks: the sums of a fold do not know how its rows came."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from kexpfam.data.rows import Chunk
from kexpfam.moments.fold import Summation
from kexpfam.moments.queues import FoldSums


@dataclass
class Blocks(Summation):
    """Adds up weights and weighted rows, and notes the blocks that it was given."""

    block_size: int = 8
    seen: list[tuple[int, int]] = field(default_factory=list)

    def content(self):
        return []

    def added(self, sums, rows, weights, size):
        self.seen.append((len(rows), size))
        found = {"weight": weights.sum(), "rows": weights @ rows}
        return found if sums is None else {name: sums[name] + found[name] for name in sums}


@pytest.fixture
def chunk(generator):
    weights = generator.uniform(0.5, 2.0, 50)
    weights[::7] = 0.0
    return Chunk(generator.standard_normal((50, 2)), weights, generator.integers(0, 3, 50))


def totals(chunk, cuts, summation):
    sums = FoldSums(summation)
    for first, last in zip([0, *cuts], [*cuts, len(chunk.rows)], strict=True):
        sums.add(Chunk(*(part[first:last] for part in chunk)))
    return sums.totals()


def test_every_row_counts_once_in_its_fold(chunk):
    for number, found in totals(chunk, [], Blocks()).items():
        own = chunk.labels == number
        assert found["weight"] == pytest.approx(chunk.weights[own].sum())
        np.testing.assert_allclose(found["rows"], chunk.weights[own] @ chunk.rows[own])


@pytest.mark.parametrize("cuts", [[1], [10, 10, 33], list(range(1, 50))], ids=len)
def test_chunks_do_not_matter_to_the_last_bit(chunk, cuts):
    whole, parts = Blocks(), Blocks()
    expected, found = totals(chunk, [], whole), totals(chunk, cuts, parts)
    assert sorted(whole.seen) == sorted(parts.seen)
    for number, sums in expected.items():
        np.testing.assert_array_equal(found[number]["rows"], sums["rows"])


def test_rows_of_no_weight_are_not_even_looked_at(chunk):
    spoiled = chunk.rows.copy()
    spoiled[chunk.weights == 0] = np.nan
    expected = totals(chunk, [], Blocks())
    found = totals(chunk._replace(rows=spoiled), [], Blocks())
    for number, sums in expected.items():
        np.testing.assert_array_equal(found[number]["rows"], sums["rows"])


def test_no_block_is_larger_than_it_says(chunk):
    summation = Blocks()
    totals(chunk, [], summation)
    assert all(0 < n_rows <= size <= summation.block_size for n_rows, size in summation.seen)


def test_sums_that_are_not_finite_are_refused(chunk):
    spoiled = chunk.rows.copy()
    spoiled[chunk.weights > 0] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        totals(chunk._replace(rows=spoiled), [], Blocks())
