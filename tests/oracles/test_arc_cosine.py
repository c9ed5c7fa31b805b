"""Arc-cosine features: exact Gaussian averages against Monte-Carlo, plain ones against autodiff."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests.conftest import make_sketch

from kexpfam import ArcCosineFeatures
from kexpfam.base import BoxDensity
from kexpfam.data.blocks import make_block
from kexpfam.features import ArcCosineBasis
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import block_moments
from kexpfam.noise import GaussianNoise, NoNoise
from kexpfam.solve import system_at

FULL = np.array([[1.0, 0.6], [0.6, 0.8]])


def basis_of(degree, generator, smoothing="exact", count=6):
    weights = generator.standard_normal((count, 2))
    return ArcCosineBasis(weights, generator.standard_normal(count), degree, smoothing)


def closed_form(basis, rows, base, noise, scale):
    block = make_block(rows, np.ones(len(rows)), base, noise.covariance_shape(2), 64)
    return system_at(basis, block_moments(basis, block, noise, scale), noise, scale)


def per_draw(basis, row, base, draws, scale):
    """∇φ∇φᵀ and ∇φ·s0 + Δφ at each draw, from the definition; s0 expanded as in the base.

    For degree one Δφ sits on the kinks, where no draw falls: its mean is a density there.
    """
    slope = (base.gradient(row) + base.bend(row, FULL) * scale**2 / 2)[0]
    hessian = np.broadcast_to(base.hessian(row), (1, 2, 2))[0]
    factor = np.sqrt(2 / basis.n_features) * basis.degree
    inner = (row + draws) @ basis.weights.T + basis.biases
    activity = factor * np.where(inner > 0, inner ** (basis.degree - 1), 0)
    products = activity[:, :, None] * activity[:, None] * (basis.weights @ basis.weights.T)
    if basis.degree == 1:
        deviations = scale * np.sqrt(np.einsum("mi,ij,mj->m", basis.weights, FULL, basis.weights))
        bends = stats.norm.pdf(row @ basis.weights.T + basis.biases, scale=deviations)
    else:
        bends = (basis.degree - 1) * np.where(inner > 0, inner ** (basis.degree - 2), 0)
    linear = activity * ((slope + draws @ hessian) @ basis.weights.T)
    return products, linear + factor * bends * (basis.weights**2).sum(axis=1)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_exact_average_over_gaussian_noise_against_draws(degree, base, two_clusters, generator):
    basis, row, scale = basis_of(degree, generator), two_clusters[:1], 0.6
    found = closed_form(basis, row, base, GaussianNoise(FULL), scale)
    draws = GaussianNoise(FULL).sample(40_000, 2, scale, generator)
    for value, sample in zip(found, per_draw(basis, row, base, draws, scale), strict=True):
        error = sample.std(axis=0) / np.sqrt(len(draws))
        # Some forty numbers within five standard errors; what is added is the cut series.
        cut = 1e-3 if degree == 1 else 1e-5
        assert (np.abs(value - sample.mean(axis=0)) < 5 * error + cut).all()


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("smoothing", ["exact", "paper"])
def test_without_noise_both_are_plain_score_matching(
    degree, smoothing, base, two_clusters, generator
):
    basis, rows = basis_of(degree, generator, smoothing), two_clusters[:5]
    found = closed_form(basis, rows, base, NoNoise(), 0.0)

    def one(x, score):
        def features(z):
            inner = basis.weights @ z + basis.biases
            return jnp.sqrt(2 / 6) * jnp.where(inner > 0, inner**degree, 0)

        slope = jax.jacfwd(features)(x)
        return slope @ slope.T, jnp.trace(jax.hessian(features)(x), axis1=1, axis2=2) + (
            slope @ score
        )

    with jax.enable_x64(True):
        quadratic, linear = map(
            np.asarray, jax.jit(jax.vmap(one))(jnp.asarray(rows), base.gradient(rows))
        )
    np.testing.assert_allclose(found.quadratic, np.mean(quadratic, axis=0), atol=1e-12)
    np.testing.assert_allclose(found.linear, np.mean(linear, axis=0), atol=1e-12)


def test_the_papers_treatment_averages_the_polynomial_and_freezes_the_indicator(
    two_clusters, generator
):
    """Degree two, a flat base, isotropic noise: H as the paper prints it, with our factor 2/m."""
    basis, rows, scale = basis_of(2, generator, "paper"), two_clusters[:5], 0.4
    flat = BoxDensity(np.full(2, -9.0), np.full(2, 9.0))
    found = closed_form(basis, rows, flat, GaussianNoise(), scale)
    weights, expected = basis.weights, 0.0
    for row in rows:
        inner = weights @ row + basis.biases
        active = np.outer(inner > 0, inner > 0)
        average = np.outer(inner, inner) + scale**2 * weights @ weights.T
        expected += 4 * (2 / 6) * (weights @ weights.T) * active * average / len(rows)
    np.testing.assert_allclose(found.quadratic, expected, atol=1e-12)


def test_exact_and_papers_treatment_differ_near_the_hinges(base, two_clusters, generator):
    exact, paper = (
        closed_form(
            ArcCosineFeatures(smoothing=smoothing).build(
                6, make_sketch(two_clusters), RadialBasis(), np.random.default_rng(3)
            ),
            two_clusters[:20],
            base,
            GaussianNoise(),
            0.5,
        )
        for smoothing in ("exact", "paper")
    )
    assert np.abs(exact.quadratic - paper.quadratic).max() > 0.01


@pytest.mark.parametrize("degree", [1, 2])
def test_nearly_parallel_weights_keep_the_matrix_positive_and_accurate(degree, base, generator):
    """The series is slowest there; its stated error is kept and H stays positive."""
    angles = np.array([0.3, 0.3 + 1e-3, 0.3 + 0.1, 0.3 + np.pi])
    weights = np.column_stack([np.cos(angles), np.sin(angles)])
    basis = ArcCosineBasis(weights, np.zeros(4), degree, "exact")
    scale, rows = 0.5, np.zeros((1, 2))
    found = closed_form(basis, rows, base, GaussianNoise(), scale).quadratic
    assert np.linalg.eigvalsh(found).min() > -1e-12
    # E(Z_i)₊^q(Z_j)₊^q for centered normals is the arc-cosine kernel: known in closed form.
    theta = np.arccos(np.clip(weights @ weights.T, -1, 1))
    if degree == 1:
        mean, error = (np.pi - theta) / (2 * np.pi), 160**-0.5 / 10
    else:
        mean = scale**2 * (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / (2 * np.pi)
        error = scale**2 * 40**-1.5 / 10
    expected = 2 / 4 * degree**2 * (weights @ weights.T) * mean
    np.testing.assert_allclose(found, expected, atol=2 * degree**2 * error)
