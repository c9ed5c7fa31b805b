"""Characteristic functions against averages over draws."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from kexpfam.noise import CharacteristicNoise, GaussianNoise, LaplaceNoise, Noise, UniformNoise

FULL = np.array([[1.0, 0.6], [0.6, 0.8]])
DISTRIBUTIONS = {
    "isotropic": GaussianNoise(),
    "diagonal": GaussianNoise(np.array([1.0, 0.3])),
    "full": GaussianNoise(FULL),
    "laplace": LaplaceNoise(),
    "uniform": UniformNoise(),
}


def everything(noise, frequencies, scale):
    functions = noise.characteristic, noise.gradient, noise.pairwise
    return [function(frequencies, scale) for function in functions]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_characteristic_function_gradient_and_pairs(name, generator):
    noise, scale = DISTRIBUTIONS[name], 0.7
    frequencies = generator.standard_normal((4, 2))
    draws = noise.sample(200_000, 2, scale, generator)
    error = 5 / np.sqrt(200_000)
    with jax.enable_x64(True):
        psi, slope, (minus, plus) = jax.jit(everything)(noise, frequencies, scale)
    angles = frequencies @ draws.T
    np.testing.assert_allclose(psi, np.cos(angles).mean(axis=1), atol=error)
    np.testing.assert_allclose(slope, -np.sin(angles) @ draws / len(draws), atol=error)
    for found, sign in ((minus, -1), (plus, 1)):
        pairs = frequencies[:, None] + sign * frequencies
        expected = np.cos(pairs @ draws.T).mean(axis=2)
        np.testing.assert_allclose(found, expected, atol=error)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_scale_zero_is_no_noise(name):
    with jax.enable_x64(True):
        psi = DISTRIBUTIONS[name].characteristic(jax.numpy.ones((3, 2)), 0.0)
    np.testing.assert_array_equal(psi, 1.0)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_covariance_is_the_curvature_at_zero(name):
    expected = {"diagonal": np.diag([1.0, 0.3]), "full": FULL}.get(name, np.eye(2))
    np.testing.assert_allclose(DISTRIBUTIONS[name].covariance_shape(2), expected, atol=1e-12)
    np.testing.assert_allclose(Noise.covariance_shape(DISTRIBUTIONS[name], 2), expected, atol=1e-12)


def test_a_covariance_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2,\) or \(2, 2\)"):
        GaussianNoise(np.ones(3)).covariance_shape(2)


def test_a_distribution_without_draws_says_so(generator):
    with pytest.raises(ValueError, match="unit_sample"):
        CharacteristicNoise(lambda w: w.sum(axis=1)).sample(1, 1, 1.0, generator)
