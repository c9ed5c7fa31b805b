"""Noise levels, flow and draws against autodiff, Monte-Carlo, quadrature, known Gaussians."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import roots_hermite

from kexpfam import KernelDiffusion
from kexpfam.base.smoothed import SmoothedMixture
from kexpfam.data.coordinates import fit_coordinates
from kexpfam.data.rows import ArrayRows
from kexpfam.data.standardize import fit_standardizer
from kexpfam.datasets import make_density
from kexpfam.features.interactions import InteractionFeatures
from kexpfam.model.flow import flow_down, flow_times, flow_up, traced_gain
from kexpfam.model.flow_completions import conditional_draws
from kexpfam.model.flow_walk import walk_down
from kexpfam.model.score_field import score_field
from kexpfam.moments.levels import (
    _added,
    _copies,
    node_scores,
    node_system,
    prepared_blocks,
    sum_moments,
)
from kexpfam.precision import compiled
from kexpfam.solve.levels import Levels

NOISE_SCALES = np.geomspace(0.1, 3.0, 6)
ONCE = np.ones(5, int)


@pytest.fixture
def mixture():
    covariances = np.array([[[0.4, 0.1], [0.1, 0.3]], [[0.2, -0.05], [-0.05, 0.5]]])
    variances, axes = np.linalg.eigh(covariances)
    means = np.array([[0.8, 0.4], [-0.9, -0.3]])
    return SmoothedMixture(np.log([0.6, 0.4]), means, variances, axes)


@pytest.fixture
def basis(generator):
    return InteractionFeatures(orders=(1, 2)).build(12, np.eye(2), generator)


@pytest.fixture
def skewed(generator):
    """Correlated columns, one of them skewed."""
    normals = generator.standard_normal((400, 2)) @ np.array([[1.0, 0.8], [0.0, 0.3]])
    return np.column_stack([np.exp(normals[:, 0]), 5 + normals[:, 1]])


def untilted(basis, mixture):
    nothing = np.zeros((len(NOISE_SCALES), basis.n_features))
    levels = Levels(NOISE_SCALES, nothing, np.full(6, np.inf), np.zeros(6))
    return score_field(basis, mixture, levels)


def level_moments(basis, base, nodes, rows, weights):
    return sum_moments(basis, prepared_blocks(base, nodes, rows, weights))


def coordinates_of(rows, kind):
    weights, held = np.ones(len(rows)), np.arange(len(rows)) % 8 == 0
    return fit_coordinates(rows, weights, held, fit_standardizer(ArrayRows(rows, weights)), kind)


KINDS = [None, "yeo_johnson", "gaussianize"]


@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_whiten_return_and_know_their_volume(kind, skewed):
    coordinates = coordinates_of(skewed, kind)
    whitened = coordinates.forward(skewed)
    np.testing.assert_allclose(np.cov(whitened.T, bias=True), np.eye(2), atol=1e-10)
    np.testing.assert_allclose(coordinates.backward(whitened), skewed, rtol=1e-9)
    steps = 1e-6 * np.eye(2)
    columns = [
        (coordinates.forward(skewed[:20] + step) - coordinates.forward(skewed[:20] - step)) / 2e-6
        for step in steps
    ]
    volumes = np.linalg.slogdet(np.stack(columns, axis=2))[1]
    # Central differences of a smooth map: errors of the step squared and of rounding over it.
    np.testing.assert_allclose(coordinates.log_jacobian(skewed[:20]), volumes, atol=1e-6)
    assert (coordinates.marginals.exponents == 1).all() == (kind is None)


def test_powers_make_a_skewed_column_normal(skewed):
    exponents = coordinates_of(skewed, "yeo_johnson").marginals.exponents
    assert exponents[0] < 0.5  # a lognormal column wants a logarithm
    assert exponents[1] == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_is_pulled_back_to_the_users_units(kind, skewed):
    coordinates = coordinates_of(skewed, kind)

    def log_density(rows):
        whitened = coordinates.forward(rows)
        return -(whitened**2).sum(axis=1) / 2 + coordinates.log_jacobian(rows)

    rows = skewed[:20]
    found = coordinates.pulled_back(rows, -coordinates.forward(rows))
    steps = 1e-6 * np.eye(2)
    expected = [(log_density(rows + step) - log_density(rows - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("noise_scale", [0.0, 0.7])
def test_the_smoothed_mixture_against_autodiff_and_its_convolution(noise_scale, mixture, generator):
    rows = generator.standard_normal((10, 2))

    @compiled
    def derivatives(rows):
        def value(x):
            return mixture.log_density(x[None], noise_scale)[0]

        laplacians = jax.vmap(lambda x: jnp.trace(jax.hessian(value)(x)))(rows)
        return jax.vmap(jax.grad(value))(rows), laplacians

    gradients, laplacians = derivatives(rows)
    np.testing.assert_allclose(compiled(mixture.gradient)(rows, noise_scale), gradients, atol=1e-10)
    seconds = compiled(mixture.second_derivatives)(rows, noise_scale, np.eye(2))
    np.testing.assert_allclose(seconds.sum(axis=1), laplacians, atol=1e-10)
    # ∫ q(x − ε) N(ε) dε by Gauss–Hermite: exact to rounding for so smooth an integrand.
    nodes, weights = roots_hermite(60)
    grid = np.sqrt(2) * noise_scale * np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    shares = np.outer(weights, weights).ravel() / np.pi
    log_density = compiled(mixture.log_density)
    expected = [shares @ np.exp(log_density(row - grid, 0.0)) for row in rows]
    np.testing.assert_allclose(np.exp(log_density(rows, noise_scale)), expected, rtol=1e-8)


def test_moments_of_every_level_against_draws_of_the_noise(basis, mixture, generator):
    rows, weights = generator.standard_normal((400, 2)), generator.uniform(0.5, 2, 400)
    moments = level_moments(basis, mixture, NOISE_SCALES, rows, weights)
    n_copies = 50

    @compiled
    def by_definition(rows, noise_scale):
        def one(x):
            slope = jax.jacfwd(lambda z: basis.features(z[None])[0])(x)
            hessian = jax.hessian(lambda z: basis.features(z[None])[0])(x)
            score = mixture.gradient(x[None], noise_scale)[0]
            return slope @ slope.T, jnp.trace(hessian, axis1=1, axis2=2) + slope @ score

        return jax.lax.map(one, rows, batch_size=512)

    for number in (0, 3):
        scale = NOISE_SCALES[number]
        found = compiled(node_system)(basis, moments, scale, moments.base_terms[number])
        noisy = np.repeat(rows, n_copies, axis=0) + scale * generator.standard_normal(
            (400 * n_copies, 2)
        )
        quadratic, linear = by_definition(noisy, scale)
        shares = np.repeat(weights, n_copies) / weights.sum() / n_copies
        for mine, sample in ((found.quadratic, quadratic), (found.linear, linear)):
            mean = np.tensordot(shares, sample, axes=1)
            # The base's part has four copies of each row where the oracle has fifty.
            error = sample.std(axis=0) / np.sqrt(400 * 4 / 1.3)
            assert (np.abs(mine - mean) < 5 * error).all()


def test_scores_of_noisy_copies_in_single_precision_are_close(mixture, generator):
    rows = generator.standard_normal((100, 2))
    (block,) = prepared_blocks(mixture, NOISE_SCALES, rows, np.ones(100))
    for level, points, pulls in zip(NOISE_SCALES, block.points, block.pulls, strict=True):
        for copy, pull in zip(points, pulls, strict=True):
            expected = compiled(mixture.gradient)(copy.astype(float), level)
            # 1e-7 of a number, times what precisions and the sum over components add.
            np.testing.assert_allclose(pull, expected, atol=1e-5 * np.abs(expected).max())


def test_accelerators_are_told_not_to_shorten_single_precision(basis, mixture):
    """Three digits of an angle made a model whose flow took forty times as many steps."""
    scores = node_scores(mixture, NOISE_SCALES)
    rows, moves = np.zeros((128, 2)), np.zeros((2, 128, 2))
    (block,) = prepared_blocks(mixture, NOISE_SCALES, rows, np.ones(128))
    sums = sum_moments(basis, [block])
    with jax.enable_x64(True):
        programs = [
            jax.make_jaxpr(_copies.__wrapped__)(scores, NOISE_SCALES, rows, moves),
            jax.make_jaxpr(_added.__wrapped__)(sums, basis, block),
        ]
    for program in programs:
        products = re.findall(r"f32\[[^\]]*\] = dot_general\[(.*?)\n\s*\] ", str(program), re.S)
        assert products
        assert all("HIGHEST" in options for options in products)


def test_sums_of_parts_add_up(basis, mixture, generator):
    rows, weights = generator.standard_normal((300, 2)), np.ones(300)
    whole = level_moments(basis, mixture, NOISE_SCALES, rows, weights)
    order = generator.permutation(300)
    parts = [
        level_moments(basis, mixture, NOISE_SCALES, rows[part], weights[part])
        for part in (order[:110], order[110:])
    ]
    for mine, first, second in zip(whole, *parts, strict=True):
        # Trigonometry of the copies is in single precision, to about 1e-7 of a row's term.
        np.testing.assert_allclose(first + second, mine, atol=1e-4 if mine is whole[3] else 1e-9)


def tilted(basis, mixture, generator):
    """Coefficients of some size, in units of the noise, at all levels but the highest."""
    sizes = np.append(0.1 / NOISE_SCALES[:-1], 0.0)
    coefficients = sizes[:, None] * generator.standard_normal((len(sizes), basis.n_features))
    return replace(untilted(basis, mixture), coefficients=coefficients)


def test_the_gain_is_the_change_of_variables_along_the_flow(basis, mixture, generator):
    """log p = log q(z(T)) − ∫ σ² Δu dt, with SciPy's steps and Jacobians by differentiation."""
    field, rows = tilted(basis, mixture, generator), generator.standard_normal((5, 2))
    logs = compiled(mixture.log_density)

    @compiled
    def speed(time, rows):
        def one(row):
            score = lambda z: field.score(z[None], time)[0]  # noqa: E731
            return jnp.append(score(row), jnp.trace(jax.jacfwd(score)(row)))

        return -jnp.exp(2 * time) * jax.vmap(one)(rows)

    def slopes(time, state):
        return speed(time, state.reshape(5, 3)[:, :2]).ravel()

    state = np.column_stack([rows, np.zeros(5)])
    for ends in pairwise(field.knots):
        found = solve_ivp(slopes, ends, state.ravel(), "DOP853", rtol=1e-8, atol=1e-8)
        state = found.y[:, -1].reshape(5, 3)
    expected = logs(state[:, :2], NOISE_SCALES[-1]) + state[:, 2] - logs(rows, NOISE_SCALES[0])
    assert np.abs(expected).max() > 0.05
    wrong = []
    for n_steps in (4, 8):
        gains, errors = flow_up(field, rows, np.full(5, n_steps))
        wrong.append(np.abs(gains - expected).max())
    assert wrong[1] < min(errors.max(), 1e-3)
    # Fifth order: half the step, 1/32 of the error; half of that is asked for.
    assert wrong[0] > 16 * wrong[1]


def test_without_coefficients_there_is_no_gain(basis, mixture, generator):
    gains, errors = flow_up(untilted(basis, mixture), generator.standard_normal((50, 2)), ONCE)
    assert not gains.any()
    assert not errors.any()


def test_the_flow_carries_a_gaussian_to_its_quantiles(basis, generator):
    """Of one component: z − μ grows as its deviation does, up and down again."""
    variances = np.array([[0.3, 0.02]])
    gaussian = SmoothedMixture(np.zeros(1), np.ones((1, 2)), variances, np.eye(2)[None])
    high = gaussian.sample(20, NOISE_SCALES[-1], generator)
    low, _ = flow_down(untilted(basis, gaussian), high, 4 * ONCE)
    scales = np.sqrt((variances + NOISE_SCALES[0] ** 2) / (variances + NOISE_SCALES[-1] ** 2))
    np.testing.assert_allclose(low, 1 + (high - 1) * scales, atol=1e-5)


def test_a_traced_flow_takes_the_same_steps(basis, mixture, generator):
    """The steps that all cores take, block by block, and those inside one program."""
    field, rows = tilted(basis, mixture, generator), generator.standard_normal((150, 2))
    steps = np.array([1, 2, 1, 1, 3])
    times = flow_times(field.knots, steps)
    traced = compiled(partial(traced_gain, n_steps=8))(field, rows, times)
    # Products of other shapes are rounded otherwise.
    np.testing.assert_allclose(flow_up(field, rows, steps)[0], traced, rtol=1e-9, atol=1e-12)


def test_rows_beside_a_row_change_nothing(basis, mixture, generator):
    field, rows = tilted(basis, mixture, generator), generator.standard_normal((1300, 2))
    gains, errors = flow_up(field, rows, ONCE)
    some = [0, 255, 256, 1023, 1024, 1299]
    # Products of other shapes are rounded otherwise.
    for found, alone in zip((gains, errors), flow_up(field, rows[some], ONCE), strict=True):
        np.testing.assert_allclose(found[some], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["flow", "sde"])
def test_draws_have_the_mixtures_moments(method, basis, mixture, generator):
    field, count = untilted(basis, mixture), 4096
    start = mixture.sample(count, NOISE_SCALES[-1], generator)
    if method == "flow":
        draws, _ = flow_down(field, start, np.full(5, 12))
    else:
        draws = walk_down(field, start, 0, 300, 1, 0.1)
    truth = mixture.sample(200_000, NOISE_SCALES[0], generator)
    error = truth.std(axis=0) / np.sqrt(count)
    # Four standard errors; two per cent more for the walk, whose steps are finite.
    slack = 0.02 if method == "sde" else 0.0
    assert (np.abs(draws.mean(axis=0) - truth.mean(axis=0)) < 4 * error + slack).all()
    np.testing.assert_allclose(np.cov(draws.T), np.cov(truth.T), atol=0.06 + slack)


@pytest.fixture(scope="module")
def ring_model():
    X = make_density("ring").sample(800, random_state=0)
    return KernelDiffusion(n_components=128, n_levels=12, random_state=0).fit(X)


def test_a_fitted_density_integrates_to_one(ring_model):
    axis = np.linspace(-8, 8, 64)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mass = np.exp(ring_model.score_samples(grid)).sum() * (axis[1] - axis[0]) ** 2
    assert mass == pytest.approx(1.0, abs=0.01)


def test_a_fitted_density_is_close_to_the_truth(ring_model):
    ring = make_density("ring")
    fresh = ring.sample(1000, random_state=1)
    truth = ring.log_density(fresh).mean()
    assert truth - 0.1 < ring_model.score(fresh) < truth + 0.05


def test_the_smoothed_gradient_is_that_of_the_smoothed_density(ring_model, generator):
    """Where the noisy rows are: the score of a kernel density estimate is the oracle."""
    ring, level = make_density("ring"), 0.5
    rows = ring_model.density_.coordinates.forward(ring.sample(20_000, random_state=3))
    whitened = ring_model.density_.coordinates.forward(ring.sample(200, random_state=4))
    whitened = whitened + level * generator.standard_normal(whitened.shape)
    points = ring_model.density_.coordinates.backward(whitened)
    logs = -((whitened[:, None] - rows) ** 2).sum(axis=2) / (2 * level**2)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    score = (shares @ rows - whitened) / level**2
    expected = ring_model.density_.coordinates.pulled_back(points, score)
    found = ring_model.smoothed_gradient(points, level)
    # 800 rows against 20 000: sampling error of about a tenth, and as little bias.
    assert np.sqrt(((found - expected) ** 2).mean()) < 0.15 * np.sqrt((expected**2).mean())


@pytest.mark.parametrize("known", [np.zeros((0, 2)), np.array([[1.0, 0.5]])])
def test_conditional_draws_of_a_mixture_are_distributed_like_it(known, basis, mixture, generator):
    """Given one combination of the columns, or nothing: against rejection from many draws."""
    count, target = 4000, 0.3
    drawn = conditional_draws(
        untilted(basis, mixture), known, np.full((count, len(known)), target), generator
    )
    np.testing.assert_allclose(drawn @ known.T, target, atol=1e-9)
    truth = mixture.sample(400_000, NOISE_SCALES[0], generator)
    if len(known):
        truth = truth[np.abs(truth @ known[0] - target) < 0.02]
    for quantile in (0.1, 0.5, 0.9):
        expected = np.quantile(truth, quantile, axis=0)
        # Langevin steps at the lowest level are finite: a twentieth of the spread.
        np.testing.assert_allclose(
            np.quantile(drawn, quantile, axis=0), expected, atol=0.08 * truth.std(axis=0).max()
        )


def test_missing_values_are_drawn_and_known_ones_kept(ring_model):
    ring = make_density("ring")
    rows = ring.sample(300, random_state=9)
    holed = rows.copy()
    holed[:200, 1] = np.nan
    holed[200:210] = np.nan
    completed = ring_model.impute(holed, random_state=0)
    assert np.isfinite(completed).all()
    np.testing.assert_array_equal(completed[~np.isnan(holed)], holed[~np.isnan(holed)])
    radii = np.hypot(*completed.T)
    # The ring has radius 4 and width ½: what is filled in lies on it.
    assert np.abs(radii[:200] - 4).mean() < 0.8
    assert (np.sign(completed[:200, 1]) > 0).mean() == pytest.approx(0.5, abs=0.15)
    np.testing.assert_array_equal(completed, ring_model.impute(holed, random_state=0))
