"""Moments are sums: order, blocks and folds do not matter, and a weight is a repetition."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import columns, make_sketch, moment_source

from kexpfam.base import MixtureBase
from kexpfam.features import FourierFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import add_moments, scale_moments, total_moments
from kexpfam.noise import GaussianNoise

ROWS = np.random.default_rng(0).standard_normal((200, 2))
BASE = MixtureBase(n_components=2).fit(make_sketch(ROWS), np.random.default_rng(0))
BASIS = FourierFeatures().build(6, columns(2), RadialBasis(), np.random.default_rng(0))


def moments(rows, weights, **options):
    source = moment_source(BASIS, GaussianNoise(), rows, weights, BASE, **options)
    return total_moments(source.at(0.0).values())


def assert_same(first, second):
    # Sums of a few hundred numbers of size one, in different orders.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9), first, second
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 199), st.integers(0, 2**32 - 1))
def test_parts_add_up_to_the_whole_in_any_order(cut, seed):
    order = np.random.default_rng(seed).permutation(200)
    ones = np.ones(200)
    parts = [moments(ROWS[piece], ones[piece]) for piece in (order[:cut], order[cut:])]
    assert_same(add_moments(*parts), moments(ROWS, ones))


@pytest.mark.parametrize("block_size", [64, 128, 8192])
def test_the_size_of_blocks_does_not_matter(block_size):
    ones = np.ones(200)
    assert_same(moments(ROWS, ones, block_size=block_size), moments(ROWS, ones))


def test_folds_add_up_to_the_whole(generator):
    folds = generator.integers(0, 4, 200)
    assert_same(moments(ROWS, np.ones(200), folds=folds), moments(ROWS, np.ones(200)))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 4), min_size=200, max_size=200).filter(any))
def test_a_weight_is_a_repetition(counts):
    repeated = np.repeat(ROWS, counts, axis=0)
    assert_same(moments(ROWS, np.array(counts, float)), moments(repeated, np.ones(len(repeated))))


def test_scaling_multiplies_every_weight():
    assert_same(scale_moments(moments(ROWS, np.ones(200)), 3.0), moments(ROWS, np.full(200, 3.0)))


def test_rows_are_removed_by_adding_them_with_weight_minus_one():
    ones = np.ones(200)
    removed = add_moments(moments(ROWS, ones), scale_moments(moments(ROWS[150:], ones[150:]), -1.0))
    assert_same(removed, moments(ROWS[:150], ones[:150]))
