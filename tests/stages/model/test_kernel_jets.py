"""Sums of kernel sections and their derivatives, against differences."""

import numpy as np
import pytest

from kexpfam.base.covariance import Covariance
from kexpfam.base.location import fit_exact
from kexpfam.features.inputs import input_functions
from kexpfam.jets import Jet
from kexpfam.model.kernel_jets import Inputs, located, tilting

STEP = 1e-4


def moving(turns, shift, *, second=True):
    """Three inputs, the last two of which are functions of what moves: sinh(t) and t + t²/8."""
    at = turns + shift
    rows = np.column_stack(
        [np.linspace(-1, 1, len(at)), np.sinh(at[:, 0]), at[:, 1] + at[:, 1] ** 2 / 8]
    )
    first = np.stack([np.cosh(at[:, 0]), 1 + at[:, 1] / 4])
    return Inputs(
        rows,
        np.array([1, 2]),
        first,
        np.stack([np.sinh(at[:, 0]), np.full(len(at), 0.25)]) if second else None,
    )


def differences(function, turns):
    """First and second differences of a jet's value in what moves."""
    first, second = [], []
    for place in range(2):
        move = STEP * np.eye(2)[place]
        above, at, below = (function(moving(turns, sign * move)).value for sign in (1, 0, -1))
        first.append((above - below) / (2 * STEP))
        second.append((above - 2 * at + below) / STEP**2)
    return np.stack(first), np.stack(second)


def functions_of(kind):
    generator = np.random.default_rng(0)
    points, length_scale = generator.standard_normal((30, 3)), np.array([0.8, 1.0, 1.5])
    covariance = Covariance(kind, length_scale, 0.9, 0.3, 0.05)
    location, _ = fit_exact(covariance, points, np.sin(points.sum(axis=1)), np.full(30, 0.05))
    functions = input_functions(kind, length_scale, points, 12)
    coefficients = generator.standard_normal((functions.n_functions, 4))
    return {
        "mean": lambda inputs: located(location, inputs)[0],
        "variance": lambda inputs: located(location, inputs)[1],
        "tilt": lambda inputs: tilting(functions, coefficients, inputs),
        "tilt of far rows": lambda inputs: tilting(functions, coefficients, far(inputs)),
    }


def far(inputs):
    """Beyond the points, where the tilt fades and plain inputs are held."""
    return inputs._replace(rows=inputs.rows + np.array([0.0, 4.0, 0.0]))


@pytest.mark.parametrize("kind", ["rbf", "matern"])
@pytest.mark.parametrize("name", ["mean", "variance", "tilt", "tilt of far rows"])
def test_derivatives_against_differences(kind, name):
    function = functions_of(kind)[name]
    turns = np.random.default_rng(1).uniform(-0.8, 0.8, (5, 2))
    found = function(moving(turns, 0.0))
    first, second = differences(function, turns)
    # Differences of numbers of size one: step² times a third or fourth derivative, and rounding of
    # 1e-16 over the step or its square.
    np.testing.assert_allclose(found.first, first, atol=1e-6)
    np.testing.assert_allclose(found.second, second, atol=2e-6)
    alone = function(moving(turns, 0.0, second=False))
    assert alone.second is None
    np.testing.assert_allclose(alone.first, found.first, rtol=1e-12)


def test_what_has_no_second_derivatives_computes_none():
    number = Jet(np.array([0.3]), np.ones((2, 1)))
    assert (number.square() * number + number / number).second is None
