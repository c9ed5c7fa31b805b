"""What must not change a KernelDiffusion whose every choice is searched for, gate and all."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam import KernelDiffusion
from kexpfam.datasets import make_thin_table


@pytest.fixture(scope="module")
def rows():
    """Thin enough for a tilt to pay."""
    return make_thin_table("powers", 400, random_state=0)[:, [0, 2]]


def fitted(X, weights=None, **options):
    return KernelDiffusion(**{"random_state": 1, **options}).fit(X, sample_weight=weights)


@pytest.fixture(scope="module")
def model(rows):
    return fitted(rows)


def assert_same_density(first, second, rows, scale=(1.0, 1.0), shift=(0.0, 0.0)):
    """What is summed in another order is rounded in another way: 1e-6 of a log density."""
    expected = second.score_samples(rows) - np.log(scale).sum()
    found = first.score_samples(rows * scale + shift)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


def test_there_is_a_tilt(model):
    """Otherwise the properties below would hold for the base density alone."""
    assert model.has_tilt_
    assert model.gain_ > model.gain_error_


def test_the_order_of_rows_does_not_matter(model, rows, generator):
    other = fitted(generator.permutation(rows))
    assert other.marginals_ == model.marginals_
    assert other.basis_ == model.basis_
    assert_same_density(other, model, rows[::5])


def test_a_weight_is_a_repetition_and_zero_a_removal(rows, generator):
    counts = generator.integers(0, 4, len(rows))
    weighted = fitted(rows, counts.astype(float))
    repeated = fitted(np.repeat(rows, counts, axis=0))
    assert weighted.has_tilt_
    assert_same_density(weighted, repeated, rows[counts > 0][::5])


def test_shift_and_scale_equivariance(model, rows):
    shift, scale = np.array([100.0, -3.0]), np.array([1e3, 1e-4])
    moved = fitted(rows * scale + shift)
    assert moved.gain_ == pytest.approx(model.gain_, rel=1e-3)
    assert_same_density(moved, model, rows[::5], scale, shift)
