"""A bell of all rows goes on from one of some of them."""

import numpy as np
import pytest

from kexpfam.base.covariance import Covariance
from kexpfam.base.location import fit_points
from kexpfam.tuning.bells import fitted_bell, refitted_bell

COVARIANCE = Covariance("rbf", np.array([1.0, 2.0]), 1.0, 0.2, 0.05)


@pytest.fixture
def problem(number_problem):
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((300, 2))
    targets = np.sin(inputs[:, 0]) + 0.2 * generator.standard_normal(300)
    known, weights = generator.random(300) < 0.9, generator.uniform(0.5, 3.0, 300)
    return number_problem(inputs, targets, known=known, weights=weights)


@pytest.mark.parametrize("n_points", [20, 200])
def test_rows_are_added_to_the_sums_of_a_bell(n_points, problem):
    seen = np.arange(300) % 5 > 0
    before = fitted_bell(problem.where(seen), COVARIANCE, n_points)
    after = refitted_bell(problem, before.location, before.sums, seen)
    known = problem.where(problem.known)
    noises = COVARIANCE.noise * known.weights.mean() / known.weights
    # With all rows as points there are no sums, and all of them are points again.
    points = before.location.points if n_points == 20 else known.inputs
    expected, _ = fit_points(COVARIANCE, points, known.inputs, known.targets, noises, 1.0)
    somewhere = np.random.default_rng(1).standard_normal((50, 2))
    for one, other in zip(
        after.location.predict(somewhere), expected.predict(somewhere), strict=True
    ):
        # Sums in another order are rounded otherwise, which the shortest axes of k(P, P) enlarge
        # to 1e-7; and of points, directions that the rows have told little about are left out.
        np.testing.assert_allclose(one, other, atol=1e-6 if n_points == 20 else 2e-3)
    assert (before.sums is None) == (n_points == 200)
    assert after.location.noise_ratio == pytest.approx(before.location.noise_ratio)


def test_more_points_see_what_few_do_not(problem):
    few, more = (fitted_bell(problem, COVARIANCE, n_points).unseen for n_points in (5, 60))
    assert few > 0.1 > 0.02 > more
    assert fitted_bell(problem, COVARIANCE, 200).unseen == pytest.approx(0.0, abs=1e-12)
