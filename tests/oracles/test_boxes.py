"""Mixtures of soft boxes against their definition, automatic differentiation and known edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit

from kexpfam import BoxBase
from kexpfam.base import BASES, BoxMixtureDensity, GaussianMixtureDensity
from kexpfam.base.box_fits import _loss
from kexpfam.base.traced import traced_density
from kexpfam.data.sketch import Sketch
from kexpfam.precision import compiled

BOXES = BoxMixtureDensity(
    np.array([0.3, 0.7]),
    np.array([[-1.0, 0.5], [1.5, -0.5]]),
    np.array([[0.8, 1.0], [0.5, 2.0]]),
    np.array([[0.1, 0.4], [0.3, 0.02]]),
)


@compiled
def traced_values(density, rows, covariance):
    return density.log_density(rows), density.derivatives(rows, covariance)


def sketch_of(rows):
    keys = np.arange(len(rows), dtype=np.uint64)
    return Sketch(rows, np.ones(len(rows)), keys, rows.min(axis=0), rows.max(axis=0))


def test_the_density_is_that_of_a_uniform_number_with_logistic_noise(generator):
    """The distribution function of the noise, at both ends of the box."""
    rows = generator.normal(0, 2, (50, 2))
    each = []
    for weight, center, half, soft in zip(
        BOXES.weights, BOXES.centers, BOXES.half_widths, BOXES.softness, strict=True
    ):
        rise, fall = (expit((rows - center - end * half) / soft) for end in (-1, 1))
        each.append(weight * ((rise - fall) / (2 * half)).prod(axis=1))
    expected = np.sum(each, axis=0)
    # The difference of two numbers near one has lost digits where it is small.
    np.testing.assert_allclose(np.exp(BOXES.log_density(rows)), expected, atol=1e-14, rtol=1e-9)


def test_derivatives_are_those_of_automatic_differentiation(generator):
    rows = BOXES.sample(40, generator)
    covariance = np.array([[0.5, 0.2], [0.2, 0.3]])
    logs, (gradient, hessian, bend) = traced_values(traced_density(BOXES), rows, covariance)
    np.testing.assert_allclose(BOXES.log_density(rows), logs, rtol=1e-12)
    np.testing.assert_allclose(BOXES.gradient(rows), gradient, rtol=1e-9, atol=1e-9)
    # In units of the sharpest edge's: derivatives there are as large as its powers.
    np.testing.assert_allclose(BOXES.hessian(rows), hessian, rtol=1e-7, atol=1e-7 * 50**2)
    np.testing.assert_allclose(BOXES.bend(rows, covariance), bend, rtol=1e-6, atol=1e-7 * 50**3)


def test_draws_have_the_moments_of_the_parts(generator):
    """Of a uniform number, h²/3, and of logistic noise, π²s²/3."""
    one = BoxMixtureDensity(
        np.ones(1), *(part[:1] for part in (BOXES.centers, BOXES.half_widths)), BOXES.softness[:1]
    )
    draws = one.sample(20_000, generator)
    variances = one.half_widths[0] ** 2 / 3 + np.pi**2 * one.softness[0] ** 2 / 3
    np.testing.assert_allclose(
        draws.mean(axis=0), one.centers[0], atol=5 * np.sqrt(variances.max() / 20_000)
    )
    np.testing.assert_allclose(draws.var(axis=0), variances, rtol=0.05)
    low, high = one.box()
    assert (draws > low).all()
    assert (draws < high).all()


def test_the_fit_follows_the_derivative_of_its_loss(generator):
    rows, shares = BOXES.sample(30, generator), generator.dirichlet(np.ones(30))
    parameters = generator.normal(0, 0.5, 2 + 3 * 4)
    _, derivative = _loss(parameters, rows, shares, 2, 0.05)
    expected = approx_fprime(parameters, lambda flat: _loss(flat, rows, shares, 2, 0.05)[0], 1e-6)
    np.testing.assert_allclose(derivative, expected, atol=1e-5)


def test_edges_are_found_from_rows(generator):
    """Two squares: edges lie between the outermost rows and about a gap beyond."""
    corners = np.where(generator.uniform(size=(400, 1)) < 0.5, -1.0, 1.0)
    rows = corners + generator.uniform(-0.5, 0.5, (400, 2))
    found = BASES["boxes"].fit(sketch_of(rows), np.random.default_rng(0))
    assert len(found.weights) == 2
    ends = np.sort(np.concatenate(found.edges()))
    # 200 rows to a square of side one: the gap to an edge is 1/200 on average.
    np.testing.assert_allclose(ends, np.repeat([-1.5, -0.5, 0.5, 1.5], 2), atol=0.03)
    fresh = corners + generator.uniform(-0.5, 0.5, (400, 2))
    # Eight ends, two centers' shares: about nine parameters' worth of 1/n each is lost.
    assert found.log_density(fresh).mean() > np.log(0.5) - 0.1


def test_the_automatic_base_takes_boxes_for_what_is_flat(generator):
    rows = generator.uniform(-1.7, 1.7, (300, 2))
    found = BASES["auto"].fit(sketch_of(rows), np.random.default_rng(0))
    assert isinstance(found, BoxMixtureDensity)


def test_the_automatic_base_takes_many_gaussians_for_rings_alone(generator):
    """Boxes cannot lean, and one Gaussian is enough for what does; a ring has no end of them."""
    normal = generator.normal(0, 1, (300, 2))
    leaning = normal @ [[1.0, 0.8], [0.0, 0.6]]
    rings = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    rings = (1.0 + (np.arange(300) % 2))[:, None] * rings + generator.normal(0, 0.07, (300, 2))
    few, many = (
        BASES["auto"].fit(sketch_of(rows), np.random.default_rng(0)) for rows in (leaning, rings)
    )
    assert isinstance(few, GaussianMixtureDensity)
    assert isinstance(many, GaussianMixtureDensity)
    # Those of the mixture, and all of an average in these tests.
    assert len(few.weights) <= 10 < 30 < len(many.weights)


def test_too_few_rows_for_boxes_are_named():
    with pytest.raises(ValueError, match="A base density of boxes needs at least 5 distinct rows"):
        BoxBase(n_components=5).fit(sketch_of(np.eye(3)), np.random.default_rng(0))
