"""Fitted diffusions against densities that are known: mass, likelihood, ties and errors."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from kexpfam import FlowWarning, KernelDiffusion
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.datasets import make_density, make_thin_table


@pytest.mark.parametrize("name", ["ring", "checkerboard"])
def test_every_density_integrates_to_one(name):
    density = make_density(name)
    X = density.sample(1000, random_state=0)
    model = KernelDiffusion(random_state=0).fit(X)
    low, high = X.min(axis=0), X.max(axis=0)
    low, high = low - 0.5 * (high - low), high + 0.5 * (high - low)
    steps = (np.arange(120) + 0.5) / 120
    axes = [a + steps * (b - a) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    mass = np.exp(model.score_samples(grid)).sum() * np.prod((high - low) / 120)
    assert mass == pytest.approx(1.0, abs=0.01)


GAUSSIAN = GaussianMixtureDensity(
    np.ones(1), np.zeros((1, 3)), np.array([[[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]]])
)
MIXTURE = GaussianMixtureDensity(
    np.array([0.6, 0.4]),
    np.array([[2.0, 0.0, 0.0], [-2.0, 1.0, 0.0]]),
    np.array([np.eye(3), 0.4 * np.eye(3)]),
)


@pytest.mark.parametrize(("truth", "tolerance"), [(GAUSSIAN, 0.1), (MIXTURE, 0.3)])
def test_log_densities_agree_with_the_truth(truth, tolerance, generator):
    """Root mean square of the log ratio at fresh rows, from 4000: stated in nats."""
    model = KernelDiffusion(random_state=0).fit(truth.sample(4000, generator))
    fresh = truth.sample(2000, generator)
    ratios = model.score_samples(fresh) - truth.log_density(fresh)
    assert np.sqrt((ratios**2).mean()) < tolerance


def test_counts_get_the_probability_of_their_cells(generator):
    """Tied columns: the density over a cell is the probability of its value."""
    counts = generator.poisson(4.0, 3000).astype(float)
    X = np.column_stack([counts, generator.standard_normal(3000)])
    model = KernelDiffusion(random_state=0).fit(X)
    np.testing.assert_array_equal(model.tie_gaps_, [1.0, 0.0])
    fine = np.arange(-4.5, 20.5, 0.05) + 0.025
    side = np.linspace(-5, 5, 81)
    grid = np.stack(np.meshgrid(fine, side, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(model.score_samples(grid)).reshape(len(fine), -1).sum(axis=1) * 0.05 * 0.125
    cells = np.rint(fine).astype(int)
    for value in range(2, 8):
        share = (counts == value).mean()
        # Neighboring cells are blurred into each other by the smooth model.
        assert mass[cells == value].sum() == pytest.approx(share, abs=0.03)


@pytest.fixture(scope="module")
def powers():
    return make_thin_table("powers", 500, random_state=0)


@pytest.fixture(scope="module")
def tilted(powers):
    """A model with a real tilt, and so with a flow."""
    model = KernelDiffusion(n_components=128, marginals=None, random_state=0).fit(powers)
    assert model.has_tilt_
    return model


def with_steps(model, factor):
    other = copy.copy(model)
    density = replace(model.density_, steps=factor * model.density_.steps)
    other.fitted_ = model.fitted_._replace(density=density)
    return other


def test_error_estimates_come_with_log_densities(tilted, powers):
    logs, errors = tilted.score_samples(powers[:250], return_error=True)
    better, _ = with_steps(tilted, 4).score_samples(powers[:250], return_error=True)
    # An estimate of a lower order's error: nearly always larger than the error, and no bound.
    assert (np.abs(logs - better) <= errors + 1e-9).mean() > 0.9
    assert np.quantile(np.abs(logs - better), 0.9) < tilted.tolerance


def test_a_poor_flow_warns(tilted, powers):
    rough = copy.copy(tilted)
    density = tilted.density_
    coefficients = (
        density.field.coefficients * np.linspace(1, 1e3, len(density.field.knots))[:, None]
    )
    rough.fitted_ = tilted.fitted_._replace(
        density=replace(density, field=replace(density.field, coefficients=coefficients))
    )
    with pytest.warns(FlowWarning, match="error estimate"):
        rough.score_samples(powers[:10])
