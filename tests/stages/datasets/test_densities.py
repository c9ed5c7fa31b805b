"""The known densities: normalized, differentiable, and drawn from what they say."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam.datasets import DENSITIES, make_density

# From the paper's tables (100 features, 1000 rows) and, for our own mixture, from quadrature.
TRUE_LOG_LIKELIHOODS = {
    "uniform": -3.584,
    "mixture_of_uniforms": -2.890,
    "cosine": -3.503,
    "funnel": -2.84,
    "banana": -2.83,
    "ring": -3.94,
    "mixture_of_rings": -4.65,
    "gaussian_mixture": -3.28,
}
# Where integration by parts leaves nothing at the boundary.
SMOOTH = ["gaussian_mixture", "funnel", "banana", "ring", "mixture_of_rings"]


@pytest.mark.parametrize("name", DENSITIES)
def test_the_entropy_is_the_papers(name):
    density = make_density(name)
    logs = density.log_density(density.sample(100_000, random_state=0))
    # The paper's figures are means over 1000 draws with deviations near one: ± 0.03 each.
    assert abs(logs.mean() - TRUE_LOG_LIKELIHOODS[name]) < 0.06


@pytest.mark.parametrize("name", DENSITIES)
def test_it_integrates_to_one(name):
    density = make_density(name)
    # Midpoints of a grid that no edge of a box falls inside; tails beyond 12 are negligible,
    # except the funnel's, whose wide end reaches further than its mass matters.
    edges = np.linspace(-12, 12, 961)
    middle = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(middle, middle), axis=-1).reshape(-1, 2)
    mass = np.exp(density.log_density(grid)).sum() * (edges[1] - edges[0]) ** 2
    assert abs(mass - 1) < 5e-3


@pytest.mark.parametrize("name", DENSITIES)
def test_the_gradient_is_the_slope_of_the_log_density(name, generator):
    density = make_density(name)
    rows = density.sample(200, random_state=generator)
    step = 1e-6
    for j in range(2):
        shift = step * np.eye(2)[j]
        slope = (density.log_density(rows + shift) - density.log_density(rows - shift)) / (2 * step)
        inside = np.isfinite(slope)
        np.testing.assert_allclose(
            density.gradient(rows)[inside, j], slope[inside], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", SMOOTH)
def test_steins_identity(name):
    """E[∇log p · x] = −d."""
    density = make_density(name)
    rows = density.sample(200_000, random_state=1)
    products = (density.gradient(rows) * rows).sum(axis=1)
    assert abs(products.mean() + 2) < 5 * products.std() / np.sqrt(len(rows))


@pytest.mark.parametrize("name", DENSITIES)
def test_seeds_are_respected(name):
    first, again, other = (make_density(name).sample(10, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="banana"):
        make_density("apple")
