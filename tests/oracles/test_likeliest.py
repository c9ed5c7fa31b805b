"""The likeliest tilt against its definition, with integrals by SciPy and sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from tests.conftest import columns

from kexpfam import KernelExponentialFamily, MonteCarloNoise, Tuning
from kexpfam.base import GaussianMixtureDensity
from kexpfam.data.rows import ArrayRows
from kexpfam.datasets import make_density
from kexpfam.features import FourierFeatures, GridFeatures
from kexpfam.features.at_rows import features_at
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import MomentSource, total_moments
from kexpfam.noise import GaussianNoise
from kexpfam.solve.joint import joint_problem

BASE = GaussianMixtureDensity(
    np.array([0.6, 0.4]), np.array([[-0.5], [1.0]]), np.array([[[1.0]], [[0.3]]])
)
PENALTY = 1e-2


@pytest.fixture(scope="module")
def column():
    """Twelve functions of one column, and the mean of them over some rows."""
    generator = np.random.default_rng(3)
    basis = FourierFeatures().build(12, columns(1), RadialBasis(), generator)
    return basis, features_at(basis, generator.gamma(2.0, 0.5, (80, 1))).mean(axis=0)


def integral(function):
    return quad(lambda x: function(np.array([[x]])), -8, 8, epsabs=1e-10, limit=200)[0]


def test_what_the_likeliest_tilt_expects_is_what_rows_show(column):
    """The derivative of the penalized likelihood is zero: E φ + λβ = mean φ."""
    basis, mean = column
    problem = joint_problem(basis, BASE)
    beta = problem.likeliest(mean, PENALTY, np.zeros(12))

    def tilted(row):
        return float(np.exp(features_at(basis, row) @ beta + BASE.log_density(row))[0])

    total = integral(tilted)
    for number in (0, 4, 11):
        expected = integral(lambda row: features_at(basis, row)[0, number] * tilted(row)) / total  # noqa: B023
        # L-BFGS stops where the loss changes by less than 1e-7, of curvature λ at least.
        np.testing.assert_allclose(expected + PENALTY * beta[number], mean[number], atol=2e-3)


def test_gains_are_log_densities_over_the_base(column):
    basis, mean = column
    problem = joint_problem(basis, BASE)
    *_, inner = problem.path(mean[None], [1.0, PENALTY])
    beta = problem.directions @ inner[0]
    total = integral(
        lambda row: float(np.exp(features_at(basis, row) @ beta + BASE.log_density(row))[0])
    )
    # What the directions that were left out would add is below the square root of their variance.
    np.testing.assert_allclose(
        problem.gains(mean[None], inner), beta @ mean - np.log(total), atol=1e-5
    )


def test_a_good_start_and_none_end_alike(column, generator):
    """The loss is convex."""
    basis, mean = column
    problem = joint_problem(basis, BASE)
    ends = [
        features_at(basis, np.linspace(-2, 3, 20)[:, None])
        @ problem.likeliest(mean, PENALTY, start)
        for start in (np.zeros(12), generator.normal(0, 0.3, 12))
    ]
    np.testing.assert_allclose(*ends, atol=0.02)


@pytest.mark.parametrize(
    "features", [FourierFeatures(), FourierFeatures(phases="random"), GridFeatures()]
)
def test_sums_over_rows_hold_the_means_of_the_functions(features, generator):
    rows = generator.standard_normal((60, 2))
    weights = generator.uniform(0.5, 2.0, 60)
    basis = features.build(40, columns(2), RadialBasis(), generator).rescaled(np.array([0.7, 1.3]))
    base = GaussianMixtureDensity(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    source = MomentSource(basis, GaussianNoise(), base, ArrayRows(rows, weights))
    moments = total_moments(source.at(0.1).values())
    expected = np.average(features_at(basis, rows), axis=0, weights=weights)
    # A fast transform is exact to nine digits or so.
    np.testing.assert_allclose(basis.mean_features(moments), expected, atol=1e-8)


@pytest.fixture(scope="module")
def squares():
    return make_density("mixture_of_uniforms").sample(400, random_state=11)


@pytest.fixture(scope="module")
def likeliest(squares):
    model = KernelExponentialFamily(
        n_components=128, length_scale=0.3, solution="likelihood", random_state=0
    )
    return model.fit(squares)


def test_likelihood_finds_more_than_its_base(likeliest):
    fresh = make_density("mixture_of_uniforms").sample(1000, random_state=12)
    assert likeliest.has_tilt_
    # 0.12 to 0.17 nats on other draws of as many rows.
    assert likeliest.score(fresh) > likeliest.base_.log_density(fresh).mean() + 0.05
    assert likeliest.log_normalizer_error_ < 1e-3
    assert "quadrature" in likeliest.health_.findings()[-1].meaning


def test_rows_can_be_added_and_taken_away(likeliest, squares, tmp_path):
    """The likelihood depends on the rows by sums alone, which files keep."""
    from kexpfam import load

    path = tmp_path / "model.kexpfam"
    likeliest.save(path)
    again = load(path)
    np.testing.assert_array_equal(again.score_samples(squares), likeliest.score_samples(squares))
    more = make_density("mixture_of_uniforms").sample(200, random_state=13)
    before = again.score(more)
    again.partial_fit(more)
    assert again.score(more) > before
    again.forget(more)
    # The loss is flat to 1e-7 where L-BFGS stops.
    np.testing.assert_allclose(again.score(squares), likeliest.score(squares), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "n_columns", "message"),
    [
        ({}, 3, "for one or two of them; got 3. Use solution='closed_form'"),
        ({"basis": "nystrom"}, 2, "needs basis='fourier' or 'grid'"),
        ({"noise": MonteCarloNoise()}, 2, "a noise that is averaged in closed form"),
    ],
)
def test_where_there_is_no_likelihood(options, n_columns, message, generator):
    rows = generator.standard_normal((60, n_columns))
    model = KernelExponentialFamily(
        solution="likelihood", n_components=16, tuning=Tuning(n_folds=2), **options
    )
    with pytest.raises(ValueError, match=message):
        model.fit(rows)
