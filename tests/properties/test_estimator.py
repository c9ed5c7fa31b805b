"""What must not change the fitted model, with tuning and all."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam import KernelExponentialFamily, Tuning
from kexpfam.datasets import make_density


@pytest.fixture(scope="module")
def rows():
    return make_density("ring").sample(250, random_state=0)


def fitted(X, weights=None, **options):
    options = {"n_components": 32, "tuning": Tuning(n_steps=8), "random_state": 1, **options}
    return KernelExponentialFamily(**options).fit(X, sample_weight=weights)


@pytest.fixture(scope="module")
def model(rows):
    return fitted(rows)


def test_the_model_is_not_just_its_base_density(model):
    """Otherwise the properties below would hold for the wrong reason."""
    assert np.isfinite(model.penalty_)
    assert np.ptp(model.density_.tilt(np.random.default_rng(0).standard_normal((50, 2)))) > 0.5


def assert_same_density(first, second, rows, rtol=1e-6):
    np.testing.assert_allclose(first.score_samples(rows), second.score_samples(rows), rtol=rtol)


def test_the_same_seed_gives_the_same_model(model, rows):
    again = fitted(rows)
    np.testing.assert_array_equal(again.coefficients_, model.coefficients_)


def test_another_seed_gives_another(model, rows):
    assert not np.allclose(
        fitted(rows, random_state=2).score_samples(rows), model.score_samples(rows)
    )


def test_the_order_of_rows_does_not_matter(model, rows, generator):
    assert_same_density(fitted(generator.permutation(rows)), model, rows)


# Whether the normalizer is to be relied on is not the question here.
@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
@pytest.mark.parametrize("base", ["mixture", "gaussian", "uniform"])
def test_a_weight_is_a_repetition_and_zero_a_removal(rows, base, generator):
    counts = generator.integers(0, 4, len(rows))
    weighted = fitted(rows, counts.astype(float), base=base)
    repeated = fitted(np.repeat(rows, counts, axis=0), base=base)
    kept = rows[counts > 0]
    assert_same_density(weighted, repeated, kept)


def test_the_scale_of_weights_does_not_matter(model, rows):
    assert_same_density(fitted(rows, np.full(len(rows), 0.25)), model, rows)


@pytest.mark.parametrize(
    ("shift", "scale"),
    [([100.0, -3.0], [1.0, 1.0]), ([0.0, 0.0], [1e3, 1e-4]), ([5.0, 1e6], [0.1, 1e12])],
)
def test_shift_and_scale_equivariance(model, rows, shift, scale):
    """log p of y = shift + scale·x is log p(x) − Σ log scale; gradients divide by the scale.

    Tuning amplifies the rounding of standardized values (1e-16, times |shift|/scale).
    """
    moved = fitted(rows * scale + shift)
    expected = model.score_samples(rows) - np.log(scale).sum()
    np.testing.assert_allclose(moved.score_samples(rows * scale + shift), expected, atol=1e-4)
    np.testing.assert_allclose(
        moved.gradient(rows * scale + shift) * scale, model.gradient(rows), rtol=1e-3, atol=1e-3
    )


def test_the_size_of_the_batch_in_which_it_is_asked_does_not_matter(model, rows):
    whole = model.gradient(rows)
    pieces = np.concatenate([model.gradient(piece) for piece in np.array_split(rows, 7)])
    np.testing.assert_allclose(pieces, whole, rtol=1e-10, atol=1e-12)
