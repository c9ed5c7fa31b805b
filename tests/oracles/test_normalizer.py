"""log Z three ways: importance sampling, quadrature, and SciPy's adaptive integration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.stats import genpareto
from tests.conftest import columns

from kexpfam import ImportanceNormalizer, QuadratureNormalizer
from kexpfam.base import BoxDensity, GaussianMixtureDensity, draw_defensively
from kexpfam.data.standardize import Standardizer
from kexpfam.features import FourierFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import TiltedDensity
from kexpfam.model.health import normalizer_complaint
from kexpfam.normalizer.pareto import pareto_shape

BASES = {
    "box": BoxDensity(np.array([-1.0, -2.0]), np.array([2.0, 1.0])),
    "mixture": GaussianMixtureDensity(
        np.array([0.7, 0.3]),
        np.array([[0.5, 0.3], [-0.7, -0.2]]),
        np.array([0.5 * np.eye(2), [[0.8, 0.3], [0.3, 0.6]]]),
    ),
}


def tilted(base, n_columns, generator, size=1.0):
    basis = FourierFeatures().build(8, columns(n_columns), RadialBasis(), generator)
    coefficients = size * generator.standard_normal(8)
    identity = Standardizer(np.zeros(n_columns), np.ones(n_columns))
    return TiltedDensity(basis, coefficients, base, identity, 0.0)


@pytest.mark.parametrize("name", BASES)
def test_quadrature_against_adaptive_integration(name, generator):
    """SciPy's adaptive rule, with f written out again from its definition."""
    density = tilted(BASES[name], 2, generator)
    basis, (b_cos, b_sin) = density.basis, np.split(density.coefficients, 2)

    def value(y, x):
        angles = basis.frequencies @ (x, y)
        tilt = basis.amplitudes @ (b_cos * np.cos(angles) + b_sin * np.sin(angles))
        return np.exp(tilt) * base_value(np.array([x, y]))

    def base_value(point):
        if name == "box":
            return 1 / 9
        shifts = point - density.base.means
        forms = np.einsum("ki,kij,kj->k", shifts, precisions, shifts)
        return heights @ np.exp(-forms / 2)

    if name == "mixture":
        precisions = np.linalg.inv(density.base.covariances)
        heights = density.base.weights / np.sqrt(
            np.linalg.det(2 * np.pi * density.base.covariances)
        )
    low, high = (-1.0, -2.0), (2.0, 1.0)
    if name == "mixture":
        low, high = (-6.0, -6.0), (6.0, 6.0)
    expected = dblquad(value, low[0], high[0], low[1], high[1], epsabs=1e-6, epsrel=1e-5)[0]
    found = QuadratureNormalizer().estimate(density, generator)
    np.testing.assert_allclose(found.log_normalizer, np.log(expected), atol=1e-4)
    assert found.error < 1e-5
    assert normalizer_complaint(found) is None


def test_quadrature_in_one_column(generator):
    density = tilted(BoxDensity(np.array([-1.0]), np.array([3.0])), 1, generator)
    expected = quad(lambda x: np.exp(density.log_density(np.array([[x]])))[0], -1, 3)[0]
    found = QuadratureNormalizer().estimate(density, generator)
    np.testing.assert_allclose(found.log_normalizer, np.log(expected), atol=1e-8)


@pytest.mark.parametrize("name", BASES)
def test_importance_sampling_is_within_its_own_error_bar(name, generator):
    density = tilted(BASES[name], 2, generator, size=2.0)
    exact = QuadratureNormalizer().estimate(density, generator).log_normalizer
    estimates = [
        ImportanceNormalizer(n_draws=4000).estimate(density, np.random.default_rng(seed))
        for seed in range(40)
    ]
    scores = [(e.log_normalizer - exact) / e.error for e in estimates]
    # Forty standard normal figures: their mean square is 1 ± 0.22.
    assert 0.3 < np.mean(np.square(scores)) < 2.0
    assert abs(np.mean(scores)) < 4 / np.sqrt(40)


def test_proportions_of_defensive_draws_stand_for_the_base_density(generator):
    draws = draw_defensively(BASES["mixture"], 40_000, generator)
    shares = np.exp(draws.log_proportions)
    mean = BASES["mixture"].weights @ BASES["mixture"].means
    np.testing.assert_allclose(shares.sum(), 1)
    np.testing.assert_allclose(shares @ draws.rows, mean, atol=5 * 1.5 / np.sqrt(40_000))


def test_log_densities_of_widened_mixtures_are_their_own(generator):
    mixture, rows = BASES["mixture"], 3 * generator.standard_normal((50, 2))
    together = mixture.widened_log_densities(rows, (1.0, 1.5, 4.0))
    for logs, factor in zip(together.T, (1.0, 1.5, 4.0), strict=True):
        np.testing.assert_allclose(logs, mixture.widened(factor).log_density(rows), rtol=1e-12)


def test_a_spike_far_out_is_found():
    """A tilt that puts most of the mass five deviations away, where q0 is never drawn."""
    base = GaussianMixtureDensity(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    basis = FourierFeatures().build(2, columns(2), RadialBasis(), np.random.default_rng(0))
    basis = type(basis)(np.array([[np.pi / 5, 0.0]]), np.zeros(1), np.ones(1), True)
    identity = Standardizer(np.zeros(2), np.ones(2))
    density = TiltedDensity(basis, np.array([-14.0, 0.0]), base, identity, 0.0)
    exact = QuadratureNormalizer().estimate(density, np.random.default_rng(0))
    found = ImportanceNormalizer().estimate(density, np.random.default_rng(0))
    assert abs(found.log_normalizer - exact.log_normalizer) < 5 * found.error < 0.5


@pytest.mark.parametrize("shape", [0.1, 0.5, 0.9])
def test_the_tail_shape_of_pareto_draws_is_recovered(shape):
    draws = genpareto.rvs(shape, size=40_000, random_state=0) + 1
    # 600 tail draws: the estimate has a deviation of about (1 + k)/√600 = 0.06 to 0.08.
    assert abs(pareto_shape(np.log(draws)) - shape) < 0.25


def test_equal_weights_have_no_tail():
    assert pareto_shape(np.zeros(1000)) == -np.inf


def test_an_unreliable_estimate_says_so(generator):
    density = tilted(BASES["mixture"], 2, generator, size=60.0)
    estimate = ImportanceNormalizer(n_draws=500).estimate(density, generator)
    assert "unreliable" in normalizer_complaint(estimate)
    assert "n_draws" in normalizer_complaint(estimate)


def test_quadrature_refuses_three_columns(generator):
    base = BoxDensity(np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="one or two columns; got 3"):
        QuadratureNormalizer().estimate(tilted(base, 3, generator), generator)


def test_quadrature_sees_a_spike_far_from_all_rows(generator):
    """A bump of f six deviations out carries half of the mass, and no draw of the base is there."""
    base = GaussianMixtureDensity(np.ones(1), np.zeros((1, 1)), np.eye(1)[None])
    density = tilted(base, 1, generator)
    # Cosines of equal size that agree at x = 6 alone: a peak of width 0.2 or so.
    basis = replace(density.basis, frequencies=np.array([[0.7], [1.9], [4.3], [7.7]]))
    phases = 6.0 * basis.frequencies[:, 0]
    coefficients = 30.0 * np.concatenate([np.cos(phases), np.sin(phases)])
    density = replace(density, basis=basis, coefficients=coefficients)

    def value(x):
        tilt = basis.amplitudes @ (30.0 * np.cos(basis.frequencies[:, 0] * (x - 6.0)))
        return np.exp(tilt - x**2 / 2) / np.sqrt(2 * np.pi)

    expected = np.log(quad(value, -12, 12, points=[0, 6], limit=500)[0])
    found = QuadratureNormalizer().estimate(density, generator)
    assert abs(found.log_normalizer - expected) < max(found.error, 1e-7)
    assert found.error < 1e-4
    near = np.log(quad(value, -12, 4, points=[0], limit=500)[0])
    assert expected - near > 0.5  # what a rule that looks at the rows' range alone would miss


def test_quadrature_owns_up_to_what_lies_outside_its_box(generator):
    class Cut(GaussianMixtureDensity):
        """A density that understates its own reach."""

        def box(self):
            return np.full(1, -2.0), np.full(1, 2.0)

    density = tilted(Cut(np.ones(1), np.zeros((1, 1)), np.eye(1)[None]), 1, generator, size=0.3)
    whole = QuadratureNormalizer().estimate(
        replace(
            density, base=GaussianMixtureDensity(np.ones(1), np.zeros((1, 1)), np.eye(1)[None])
        ),
        generator,
    )
    found = QuadratureNormalizer().estimate(density, generator)
    assert 0.02 < abs(found.log_normalizer - whole.log_normalizer) < found.error


def test_the_error_of_a_coarse_rule_covers_what_it_misses(generator):
    density = tilted(BASES["mixture"], 2, generator, size=6.0)
    exact = QuadratureNormalizer(tolerance=1e-9).estimate(density, generator)
    coarse = QuadratureNormalizer(first_panels=1, most_panels=4).estimate(density, generator)
    assert abs(coarse.log_normalizer - exact.log_normalizer) <= coarse.error
    assert exact.error <= 1e-9
