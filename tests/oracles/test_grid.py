"""Frequencies on a lattice against the same frequencies summed feature by feature."""

from __future__ import annotations

import importlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import columns, make_sketch

from kexpfam.base import BoxDensity, GaussianMixtureDensity, draw_defensively
from kexpfam.data.blocks import make_block
from kexpfam.features.basis import Basis
from kexpfam.features.fourier import FourierBasis
from kexpfam.features.grid import GridFeatures
from kexpfam.features.spectra import Matern, RadialBasis, RationalQuadratic
from kexpfam.moments import add_moments, block_moments, scale_moments
from kexpfam.noise import GaussianNoise
from kexpfam.precision import compiled
from kexpfam.solve import system_at
from kexpfam.tuning.adam import held_out_loss

pytest.importorskip("finufft")

SPECTRA = [RadialBasis(), Matern(2.5), RationalQuadratic(2.0)]


def spread_base(family, n_columns):
    """A base density for rows of about unit spread."""
    if family == "uniform":
        return BoxDensity(np.full(n_columns, -9.0), np.full(n_columns, 9.0))
    count = 1 if family == "gaussian" else 2
    means = np.linspace(-1, 1, count * n_columns).reshape(count, n_columns)
    tilted = np.eye(n_columns) + 0.2 * np.ones((n_columns, n_columns))
    covariances = tilted * np.linspace(0.6, 1.2, count)[:, None, None]
    return GaussianMixtureDensity(np.full(count, 1 / count), means, covariances)


def grid_of(rows, n_components, spectrum=RadialBasis(), length_scale=0.7):  # noqa: B008
    basis = GridFeatures().build(
        n_components, make_sketch(rows), spectrum, np.random.default_rng(0)
    )
    return basis.rescaled(np.full(rows.shape[1], length_scale))


@compiled
def amplitudes_of(basis):
    return basis.amplitudes


def plain_basis(basis):
    """The same functions, with parameters in NumPy."""
    amplitudes = amplitudes_of(basis)
    return FourierBasis(basis.frequencies, np.zeros(len(amplitudes)), amplitudes, True)


def padded_block(rows, weights, base, noise):
    covariance = noise.covariance_shape(rows.shape[1])
    return make_block(rows, weights, base, covariance, size=len(rows) + 14)


@pytest.fixture(params=[1, 2, 3])
def weighted_rows(request, generator):
    rows = generator.standard_normal((50, request.param))
    return rows, generator.uniform(0.2, 3.0, 50)


def require_equal_systems(rows, weights, base):
    noise, basis = GaussianNoise(), grid_of(rows, 130)
    block, plain = padded_block(rows, weights, base, noise), plain_basis(basis)
    products, transforms = block_moments(plain, block, noise, 0.0), basis.host_moments(block)
    for scale in (0.0, 0.3):
        expected = system_at(plain, products, noise, scale)
        found = system_at(basis, transforms, noise, scale)
        # Transforms are asked for twelve digits of the largest sum.
        for exact, summed in zip(expected, found, strict=True):
            np.testing.assert_allclose(summed, exact, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("family", ["gaussian", "mixture", "uniform"])
def test_transforms_give_the_system_of_the_products(family, weighted_rows):
    rows, weights = weighted_rows
    require_equal_systems(rows, weights, spread_base(family, rows.shape[1]))


def test_a_base_fitted_to_rows_will_do(base, two_clusters, generator):
    rows = generator.permutation(two_clusters)[:50]
    require_equal_systems(rows, generator.uniform(0.2, 3.0, 50), base)


def test_large_derivatives_of_the_base_do_not_drown_the_others(generator):
    """A narrow base has a bend of 10⁹, which shares a transform with other terms."""
    base = GaussianMixtureDensity(
        np.array([0.5, 0.5]), np.array([[0.0], [1e-3]]), np.full((2, 1, 1), 1e-6)
    )
    rows, noise = generator.normal(0, 1e-3, (40, 1)), GaussianNoise()
    block, basis = padded_block(rows, np.ones(40), base, noise), grid_of(rows, 20)
    found, expected = basis.host_moments(block), block_moments(basis, block, noise, 0.0)
    for name in ("base_cross", "base_curvature", "base_bend"):
        exact = getattr(expected, name)
        size = np.abs(exact).max()
        np.testing.assert_allclose(getattr(found, name), exact, atol=1e-10 * size)
    np.testing.assert_allclose(found.weight, 40)
    np.testing.assert_allclose(found.lattice[0].max(), 40, rtol=1e-10)


@pytest.mark.parametrize("family", ["gaussian", "mixture"])
def test_sums_add_and_scale(family, weighted_rows):
    rows, weights = weighted_rows
    base, noise = spread_base(family, rows.shape[1]), GaussianNoise()
    basis = grid_of(rows, 60)

    def moments(part, factor=1.0):
        block = padded_block(rows[part], factor * weights[part], base, noise)
        return basis.host_moments(block)

    halves = add_moments(moments(slice(20)), moments(slice(20, None)))
    doubled = scale_moments(halves, 2.0)
    for whole, sums in ((moments(slice(None)), halves), (moments(slice(None), 2.0), doubled)):
        for exact, found in zip(whole, sums, strict=True):
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, exact, atol=1e-10 * max(1, np.abs(exact).max()))


def kernel_of(basis, differences):
    """Σ a_k² cos(w_k·δ) over the whole lattice, with zero's share, which is half a pair's."""
    plain = plain_basis(basis)
    center = plain_basis(replace(basis, indices=np.zeros((1, len(basis.spacing)), int)))
    waves = np.cos(differences @ plain.frequencies.T) @ plain.amplitudes**2
    return waves + center.amplitudes[0] ** 2 / 2


# Heavy tails, in space or in frequency, want lattices that three columns cannot afford.
SIZES = [(1, 60.0, 400), (2, 12.0, 3000)]
KERNELS = [(spectrum, *size) for spectrum in SPECTRA for size in SIZES]
KERNELS += [(RadialBasis(), 3, 4.0, 2196)]


@pytest.mark.parametrize(("spectrum", "n_columns", "width", "n_components"), KERNELS, ids=str)
def test_amplitudes_make_the_kernel(spectrum, n_columns, width, n_components, generator):
    box = np.vstack([np.zeros(n_columns), np.full(n_columns, width)])
    length_scale = np.linspace(0.8, 1.2, n_columns) if n_columns < 3 else np.full(3, 0.75)
    basis = grid_of(box, n_components, spectrum, 1.0).rescaled(length_scale)
    differences = generator.uniform(-width, width, (200, n_columns)) / 2
    with jax.enable_x64(True):
        squares = jnp.asarray(((differences / length_scale) ** 2).sum(axis=1))
        exact = np.asarray(spectrum.profile(squares))
    # For the Gaussian the rectangle rule is exact but for repetitions at distance P and for
    # frequencies beyond K: below 1e-6 where the lattice is coarsest. Other distributions have 64
    # multipliers in place of all, which costs 1e-3.
    tolerance = 2e-6 if isinstance(spectrum, RadialBasis) else 2e-3
    np.testing.assert_allclose(kernel_of(basis, differences), exact, atol=tolerance)


def test_the_largest_lattice_within_the_components_is_taken(generator):
    def lattice(n_components, n_columns):
        return GridFeatures().build(n_components, columns(n_columns), RadialBasis(), generator)

    assert [lattice(m, 1).reach for m in (1, 2, 3, 4, 101)] == [1, 1, 1, 2, 50]
    assert [lattice(m, 2).reach for m in (5, 8, 23, 24, 4000)] == [1, 1, 1, 2, 31]
    assert [lattice(m, 3).reach for m in (26, 123, 124)] == [1, 1, 2]
    basis = lattice(1000, 2)
    assert isinstance(basis, Basis)
    assert basis.n_features == (2 * basis.reach + 1) ** 2 - 1
    np.testing.assert_allclose(basis.spacing, 2 * np.pi / 1.5)
    both = np.concatenate([basis.indices, -basis.indices])
    assert len(np.unique(both, axis=0)) == basis.n_features
    assert (both != 0).any(axis=1).all()


def test_a_mini_batch_gets_the_longest_waves(two_clusters):
    basis = grid_of(two_clusters, 1000)
    small = basis.for_batch(two_clusters)
    assert small.n_features == 512
    lengths = (np.asarray(basis.indices) ** 2).sum(axis=1)
    assert lengths[:256].max() <= lengths[256:].min()
    whole, part = plain_basis(basis.rescaled(1.3)), plain_basis(small.rescaled(1.3))
    np.testing.assert_allclose(part.frequencies, whole.frequencies[:256])
    np.testing.assert_allclose(part.amplitudes, whole.amplitudes[:256])
    # The first of the lattice are themselves a part of it, and are summed as such.
    block = padded_block(
        two_clusters, np.ones(len(two_clusters)), spread_base("mixture", 2), GaussianNoise()
    )
    sums, part_sums = basis.host_moments(block), small.host_moments(block)
    np.testing.assert_array_equal(part_sums.lattice, sums.lattice)
    kept = np.concatenate([np.arange(256), len(basis.indices) + np.arange(256)])
    np.testing.assert_allclose(part_sums.base_bend, sums.base_bend[kept])


@pytest.mark.parametrize("length_scale", [0.05, 1.0, 50.0])
def test_amplitudes_have_finite_derivatives_by_the_length_scale(length_scale, two_clusters):
    """At 50 most amplitudes are far below the smallest float."""
    basis = grid_of(two_clusters, 1000, length_scale=1.0)

    @jax.jit
    def spread(log_scale):
        return jnp.abs(basis.rescaled(jnp.exp(log_scale)).amplitudes).sum()

    with jax.enable_x64(True):
        start = jnp.full(2, np.log(length_scale))
        slope = jax.grad(spread)(start)
        step = jnp.array([1e-5, 0.0])
        quotient = (spread(start + step) - spread(start - step)) / 2e-5
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(slope[0], quotient, rtol=1e-6, atol=1e-9)


def test_the_held_out_loss_can_be_differentiated(two_clusters, generator):
    """Tuning's own loss: moments by products, compiled, with the length-scale traced."""
    noise, base = GaussianNoise(), spread_base("mixture", 2)
    train, held_out = (
        padded_block(rows, np.ones(len(rows)), base, noise)
        for rows in np.split(generator.permutation(two_clusters), 2)
    )
    basis, draws = grid_of(two_clusters, 60), draw_defensively(base, 100, generator)
    fixed = {"penalty": 1e-3, "noise_scale": 0.1}

    @compiled
    def loss_and_slope(length_scale):
        def loss(length_scale):
            theta = {"length_scale": length_scale}
            return held_out_loss(
                theta, fixed, basis, noise, train, held_out, draws, "score_matching"
            )

        return jax.value_and_grad(loss)(length_scale)

    start, step = np.log([0.9, 1.2]), 1e-5
    _, slope = loss_and_slope(start)
    for column, axis in enumerate(np.eye(2)):
        (ahead, _), (behind, _) = (loss_and_slope(start + move * axis) for move in (step, -step))
        # Rounding of the loss (1e-13 after the solve) over the step, and the step's square.
        np.testing.assert_allclose(slope[column], (ahead - behind) / (2 * step), rtol=1e-5)


def test_four_columns_are_refused(generator):
    with pytest.raises(ValueError, match=r"at most 3 columns.*got 4.*basis='fourier'"):
        GridFeatures().build(100, columns(4), RadialBasis(), generator)


def test_a_missing_package_is_named(generator, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"kexpfam\[grid\]"):
        GridFeatures().build(100, columns(2), RadialBasis(), generator)
