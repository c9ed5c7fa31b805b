"""The pieces of the pass over rows, against NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests.conftest import moment_source

from kexpfam.base import BoxDensity, GaussianMixtureDensity, RescaledDensity
from kexpfam.base.traced import traced_density
from kexpfam.features import FourierBasis
from kexpfam.features.products import add_upper_products, from_upper_half, upper_products
from kexpfam.features.trigonometry import cosine_and_sine
from kexpfam.noise import GaussianNoise


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_cosines_and_sines_are_the_librarys(size, generator):
    angles = size * generator.standard_normal(10_000)
    angles[:9] = np.arange(-4, 5) * np.pi / 4
    with jax.enable_x64(True):
        cosine, sine = map(np.asarray, jax.jit(cosine_and_sine)(angles))
    # One unit in the last place of numbers up to one.
    np.testing.assert_allclose(cosine, np.cos(angles), atol=2.3e-16)
    np.testing.assert_allclose(sine, np.sin(angles), atol=2.3e-16)


def test_huge_angles_stay_bounded_and_derivatives_are_right(generator):
    with jax.enable_x64(True):
        huge = np.asarray(cosine_and_sine(np.array([1e9, 1e18, 1e300, -1e300])))
        assert (np.abs(huge) <= 1 + 1e-15).all()
        slopes = jax.jvp(cosine_and_sine, (np.array(0.7),), (np.array(1.0),))[1]
        bends = jax.hessian(lambda x: cosine_and_sine(x)[0])(np.array(0.7))
    np.testing.assert_allclose(slopes, [-np.sin(0.7), np.cos(0.7)], rtol=1e-15)
    np.testing.assert_allclose(bends, -np.cos(0.7), rtol=1e-15)


@pytest.mark.parametrize("count", [3, 256, 700])
def test_the_upper_half_is_that_of_the_product(count, generator):
    lines = generator.standard_normal((count, 40))
    seeds = generator.standard_normal((count, count))
    with jax.enable_x64(True):
        products, pulled = jax.vjp(lambda lines: from_upper_half(upper_products(lines)), lines)
        (slope,) = pulled(seeds)
    np.testing.assert_allclose(products, lines @ lines.T, atol=1e-12)
    np.testing.assert_allclose(slope, (seeds + seeds.T) @ lines, atol=1e-11)
    by_blas = add_upper_products(add_upper_products(None, lines[:, :15]), lines[:, 15:])
    np.testing.assert_allclose(np.triu(by_blas), np.triu(lines @ lines.T), atol=1e-12)


def densities(generator):
    roots = generator.standard_normal((3, 4, 4))
    covariances = np.eye(4) + 0.1 * roots @ roots.transpose(0, 2, 1)
    means = generator.standard_normal((3, 4))
    mixture = GaussianMixtureDensity(np.array([0.2, 0.5, 0.3]), means, covariances)
    single = GaussianMixtureDensity(np.ones(1), means[:1], covariances[:1])
    box = BoxDensity(-5 * np.ones(4), 5 * np.ones(4))
    scaled = RescaledDensity(mixture, np.ones(4), np.array([0.5, 1.0, 2.0, 3.0]))
    return {"mixture": mixture, "single": single, "box": box, "rescaled": scaled}


@pytest.mark.parametrize("name", ["mixture", "single", "box", "rescaled"])
def test_traced_derivatives_are_those_of_numpy(name, generator):
    density, rows = densities(generator)[name], generator.standard_normal((20, 4))
    covariance = np.cov(generator.standard_normal((4, 30)))
    with jax.enable_x64(True):
        found = [np.asarray(x) for x in traced_density(density).derivatives(rows, covariance)]
    expected = density.gradient(rows), density.hessian(rows), density.bend(rows, covariance)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, np.broadcast_to(other, one.shape), atol=1e-11)


def test_a_users_density_is_asked_in_numpy_and_gives_the_same_sums(generator):
    class Mine(GaussianMixtureDensity):
        pass

    ours = densities(generator)["mixture"]
    mine = Mine(ours.weights, ours.means, ours.covariances)
    assert traced_density(mine) is None
    rows, weights = generator.standard_normal((300, 4)), generator.random(300)
    basis = FourierBasis(generator.standard_normal((20, 4)), np.zeros(20), np.ones(20))
    # Blocks of 64 rows are full, so that ours is compiled.
    found = [
        moment_source(basis, GaussianNoise(), rows, weights, base, block_size=64).at(0.0)[0]
        for base in (ours, mine)
    ]
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_single_precision_features_lose_what_they_say(generator):
    rows, weights = generator.standard_normal((5000, 5)), generator.random(5000)
    frequencies, ones = generator.standard_normal((50, 5)), np.ones(50)
    base = GaussianMixtureDensity(np.ones(1), np.zeros((1, 5)), np.eye(5)[None])
    sums = [
        moment_source(
            FourierBasis(frequencies, 0 * ones, ones, True, single),
            GaussianNoise(),
            rows,
            weights,
            base,
        ).at(0.0)[0]
        for single in (False, True)
    ]
    error = np.abs(np.triu(sums[1].gram - sums[0].gram)).max() / weights.sum()
    # Float32 has 6e-8 of relative error; angles of size ten lose another digit.
    assert 1e-10 < error < 1e-6
