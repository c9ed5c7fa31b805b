"""H and h against brute force: autodiff of the features, averaged over drawn or integrated noise.

The features are written out again here from their definition, so nothing of `FourierBasis` but
its parameters enters the oracle.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import roots_hermite
from tests.conftest import BASES, columns, make_sketch

from kexpfam.base import GaussianMixtureDensity, MixtureBase
from kexpfam.data.blocks import make_block
from kexpfam.features import DRAWS, FourierFeatures, NystromBasis, NystromFeatures
from kexpfam.features.spectra import Matern, RadialBasis, RationalQuadratic
from kexpfam.moments import block_moments
from kexpfam.noise import CharacteristicNoise, GaussianNoise, LaplaceNoise, UniformNoise
from kexpfam.solve import system_at

FULL = np.array([[1.0, 0.6], [0.6, 0.8]])
NOISES = {
    "gaussian": GaussianNoise(),
    "diagonal": GaussianNoise(np.array([1.0, 0.3])),
    "full": GaussianNoise(FULL),
    "laplace": LaplaceNoise(),
    "uniform": UniformNoise(),
    # Two points at distance one along the diagonal: ψ(w) = cos((w₁+w₂)/√2).
    "own": CharacteristicNoise(
        lambda w: jnp.cos(w.sum(axis=1) / np.sqrt(2)),
        lambda n, d, g: g.choice([-1.0, 1.0], (n, 1)) * np.ones((n, d)) / np.sqrt(2),
    ),
}


def features(basis, x):
    """φ(x), from its definition."""
    if isinstance(basis, NystromBasis):
        return jnp.exp(-(((x - basis.points) / basis.length_scale) ** 2).sum(axis=1) / 2)
    angles = basis.frequencies @ x + basis.phases
    if basis.paired:
        amplitudes = jnp.concatenate([basis.amplitudes, basis.amplitudes])
        return amplitudes * jnp.concatenate([jnp.cos(angles), jnp.sin(angles)])
    return basis.amplitudes * jnp.cos(angles)


@jax.jit
def autodiff(basis, points):
    """∇φ and Δφ at every point; compiled once for each kind of basis."""

    def one(x):
        slope = jax.jacfwd(lambda z: features(basis, z))(x)
        return slope, jnp.trace(jax.hessian(lambda z: features(basis, z))(x), axis1=1, axis2=2)

    return jax.vmap(one)(points)


def brute_force(basis, points, weights, *base_scores):
    """Weighted means over points of ∇φ∇φᵀ and, for each s0, of Δφ + ∇φ·s0, by autodiff."""
    with jax.enable_x64(True):
        slopes, laplacians = (np.asarray(part) for part in autodiff(basis, points))
    shares = weights / weights.sum()
    quadratic = np.tensordot(shares[:, None, None] * slopes, slopes, axes=((0, 2), (0, 2)))
    linear = [
        shares @ laplacians + np.tensordot(slopes, shares[:, None] * scores, axes=((0, 2), (0, 1)))
        for scores in base_scores
    ]
    return quadratic, *linear


def closed_form(basis, rows, weights, base, noise, scale):
    covariance = noise.covariance_shape(rows.shape[1])
    block = make_block(rows, weights, base, covariance, size=64)
    return system_at(basis, block_moments(basis, block, noise, scale), noise, scale)


@pytest.mark.parametrize("phases", ["paired", "random"])
@pytest.mark.parametrize("draw", sorted(DRAWS))
@pytest.mark.parametrize("spectrum", [RadialBasis(), Matern(3.0), RationalQuadratic(2.0)], ids=str)
def test_without_noise_every_basis_matches_autodiff(
    phases, draw, spectrum, two_clusters, generator
):
    base = MixtureBase(n_components=3).fit(make_sketch(two_clusters), generator)
    basis = FourierFeatures(draw, phases).build(8, columns(2), spectrum, generator)
    basis = basis.rescaled(np.array([0.8, 1.3]))
    rows, weights = two_clusters[:5], np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    expected = brute_force(basis, rows, weights, base.gradient(rows))
    found = closed_form(basis, rows, weights, base, GaussianNoise(), 0.0)
    # Both sides are float64 arithmetic on numbers of size one.
    np.testing.assert_allclose(found.quadratic, expected[0], atol=1e-12)
    np.testing.assert_allclose(found.linear, expected[1], atol=1e-12)


def test_without_noise_a_nystrom_basis_matches_autodiff(base, two_clusters, generator):
    basis = NystromFeatures().build(7, make_sketch(two_clusters), RadialBasis(), generator)
    basis = basis.rescaled(np.array([0.8, 1.3]))
    rows, weights = two_clusters[:5], np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    expected = brute_force(basis, rows, weights, base.gradient(rows))
    found = closed_form(basis, rows, weights, base, GaussianNoise(), 0.0)
    np.testing.assert_allclose(found.quadratic, expected[0], atol=1e-12)
    np.testing.assert_allclose(found.linear, expected[1], atol=1e-12)


CASES = [(name, phases) for name in sorted(NOISES) for phases in ("paired", "random")]
CASES += [("gaussian", "nystrom"), ("diagonal", "nystrom")]


@pytest.mark.parametrize(("name", "phases"), CASES)
def test_with_noise_the_average_over_draws_converges_to_the_closed_form(
    name, phases, two_clusters, generator
):
    """Monte-Carlo over the noise, with s0 expanded as the closed form expands it.

    (That expansion is judged on its own below.) All base densities share the draws.
    """
    noise, scale, n_draws = NOISES[name], 0.5, 40_000
    bases = [base.fit(make_sketch(two_clusters), generator) for base in BASES.values()]
    family = NystromFeatures() if phases == "nystrom" else FourierFeatures(phases=phases)
    basis = family.build(6, make_sketch(two_clusters), RadialBasis(), generator)
    rows, weights = two_clusters[:3], np.array([1.0, 2.0, 0.5])
    covariance = noise.covariance_shape(2)
    draws = noise.sample(n_draws, 2, scale, generator)
    np.testing.assert_allclose(
        np.cov(draws.T), scale**2 * covariance, atol=6 * scale**2 / np.sqrt(n_draws)
    )
    draws = np.concatenate([draws, -draws])  # antithetic: the distributions are symmetric
    points = (rows[:, None] + draws).reshape(-1, 2)

    def expanded_score(base):
        hessians = np.broadcast_to(base.hessian(rows), (3, 2, 2))
        middle = base.gradient(rows) + base.bend(rows, covariance) * scale**2 / 2
        return (middle[:, None] + np.einsum("aij,nj->ani", hessians, draws)).reshape(-1, 2)

    quadratic, *linear = brute_force(
        basis, points, np.repeat(weights, len(draws)), *map(expanded_score, bases)
    )
    # Integrands have deviations of order one to five: five standard errors at n_draws.
    tolerance = 5 * 5 / np.sqrt(n_draws)
    for kind, base, expected in zip(BASES, bases, linear, strict=True):
        found = closed_form(basis, rows, weights, base, noise, scale)
        np.testing.assert_allclose(found.quadratic, quadratic, atol=tolerance / 5, err_msg=kind)
        np.testing.assert_allclose(found.linear, expected, atol=tolerance, err_msg=kind)


def test_a_mixture_base_is_averaged_over_the_noise_to_fourth_order(generator):
    """Against Gauss–Hermite integration with the mixture's own score at every node."""
    mixture = GaussianMixtureDensity(
        np.array([0.6, 0.4]),
        np.array([[0.5, 0.3], [-0.7, -0.2]]),
        np.array([0.5 * np.eye(2), [[0.8, 0.3], [0.3, 0.6]]]),
    )
    basis = FourierFeatures().build(6, columns(2), RadialBasis(), generator)
    rows = generator.standard_normal((4, 2))
    nodes, node_weights = roots_hermite(40)
    grid = np.sqrt(2) * np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    grid_weights = np.outer(node_weights, node_weights).ravel() / np.pi
    root = np.linalg.cholesky(FULL)

    def error(scale):
        points = (rows[:, None] + scale * grid @ root.T).reshape(-1, 2)
        weights = np.tile(grid_weights, len(rows))
        exact = brute_force(basis, points, weights, mixture.gradient(points))[1]
        found = closed_form(basis, rows, np.ones(4), mixture, GaussianNoise(FULL), scale)
        return np.abs(found.linear - exact).max()

    errors = [error(scale) for scale in (0.2, 0.1, 0.05)]
    slopes = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (slopes > 3.5).all(), slopes
