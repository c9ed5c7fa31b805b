"""Noise drawn, noise expanded, noise in closed form: each the oracle of the others."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests.conftest import make_sketch, moment_source

from kexpfam import FourierFeatures, LaplaceNoise, MonteCarloNoise, NystromFeatures, TaylorNoise
from kexpfam.base import draw_defensively
from kexpfam.data.blocks import make_block
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import total_moments
from kexpfam.noise import GaussianNoise
from kexpfam.precision import compiled
from kexpfam.solve import system_at
from kexpfam.tuning.adam import held_out_loss

FULL = GaussianNoise(np.array([[1.0, 0.6], [0.6, 0.8]]))
CASES = {
    "fourier, gaussian": (FourierFeatures(), FULL),
    "fourier, laplace": (FourierFeatures(), LaplaceNoise()),
    "nystrom, gaussian": (NystromFeatures(), GaussianNoise(np.array([1.0, 0.5]))),
}


# Compiled once for each kind of basis, noise and criterion.
loss_and_slope = compiled(jax.value_and_grad(held_out_loss), static=("criterion",))


@pytest.fixture(params=CASES)
def case(request, two_clusters, generator):
    family, distribution = CASES[request.param]
    return family.build(6, make_sketch(two_clusters), RadialBasis(), generator), distribution


def system_of(basis, noise, rows, base, scale):
    source = moment_source(basis, noise, rows, np.ones(len(rows)), base)
    return system_at(basis, total_moments(source.at(scale).values()), noise, scale)


def slope(sizes, errors):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


def test_drawn_noise_converges_to_the_closed_form_at_the_monte_carlo_rate(
    case, two_clusters, base_with_affine_score
):
    basis, distribution = case
    rows, scale, counts = two_clusters[:64], 0.4, [2, 8, 32]
    expected = system_of(basis, distribution, rows, base_with_affine_score, scale)

    def error(count):
        squares = []
        for seed in range(4):
            drawn = MonteCarloNoise(distribution, n_draws=count, seed=seed)
            found = system_of(basis, drawn, rows, base_with_affine_score, scale)
            squares.append(np.mean((found.quadratic - expected.quadratic) ** 2))
            squares.append(np.mean((found.linear - expected.linear) ** 2))
        return np.sqrt(np.mean(squares))

    # Each error is a root mean square over 4 seeds and many entries: good to some 10 %,
    # the fitted slope over a factor of 16 to about 0.05.
    assert slope(counts, [error(count) for count in counts]) == pytest.approx(-0.5, abs=0.15)


def test_expanded_noise_is_right_to_fourth_order(case, two_clusters, base):
    basis, distribution = case
    rows, scales = two_clusters[:64], np.array([0.02, 0.04, 0.08])

    def errors(scale):
        found = system_of(basis, TaylorNoise(distribution), rows, base, scale)
        expected = system_of(basis, distribution, rows, base, scale)
        return [
            np.abs(found.quadratic - expected.quadratic).max(),
            np.abs(found.linear - expected.linear).max(),
        ]

    for line in np.transpose([errors(scale) for scale in scales]):
        assert slope(scales, line) > 3.8


def test_losing_the_correction_costs_second_order(case, two_clusters, base_with_affine_score):
    """The slope above is not an accident: without the expansion it is two.

    Of H, which knows nothing of the base density.
    """
    basis, distribution = case
    base = base_with_affine_score
    rows, scales = two_clusters[:64], np.array([0.02, 0.04, 0.08])
    plain = system_of(basis, distribution, rows, base, 0.0)
    errors = [
        np.abs(system_of(basis, distribution, rows, base, scale).quadratic - plain.quadratic).max()
        for scale in scales
    ]
    assert slope(scales, errors) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("base", ["mixture"], indirect=True)
def test_drawn_noise_does_not_depend_on_the_rows_order_or_neighbors(case, two_clusters, base):
    basis, distribution = case
    drawn = MonteCarloNoise(distribution, n_draws=3)
    whole = system_of(basis, drawn, two_clusters[:200], base, 0.3)
    source = moment_source(
        basis, drawn, two_clusters[:200][::-1], np.ones(200), base, block_size=64
    )
    found = system_at(basis, total_moments(source.at(0.3).values()), drawn, 0.3)
    np.testing.assert_allclose(found.quadratic, whole.quadratic, atol=1e-12)
    np.testing.assert_allclose(found.linear, whole.linear, atol=1e-12)


@pytest.mark.parametrize("criterion", ["score_matching", "likelihood"])
def test_the_noise_scale_can_be_tuned_where_noise_is_drawn(
    criterion, case, two_clusters, base_with_affine_score, generator
):
    """d loss / d log σ against differences of losses with rows moved anew."""
    basis, distribution = case
    base = base_with_affine_score
    drawn = MonteCarloNoise(distribution, n_draws=2)
    draws = draw_defensively(base, 256, generator)
    held_out = make_block(two_clusters[100:200], np.ones(100), base, np.eye(2), 128)
    fixed = {"penalty": np.array(1e-2), "length_scale": np.array([0.9, 1.1])}

    def train(scale):
        copies = list(drawn.copies(two_clusters[:100], scale))
        rows, directions = (np.concatenate(parts) for parts in zip(*copies, strict=True))
        return make_block(rows, np.full(200, 0.5), base, np.eye(2), 256, directions, scale)

    scale, step = 0.3, 1e-5

    def at(log_scale, made_at):
        theta = {"noise_scale": np.array(log_scale)}
        return loss_and_slope(
            theta, fixed, basis, drawn, train(made_at), held_out, draws, criterion
        )

    found = at(np.log(scale), scale)[1]["noise_scale"]
    above, below = (np.log(scale) + sign * step for sign in (1, -1))
    expected = (at(above, np.exp(above))[0] - at(below, np.exp(below))[0]) / (2 * step)
    # Differences of numbers of size one with this step are good to about 1e-10/1e-5.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_too_few_draws_are_refused(case):
    with pytest.raises(ValueError, match="n_draws must be a whole number ≥ 1; got 0"):
        MonteCarloNoise(n_draws=0).checked_for(case[0])
