"""One contract for every basis behind the small interface of `features/basis.py`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import make_sketch

from kexpfam import FourierFeatures, NystromFeatures
from kexpfam.base import MixtureBase
from kexpfam.data.blocks import make_block
from kexpfam.features import Basis
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import MomentSource, add_moments, block_moments, total_moments
from kexpfam.noise import GaussianNoise
from kexpfam.solve import penalty_matrix_of, system_at

FAMILIES = {
    "fourier": FourierFeatures(),
    "fourier, random phases": FourierFeatures(phases="random"),
    "nystrom": NystromFeatures(),
}
NOISE = GaussianNoise(np.array([1.0, 0.5]))
SCALES = np.array([0.9, 1.2])


@pytest.fixture(params=FAMILIES)
def unit_basis(request, two_clusters, generator):
    return FAMILIES[request.param].build(8, make_sketch(two_clusters), RadialBasis(), generator)


@pytest.fixture
def mixture(two_clusters, generator):
    return MixtureBase(n_components=2).fit(make_sketch(two_clusters), generator)


def test_it_has_every_method(unit_basis):
    assert isinstance(unit_basis, Basis)
    assert unit_basis.n_features == 8


def test_gradient_and_laplacian_are_derivatives_of_the_values(unit_basis, two_clusters, generator):
    basis, rows = unit_basis.rescaled(SCALES), two_clusters[:10]
    weights, metric = generator.standard_normal(8), np.array([1.0, 2.0])

    def value(x):
        return basis.values(jnp.asarray(weights), x[None])[0]

    with jax.enable_x64(True):
        coefficients = jnp.asarray(weights)
        gradient = jax.vmap(jax.grad(value))(rows)
        curvature = jax.vmap(lambda x: jnp.diagonal(jax.hessian(value)(x)))(rows)
        np.testing.assert_allclose(basis.gradient(coefficients, rows), gradient, atol=1e-10)
        laplacian = basis.laplacian(coefficients, rows, metric)
    np.testing.assert_allclose(laplacian, np.asarray(curvature) @ metric, atol=1e-10)


def test_length_scales_stretch_the_rows(unit_basis, two_clusters, generator):
    """f of rows and centres stretched by the length-scales is f of unit length-scales."""
    weights = generator.standard_normal(8)
    stretched = unit_basis.rescaled(SCALES)
    rows = two_clusters[:10]
    with jax.enable_x64(True):
        coefficients = jnp.asarray(weights)
        if hasattr(unit_basis, "points"):
            stretched = type(unit_basis)(unit_basis.points * SCALES, stretched.length_scale)
        found = stretched.values(coefficients, rows * SCALES)
        np.testing.assert_allclose(found, unit_basis.values(coefficients, rows), atol=1e-12)


def test_sums_add_and_the_system_is_sound(unit_basis, mixture, two_clusters):
    basis, covariance = unit_basis.rescaled(SCALES), NOISE.covariance_shape(2)
    halves = [
        make_block(rows, np.ones(len(rows)), mixture, covariance, 256)
        for rows in (two_clusters[:150], two_clusters[150:])
    ]
    whole = make_block(two_clusters, np.ones(300), mixture, covariance, 512)
    added = add_moments(*(block_moments(basis, half, NOISE, 0.3) for half in halves))
    together = block_moments(basis, whole, NOISE, 0.3)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), added, together)
    system = system_at(basis, together, NOISE, 0.3)
    np.testing.assert_allclose(system.quadratic, system.quadratic.T, atol=1e-13)
    assert np.linalg.eigvalsh(system.quadratic).min() > -1e-12


def test_a_source_gives_moments_for_every_noise_scale(unit_basis, mixture, two_clusters):
    source = MomentSource(unit_basis, NOISE, two_clusters, np.ones(300), mixture)
    direct = make_block(two_clusters, np.ones(300), mixture, NOISE.covariance_shape(2), 512)
    for scale in (0.0, 0.4):
        found = system_at(unit_basis, total_moments(source.at(scale).values()), NOISE, scale)
        moments = block_moments(unit_basis, direct, NOISE, scale)
        expected = system_at(unit_basis, moments, NOISE, scale)
        np.testing.assert_allclose(found.quadratic, expected.quadratic, atol=1e-12)


def test_the_penalty_is_positive_definite(unit_basis):
    matrix = penalty_matrix_of(unit_basis)
    assert matrix is None or np.linalg.eigvalsh(matrix).min() > 0
