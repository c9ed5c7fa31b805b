"""The gradient of the held-out loss through the solve: finite differences and the adjoint."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests.conftest import columns

from kexpfam.base import draw_defensively
from kexpfam.data.blocks import make_block
from kexpfam.features import FourierFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import block_moments
from kexpfam.noise import GaussianNoise, LaplaceNoise, UniformNoise
from kexpfam.solve import system_at
from kexpfam.tuning.adam import held_out_loss

NOISES = [GaussianNoise(), GaussianNoise(np.array([1.0, 0.4])), LaplaceNoise(), UniformNoise()]
THETA = {
    "penalty": np.log(1e-2),
    "noise_scale": np.log(0.2),
    "length_scale": np.log(np.array([0.7, 1.1])),
}


# The loss and its gradient: one program for every kind of noise and criterion.
loss_and_slope = jax.jit(jax.value_and_grad(held_out_loss), static_argnums=7)


@pytest.fixture
def problem(two_clusters, base, generator):
    basis = FourierFeatures().build(16, columns(2), RadialBasis(), generator)
    shuffled = generator.permutation(two_clusters)
    blocks = [
        make_block(rows, np.ones(len(rows)), base, np.eye(2), 256)
        for rows in (shuffled[:150], shuffled[150:])
    ]
    return basis, *blocks, draw_defensively(base, 500, generator)


# Noise, base density and criterion enter through different terms: each is varied by itself.
@pytest.mark.parametrize(
    ("base", "noise", "criterion"),
    [
        *(("mixture", noise, "score_matching") for noise in NOISES),
        ("mixture", NOISES[0], "likelihood"),
        ("uniform", NOISES[0], "score_matching"),
        ("gaussian", NOISES[1], "likelihood"),
    ],
    indirect=["base"],
    ids=str,
)
def test_against_central_differences(problem, noise, criterion):
    basis, train, held_out, draws = problem

    def at(theta):
        return loss_and_slope(theta, {}, basis, noise, train, held_out, draws, criterion)

    def loss(theta):
        return at(theta)[0]

    with jax.enable_x64(True):
        _, slope = at(THETA)
        for name, value in THETA.items():
            for direction in np.eye(np.size(value)):
                shift = 1e-5 * direction.reshape(np.shape(value))
                difference = loss({**THETA, name: value + shift}) - loss(
                    {**THETA, name: value - shift}
                )
                # Central differences of step 1e-5: errors near 1e-10 of the loss over the step.
                np.testing.assert_allclose(
                    np.sum(direction * np.ravel(slope[name])),
                    difference / 2e-5,
                    rtol=1e-5,
                    atol=1e-7,
                )


def test_the_penalty_against_the_adjoint(problem):
    """dJ/dλ = −uᵀβ with u = (H_t + λI)⁻¹ (h_v + H_v β)."""
    basis, train, held_out, draws = problem
    noise = GaussianNoise()
    with jax.enable_x64(True):
        _, slope = loss_and_slope(THETA, {}, basis, noise, train, held_out, draws, "score_matching")
    scaled = basis.rescaled(np.exp(THETA["length_scale"]))
    scale = np.exp(THETA["noise_scale"])
    system = system_at(scaled, block_moments(scaled, train, noise, scale), noise, scale)
    validation = system_at(scaled, block_moments(scaled, held_out, noise, 0.0), noise, 0.0)
    penalty = np.exp(THETA["penalty"])
    matrix = system.quadratic + penalty * np.eye(16)
    solution = -np.linalg.solve(matrix, system.linear)
    adjoint = np.linalg.solve(matrix, validation.linear + validation.quadratic @ solution)
    np.testing.assert_allclose(slope["penalty"], -penalty * adjoint @ solution, rtol=1e-8)
