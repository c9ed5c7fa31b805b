"""The pieces of the pass over rows, against NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests.conftest import moment_source

from kexpfam.base import BoxDensity, GaussianMixtureDensity, RescaledDensity
from kexpfam.base.traced import traced_density
from kexpfam.features import FourierBasis
from kexpfam.features.parted import ROWS_TOGETHER, parted_products, parted_sums, parts_of
from kexpfam.features.products import (
    add_upper_products,
    from_upper_half,
    products_of_halves,
    upper_products,
)
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
        huge = np.asarray(jax.jit(cosine_and_sine)(np.array([1e9, 1e18, 1e300, -1e300])))
        assert (np.abs(huge) <= 1 + 1e-15).all()
        slopes = jax.jit(jax.jacfwd(cosine_and_sine))(np.array(0.7))
        bends = jax.jit(jax.hessian(lambda x: cosine_and_sine(x)[0]))(np.array(0.7))
    np.testing.assert_allclose(slopes, [-np.sin(0.7), np.cos(0.7)], rtol=1e-15)
    np.testing.assert_allclose(bends, -np.cos(0.7), rtol=1e-15)


def with_slopes(function, seeds, *lines):
    """Values of a function, and seeds pulled back through it, in one program."""

    @jax.jit
    def both(seeds, *lines):
        values, pulled = jax.vjp(function, *lines)
        return values, pulled(seeds)

    return both(seeds, *lines)


@pytest.mark.parametrize("count", [3, 256, 700])
def test_the_upper_half_is_that_of_the_product(count, generator):
    lines = generator.standard_normal((count, 40))
    seeds = generator.standard_normal((count, count))
    with jax.enable_x64(True):
        products, (slope,) = with_slopes(
            lambda lines: from_upper_half(upper_products(lines)), seeds, lines
        )
    np.testing.assert_allclose(products, lines @ lines.T, atol=1e-12)
    np.testing.assert_allclose(slope, (seeds + seeds.T) @ lines, atol=1e-11)
    by_blas = add_upper_products(add_upper_products(None, lines[:, :15]), lines[:, 15:])
    np.testing.assert_allclose(np.triu(by_blas), np.triu(lines @ lines.T), atol=1e-12)


@pytest.mark.parametrize("count", [3, 700, 2050])
def test_products_of_halves_are_those_of_the_whole(count, generator):
    lines = generator.standard_normal((count, 40))
    seeds = generator.standard_normal((count, count))
    halves = lines[: count // 2], lines[count // 2 :]
    with jax.enable_x64(True):
        products, slopes = with_slopes(
            lambda *two: from_upper_half(products_of_halves(*two)), seeds, *halves
        )
    np.testing.assert_allclose(products, lines @ lines.T, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(slopes), (seeds + seeds.T) @ lines, atol=1e-10)


@pytest.mark.parametrize("n_rows", [100, 2 * ROWS_TOGETHER + 5])
def test_products_of_parts_are_exact_to_float32(n_rows, generator):
    angles = 10 * generator.standard_normal((9, n_rows))
    # Small ones are below what a float16 knows in full.
    sizes = generator.choice([1.0, 1e-3, 1e-6], n_rows)
    lines = (sizes * np.cos(angles)).astype(np.float32)
    with jax.enable_x64(True):
        columns = generator.standard_normal((n_rows, 3)) * [1e-30, 1.0, 1e30]

        @jax.jit
        def both(lines, columns):
            parts = parts_of(lines[:4]), parts_of(lines[4:])
            return parted_products(*parts), parted_sums(parts[0], columns)

        found, sums = map(np.asarray, both(lines, columns))
    wide = lines.astype(float)
    # Left out are products of low parts, 2^-24 of one row's largest; float32 sums round as much.
    error = np.abs(np.triu(found - wide @ wide.T)).max() / n_rows
    assert error < 2e-7
    means = (sums - wide[:4] @ columns) / n_rows
    assert (np.abs(means) / np.abs(columns).max(axis=0)).max() < 2e-7
    # One part alone would be off by 2^-12 of a feature, averaged over rows.
    coarse = lines.astype(np.float16).astype(float)
    assert error < 0.1 * np.abs(coarse @ coarse.T - wide @ wide.T).max() / n_rows


def test_single_cosines_and_sines_reduce_their_angle_first(generator):
    angles = 1e6 * generator.standard_normal(10_000)
    with jax.enable_x64(True):
        found = np.array(jax.jit(lambda angles: cosine_and_sine(angles, True))(angles))
        sine = jax.jit(jax.grad(lambda x: cosine_and_sine(x, True)[1].astype("float64")))
        slope = sine(np.array(0.7))
    assert found.dtype == np.float32
    # Twice the unit in the last place of numbers up to one.
    np.testing.assert_allclose(found, [np.cos(angles), np.sin(angles)], atol=1.2e-7)
    np.testing.assert_allclose(slope, np.cos(0.7), rtol=1e-6)


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
        derivatives = jax.jit(traced_density(density).derivatives)
        found = [np.asarray(x) for x in derivatives(rows, covariance)]
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


def sums_in(precision, largest_weight=1.0):
    """Sums of the same features over the same rows, and the rows' weight."""
    generator = np.random.default_rng(0)
    rows, weights = generator.standard_normal((5000, 5)), largest_weight * generator.random(5000)
    frequencies, ones = generator.standard_normal((50, 5)), np.ones(50)
    means = generator.standard_normal((2, 5))
    base = GaussianMixtureDensity(np.full(2, 0.5), means, np.array([np.eye(5)] * 2))
    words = precision == "single", precision == "mixed"
    basis = FourierBasis(frequencies, 0 * ones, ones, True, *words)
    source = moment_source(basis, GaussianNoise(), rows, weights, base, block_size=8192)
    return source.at(0.0)[0], weights.sum()


def largest_error(sums, exact, weight):
    """Of a mean, relative to the largest of its kind, which is one at least."""
    pairs = zip(sums, exact, strict=True)
    means = [(np.triu(a - b) if a.ndim == 2 and len(a) == len(a.T) else a - b, b) for a, b in pairs]
    return max(np.abs(e).max() / np.maximum(np.abs(b).max(), weight) for e, b in means)


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_single_precision_features_lose_what_they_say(precision):
    error = largest_error(sums_in(precision)[0], *sums_in("double"))
    # Float32 has 6e-8 of relative error, and sums of thousands round in each of their steps.
    assert 1e-10 < error < 1e-6


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_what_accelerators_do_gives_the_same_sums(precision, monkeypatch):
    # Weights that a float32 does not know.
    exact, weight = sums_in("double", largest_weight=1e40)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    error = largest_error(sums_in(precision, largest_weight=1e40)[0], exact, weight)
    assert error < 1e-13 if precision == "double" else 1e-10 < error < 1e-6
