"""Draws against distributions that are known otherwise, within Monte-Carlo error.

The error of a mean over chains is its deviation over √(effective sample size), the latter
estimated for the very function whose mean is taken. Five errors: with fixed seeds and a few dozen
figures, a correct sampler does not come near.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import kstest, norm
from tests.conftest import columns, make_sketch

from kexpfam.base import BoxDensity, GaussianMixtureDensity, RescaledDensity
from kexpfam.base.density import Completed
from kexpfam.data.standardize import Standardizer
from kexpfam.datasets import make_density
from kexpfam.features import FourierFeatures, NystromFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import TiltedDensity
from kexpfam.sampling import sample_density
from kexpfam.sampling.chains import diagnose

MIXTURE = GaussianMixtureDensity(
    np.array([0.7, 0.3]),
    np.array([[0.5, 0.3], [-0.7, -0.2]]),
    np.array([0.5 * np.eye(2), [[0.8, 0.3], [0.3, 0.6]]]),
)
BOX = BoxDensity(np.array([-1.0, -2.0]), np.array([2.0, 1.0]))
BANANA = Completed(make_density("banana"))
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def tilted(base, size, basis=None, center=(0.0, 0.0), scale=(1.0, 1.0)):
    generator = np.random.default_rng(5)
    if basis is None:
        basis = FourierFeatures().build(8, columns(2), RadialBasis(), generator)
    coefficients = size * generator.standard_normal(basis.n_features)
    return TiltedDensity(
        basis, coefficients, base, Standardizer(np.array(center), np.array(scale)), 0.7
    )


def assert_mean(values, expected):
    """The mean of a function's values at all draws, of shape (chains, draws)."""
    (effective,) = diagnose(values[..., None].astype(float))[1]
    assert abs(values.mean() - expected) < 5 * values.std() / np.sqrt(effective)


def assert_standard_normal(draws):
    """Means, variances, correlation and quantiles of two columns."""
    for column in np.moveaxis(draws, -1, 0):
        assert_mean(column, 0)
        assert_mean(column**2, 1)
        for level in LEVELS:
            assert_mean(column < norm.ppf(level), level)
    assert_mean(draws[..., 0] * draws[..., 1], 0)


# -- the log density --------------------------------------------------------------------------


CASES = {
    "user": BANANA,
    "rescaled mixture": RescaledDensity(MIXTURE, np.array([0.3, -0.2]), np.array([0.5, 2.0])),
    "rescaled user": RescaledDensity(BANANA, np.array([0.3, -0.2]), np.array([0.5, 2.0])),
}


def assert_same_density(density, rows):
    log_density = jax.jit(jax.vmap(jax.value_and_grad(density.standardized_function())))
    with jax.enable_x64(True):
        values, slopes = jax.tree.map(np.asarray, log_density(density.standardizer.forward(rows)))
    shift = density.log_normalizer + density.standardizer.log_volume
    np.testing.assert_allclose(values - shift, density.log_density(rows), rtol=1e-9, atol=1e-9)
    inside = np.isfinite(values)
    slopes = slopes / density.standardizer.scale
    np.testing.assert_allclose(slopes[inside], density.gradient(rows)[inside], atol=1e-8)


OTHER_UNITS = {"center": (3.0, -2.0), "scale": (0.5, 4.0)}


def test_the_log_density_and_its_gradient_on_fitted_bases(base, generator):
    density = tilted(base, 2.0, **OTHER_UNITS)
    assert_same_density(density, density.standardizer.backward(generator.normal(0, 2, (50, 2))))


@pytest.mark.parametrize("name", CASES)
def test_the_log_density_and_its_gradient_on_other_bases(name, generator):
    density = tilted(CASES[name], 2.0, **OTHER_UNITS)
    assert_same_density(density, density.standardizer.backward(generator.normal(0, 2, (50, 2))))


def test_the_log_density_and_its_gradient_on_a_nystrom_basis(generator):
    sketch = make_sketch(generator.standard_normal((30, 2)))
    basis = NystromFeatures().build(10, sketch, RadialBasis(), generator)
    assert_same_density(tilted(MIXTURE, 1.0, basis), generator.standard_normal((50, 2)))


def test_nothing_lies_outside_a_box():
    with jax.enable_x64(True):
        assert tilted(BOX, 1.0).standardized_function()(np.array([0.0, 1.5])) == -np.inf


# -- untilted densities, without jumps: those would be draws of the very density ----------------


@pytest.mark.parametrize("method", ["mala", "nuts"])
def test_a_gaussian_in_the_users_units(method):
    covariance = np.array([[1.0, 0.6], [0.6, 0.5]])
    mean = np.array([0.2, -0.1])
    # In two equal parts, for the sake of a shape that other tests have compiled.
    base = GaussianMixtureDensity(
        np.full(2, 0.5), np.tile(mean, (2, 1)), np.tile(covariance, (2, 1, 1))
    )
    density = tilted(base, 0.0, **OTHER_UNITS)
    chains = sample_density(density, 4000, 0, method=method, jumps=False)
    whitened = density.standardizer.forward(chains.rows()) - mean
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), whitened.T).T
    n_chains, n_draws, _ = chains.draws.shape
    assert_standard_normal(whitened.reshape(n_draws, n_chains, 2).transpose(1, 0, 2))


def test_a_mixture():
    draws = sample_density(tilted(MIXTURE, 0.0), 4000, 1, jumps=False).draws
    mean = MIXTURE.weights @ MIXTURE.means
    second = MIXTURE.weights @ (
        MIXTURE.means**2 + np.diagonal(MIXTURE.covariances, axis1=1, axis2=2)
    )
    for j in range(2):
        assert_mean(draws[..., j], mean[j])
        assert_mean(draws[..., j] ** 2, second[j])


def test_a_users_banana():
    """Straightened, a banana is standard normal."""
    draws = sample_density(tilted(BANANA, 0.0), 4000, 0, jumps=False).draws
    straight = np.stack([draws[..., 0], draws[..., 1] - draws[..., 0] ** 2 + 1], axis=-1)
    assert_standard_normal(straight)


# -- tilted densities -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method", "jumps"),
    [
        ("mixture", "mala", True),
        ("mixture", "mala", False),
        ("mixture", "nuts", True),
        ("box", "mala", True),
    ],
)
def test_a_tilted_density_against_quadrature(name, method, jumps):
    """Midpoints of 400 × 400 cells: errors of 1e-4, a hundredth of the Monte-Carlo errors."""
    base = {"mixture": MIXTURE, "box": BOX}[name]
    low, high = ([-6, -6], [6, 6]) if name == "mixture" else (base.low, base.high)
    density = tilted(base, 1.5)
    axes = [np.linspace(a, b, 801)[1::2] for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    masses = np.exp(density.log_density(grid))
    masses /= masses.sum()
    # The tilt matters: it moves the mean of the base by far more than the Monte-Carlo error.
    assert np.abs(masses @ grid - base.sample(10_000, np.random.default_rng(0)).mean(0)).max() > 0.1

    chains = sample_density(density, 4000, 0, method=method, jumps=jumps)
    # Jumps are accepted and refused: both sides of the rule are at work.
    assert not jumps or 0.2 < chains.jump_acceptance.mean() < 0.8
    draws = chains.draws
    for j in range(2):
        assert_mean(draws[..., j], masses @ grid[:, j])
        assert_mean(draws[..., j] ** 2, masses @ grid[:, j] ** 2)
        for edge in np.quantile(base.sample(1000, np.random.default_rng(0))[:, j], LEVELS):
            assert_mean(draws[..., j] < edge, masses @ (grid[:, j] < edge))
    assert_mean(draws[..., 0] * draws[..., 1], masses @ grid.prod(axis=1))


# -- detailed balance -------------------------------------------------------------------------

STEP = 0.5


def straightened(rows):
    return np.stack([rows[:, 0], rows[:, 1] - rows[:, 0] ** 2 + 1], axis=1)


def smallest_p_value(rows):
    """Of independent rows of the banana: its two normal columns, and their product."""
    normal = straightened(rows)
    return min(kstest(column, norm.cdf).pvalue for column in (*normal.T, normal.sum(1) / 2**0.5))


def test_the_distribution_does_not_change_under_the_walk():
    """Chains that start from the very distribution are still distributed by it after eight steps.

    Independent chains, so that ranks can be tested. Steps without rejection fail the same test.
    """
    banana = make_density("banana")
    starts = banana.sample(4000, random_state=0)
    walk = {"n_chains": 4000, "starts": starts, "n_steps": 8, "burn_in": 0, "step_size": STEP}
    walk["jumps"] = False
    with pytest.warns(UserWarning, match="R-hat"):  # Eight steps are too few to forget the start.
        ends = sample_density(tilted(BANANA, 0.0), 4000, 0, **walk).draws[:, -1]
    assert np.abs(ends - starts).mean() > 0.5
    assert smallest_p_value(ends) > 1e-3

    rows, generator = starts, np.random.default_rng(0)
    for _ in range(8):
        noise = np.sqrt(2 * STEP) * generator.standard_normal(rows.shape)
        rows = np.clip(rows + STEP * banana.gradient(rows) + noise, -1e3, 1e3)
    assert smallest_p_value(rows) < 1e-9
