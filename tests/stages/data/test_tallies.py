"""Tallies of columns, joined from pieces, against counts of all values at once."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from kexpfam.data import tallies
from kexpfam.data.cells import read_cells
from kexpfam.data.content_sketch import ContentSketching
from kexpfam.data.found_kinds import kind_of
from kexpfam.data.rows import ArrayRows
from kexpfam.data.tallies import joined_tallies, tallied


def tally_of(values, weights, size):
    pieces = [
        tallied(read_cells(values[k : k + size, None], None)[0], weights[k : k + size])
        for k in range(0, len(values), size)
    ]
    return reduce(joined_tallies, pieces)


@pytest.mark.parametrize("size", [40, 77, 500])
def test_numbers_are_counted_whatever_the_pieces(size, generator):
    values, weights = generator.poisson(3.0, 500) - 1.0, generator.integers(0, 3, 500) * 1.0
    values[::50] = np.nan
    found = tally_of(values, weights, size)
    there = ~np.isnan(values) & (weights > 0)
    expected = {
        value: weights[there][values[there] == value].sum() for value in values[there].tolist()
    }
    assert found.counts() == expected
    assert found.has_missing
    assert found.n_values == there.sum()
    assert (found.numbers.low, found.numbers.high) == (values[there].min(), values[there].max())


def test_of_many_numbers_a_sample_and_the_frequent_ones_are_kept(generator, monkeypatch):
    monkeypatch.setattr(tallies, "MOST_VALUES", 100)
    monkeypatch.setattr(tallies, "_FREQUENT", 20)
    values = np.round(generator.normal(size=4000), 3)
    values[generator.random(4000) < 0.2] = 7.5
    found = tally_of(values, np.ones(4000), 90).numbers
    distinct, counts = np.unique(values, return_counts=True)
    true = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    assert len(found.some.values) == 100
    assert not found.complete
    # A sample of values, but with all of their copies.
    assert all(true[value] == mass for value, mass in zip(*found.some, strict=True))
    # Misra and Gries: at most a twenty-first of the total is missing.
    short = true[7.5] - float(found.frequent.masses[found.frequent.values == 7.5][0])
    assert 0 <= short <= 4000 / 21
    assert all(mass <= true[value] for value, mass in zip(*found.frequent, strict=True))
    assert found.total == 4000
    assert kind_of(tally_of(values, np.ones(4000), 90), "x").atoms == (7.5,)
    # Other pieces, the same sample.
    again = tally_of(values[::-1], np.ones(4000), 333).numbers
    np.testing.assert_array_equal(again.some.values, found.some.values)


def test_numbers_beside_words_are_words():
    values = np.array([1.0, 2.0, "two", None, 2.0], object)
    found = tally_of(values, np.ones(5), 2)
    assert found.family == "word"
    assert found.counts() == {1: 1.0, 2: 2.0, "two": 1.0}


def test_sketches_of_rows_with_holes_do_not_depend_on_the_chunks(generator):
    rows = generator.integers(0, 6, (900, 3)) * 1.0
    rows[generator.random(rows.shape) < 0.2] = np.nan
    weights = generator.integers(0, 3, 900) * 1.0
    sketching = ContentSketching(60)
    one, other = (
        sketching(ArrayRows(some, own, chunk_rows=size).chunks())
        for some, own, size in ((rows, weights, 70), (rows[::-1], weights[::-1], 900))
    )
    for part, same in zip(one, other, strict=True):
        np.testing.assert_array_equal(part, same)
    for row, weight in zip(one.rows, one.weights, strict=True):
        copies = ((rows == row) | (np.isnan(rows) & np.isnan(row))).all(axis=1)
        assert weight == weights[copies].sum()
    assert one.n_rows == (weights > 0).sum()
    np.testing.assert_array_equal(one.high, np.nanmax(rows[weights > 0], axis=0))
