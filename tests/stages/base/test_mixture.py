"""A Gaussian mixture as it is evaluated: block by block, padded, and by NumPy or JAX alike."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from kexpfam.base import mixture as mixtures
from kexpfam.base.mixture import Components, GaussianMixtureDensity


@pytest.fixture
def mixture(generator):
    roots = generator.standard_normal((5, 3, 9))
    means = 2 * generator.standard_normal((5, 3))
    return GaussianMixtureDensity(
        np.array([0.4, 0.3, 0.15, 0.1, 0.05]), means, roots @ roots.transpose(0, 2, 1) / 9
    )


def test_blocks_do_not_matter(mixture, generator, monkeypatch):
    rows, covariance = generator.standard_normal((50, 3)), np.diag([1.0, 2.0, 0.5])

    def everything():
        own = (mixture.log_density, mixture.gradient, mixture.hessian)
        return [function(rows) for function in own] + [mixture.bend(rows, covariance)]

    whole = everything()
    monkeypatch.setattr(mixtures, "_CACHED", 1)
    for found, expected in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_numpy_and_jax_say_the_same_and_empty_components_nothing(mixture, generator):
    rows, covariance = generator.standard_normal((20, 3)), np.diag([1.0, 2.0, 0.5])
    padded = Components.padded(mixture)
    assert len(padded.means) > len(mixture.means)
    with jax.enable_x64(True):
        traced = jax.tree.map(jax.numpy.asarray, padded)
        found = [
            traced.log_density(rows),
            traced.hessian(rows),
            *traced.derivatives(rows, covariance),
        ]
    expected = [
        mixture.log_density(rows),
        mixture.hessian(rows),
        *mixture.components.derivatives(rows, covariance),
    ]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-9, atol=1e-10)


def test_means_far_from_zero_cost_no_digits(mixture, generator):
    rows, far = generator.standard_normal((20, 3)), 1e8
    moved = GaussianMixtureDensity(mixture.weights, mixture.means + far, mixture.covariances)
    # A place of size 1e8 is known to 1e-8, and log densities change by a few times as much.
    np.testing.assert_allclose(moved.log_density(rows + far), mixture.log_density(rows), atol=1e-6)
