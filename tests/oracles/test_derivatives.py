"""Gradients, Laplacians and third derivatives against autodiff of the log density."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from tests.conftest import columns

from kexpfam.base import GaussianMixtureDensity, RescaledDensity
from kexpfam.base.density import Completed
from kexpfam.data.standardize import Standardizer
from kexpfam.features import FourierFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import TiltedDensity

MIXTURE = GaussianMixtureDensity(
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.5, 0.3], [-0.7, -0.2], [0.1, 1.0]]),
    np.array([0.5 * np.eye(2), [[0.8, 0.3], [0.3, 0.6]], [[0.4, -0.1], [-0.1, 0.2]]]),
)
ROWS = np.random.default_rng(3).standard_normal((20, 2))


def log_mixture(x):
    """The mixture's log density at one point, from the textbook."""
    shifts = x - MIXTURE.means
    forms = jnp.einsum("ki,kij,kj->k", shifts, np.linalg.inv(MIXTURE.covariances), shifts)
    determinants = np.linalg.slogdet(2 * np.pi * MIXTURE.covariances)[1]
    return logsumexp(jnp.log(MIXTURE.weights) - (forms + determinants) / 2)


def everywhere(function, rows):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.vmap(function))(rows))


def bend(covariance):
    """x ↦ Σ_jk C_jk ∂_j∂_k ∇ log q0."""
    third = jax.jacfwd(jax.hessian(log_mixture))
    return lambda x: jnp.einsum("ijk,jk->i", third(x), covariance)


COVARIANCE = np.array([[1.0, 0.4], [0.4, 0.7]])


@pytest.mark.parametrize(
    ("method", "oracle"),
    [
        ("log_density", log_mixture),
        ("gradient", jax.grad(log_mixture)),
        ("hessian", jax.hessian(log_mixture)),
    ],
)
def test_a_mixture_and_its_derivatives(method, oracle):
    np.testing.assert_allclose(
        getattr(MIXTURE, method)(ROWS), everywhere(oracle, ROWS), rtol=1e-10, atol=1e-10
    )


def test_the_bend_of_a_mixture():
    found = MIXTURE.bend(ROWS, COVARIANCE)
    np.testing.assert_allclose(found, everywhere(bend(COVARIANCE), ROWS), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("method", "tolerance"), [("hessian", 1e-7), ("bend", 1e-4)])
def test_differences_stand_in_for_derivatives_that_a_user_does_not_give(method, tolerance):
    """Steps of 1e-5 and 1e-3: truncation and rounding stay below the tolerances."""
    arguments = (ROWS, COVARIANCE) if method == "bend" else (ROWS,)
    bare = SimpleNamespace(gradient=MIXTURE.gradient)
    found = getattr(Completed(bare), method)(*arguments)
    np.testing.assert_allclose(found, getattr(MIXTURE, method)(*arguments), atol=tolerance)


def test_other_units_change_every_derivative_as_the_chain_rule_says():
    center, scale = np.array([3.0, -2.0]), np.array([0.5, 4.0])
    rescaled = RescaledDensity(MIXTURE, center, scale)

    def log_density(y):
        return log_mixture((y - center) / scale) - np.log(scale).sum()

    rows = ROWS * scale + center
    np.testing.assert_allclose(rescaled.log_density(rows), everywhere(log_density, rows))
    np.testing.assert_allclose(rescaled.gradient(rows), everywhere(jax.grad(log_density), rows))
    np.testing.assert_allclose(rescaled.hessian(rows), everywhere(jax.hessian(log_density), rows))
    third = jax.jacfwd(jax.hessian(log_density))
    expected = everywhere(lambda y: jnp.einsum("ijk,jk->i", third(y), COVARIANCE), rows)
    np.testing.assert_allclose(rescaled.bend(rows, COVARIANCE), expected, rtol=1e-8)


@pytest.mark.parametrize("phases", ["paired", "random"])
def test_the_fitted_density_in_the_users_units(phases, generator):
    basis = FourierFeatures(phases=phases).build(10, columns(2), RadialBasis(), generator)
    coefficients = generator.standard_normal(10)
    center, scale = np.array([3.0, -2.0]), np.array([0.5, 4.0])
    density = TiltedDensity(basis, coefficients, MIXTURE, Standardizer(center, scale), 0.7)

    def log_density(x):
        z = (x - center) / scale
        angles = basis.frequencies @ z + basis.phases
        amplitudes = np.tile(basis.amplitudes, 2 if basis.paired else 1)
        waves = jnp.cos(angles)
        if basis.paired:
            waves = jnp.concatenate([waves, jnp.sin(angles)])
        tilt = (amplitudes * coefficients) @ waves
        return tilt + log_mixture(z) - 0.7 - np.log(scale).sum()

    rows = ROWS * scale + center
    laplacian = everywhere(lambda x: jnp.trace(jax.hessian(log_density)(x)), rows)
    gradient = everywhere(jax.grad(log_density), rows)
    np.testing.assert_allclose(density.log_density(rows), everywhere(log_density, rows))
    np.testing.assert_allclose(density.gradient(rows), gradient, atol=1e-10)
    np.testing.assert_allclose(density.laplacian(rows), laplacian, atol=1e-10)
    np.testing.assert_allclose(
        density.score_matching_losses(rows), laplacian + (gradient**2).sum(axis=1) / 2, atol=1e-9
    )
