"""Conditional densities against other formulas, other integrators and known distributions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import approx_fprime

from kexpfam import ConditionalKernelExponentialFamily
from kexpfam.base import evidence as evidence_module
from kexpfam.base.bell import bell_cdf, bell_gradient, bell_log_density, bell_quantile
from kexpfam.base.covariance import Covariance, to_logs
from kexpfam.base.evidence import Evidence
from kexpfam.base.location import (
    add_to_location,
    fewer_directions,
    fit_exact,
    fit_points,
    solve_points,
)
from kexpfam.data.pairs import Pairs
from kexpfam.data.response import bent_responses, straight_response
from kexpfam.features.residual import REACH, residual_functions
from kexpfam.model.lattice import Lattice, lattice_cells, lattice_slices
from kexpfam.model.slices import N_FINE_NODES, N_NODES, node_masses, normalized_slices
from kexpfam.moments.arithmetic import add_moments
from kexpfam.moments.conditional import conditional_sums
from kexpfam.progress import Progress
from kexpfam.solve.conditional import TiltProblem, closed_form_path, likeliest_path
from kexpfam.tuning.held_out import held_out_folds, likeliest_factor

COVARIANCES = [
    Covariance("rbf", np.array([0.8, 1.5]), 1.3, 0.2, 0.05),
    Covariance("matern", np.array([1.1, 2.0]), 0.7, 0.4, 0.1),
]


@pytest.fixture
def rows(generator):
    return generator.standard_normal((30, 2))


@pytest.fixture
def targets(rows, generator):
    return np.sin(2 * rows[:, 0]) + 0.3 * generator.standard_normal(len(rows))


@pytest.mark.parametrize("covariance", COVARIANCES, ids=["rbf", "matern"])
def test_evidence_and_its_derivative(covariance, rows, targets, generator):
    relative = generator.uniform(0.5, 2.0, len(rows))
    logs = to_logs(covariance)
    value, derivative = Evidence(covariance.kind, rows, targets, relative)(logs)
    matrix = covariance.between(rows, rows) + covariance.noise * np.diag(relative)
    expected = stats.multivariate_normal(np.zeros(len(rows)), matrix).logpdf(targets)
    assert value == pytest.approx(expected + 0.5 * len(rows) * np.log(2 * np.pi), rel=1e-9)
    differences = approx_fprime(
        logs, lambda at: Evidence(covariance.kind, rows, targets, relative)(at)[0], 1e-6
    )
    # Differences of numbers of size 30 with steps of 1e-6 are good to about 1e-5.
    np.testing.assert_allclose(derivative, differences, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lines", [1, 7, 39])
@pytest.mark.parametrize("covariance", COVARIANCES, ids=["rbf", "matern"])
def test_blocks_of_lines_make_no_difference(covariance, lines, rows, targets, monkeypatch):
    """The rows of one block above are those of several, of which the last is smaller."""
    whole = Evidence(covariance.kind, rows, targets, np.ones(len(rows)))(to_logs(covariance))
    monkeypatch.setattr(evidence_module, "_LINES", lines)
    parts = Evidence(covariance.kind, rows, targets, np.ones(len(rows)))
    for _ in range(2):
        # Twice, since its matrices are written over.
        value, derivative = parts(to_logs(covariance))
        assert value == pytest.approx(whole[0], rel=1e-12)
        np.testing.assert_allclose(derivative, whole[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["rbf", "matern"])
@pytest.mark.parametrize("noise", [0.1, 1e-4])
def test_derivatives_of_evidence_in_single_precision(noise, kind, generator):
    """Values stay in double precision; derivatives may be wrong by far less than a step gains."""
    rows = generator.standard_normal((150, 5))
    targets = np.sin(rows @ generator.standard_normal(5))
    relative = generator.uniform(0.5, 2.0, len(rows))
    logs = to_logs(Covariance(kind, generator.uniform(1, 3, 5), 1.2, 0.1, noise))
    value, _ = Evidence(kind, rows, targets, relative)(logs)
    same, derivative = Evidence(kind, rows, targets, relative, single=True)(logs)
    assert same == value
    assert derivative.dtype == np.float64
    steps = 1e-5 * np.eye(len(logs))
    differences = [
        (
            Evidence(kind, rows, targets, relative)(logs + step)[0]
            - Evidence(kind, rows, targets, relative)(logs - step)[0]
        )
        / 2e-5
        for step in steps
    ]
    error = np.abs(derivative - differences).max()
    assert error < 1e-4 * np.abs(differences).max()
    assert error < 1e-2 * len(rows)


@pytest.mark.parametrize("n_points", [None, 12])
@pytest.mark.parametrize("covariance", COVARIANCES, ids=["rbf", "matern"])
def test_leaving_one_out_is_refitting(covariance, n_points, rows, targets, generator):
    noises = covariance.noise * generator.uniform(0.5, 2.0, len(rows))

    def fitted(kept):
        if n_points is None:
            return fit_exact(covariance, rows[kept], targets[kept], noises[kept])
        points = rows[:n_points]
        return fit_points(covariance, points, rows[kept], targets[kept], noises[kept])

    _, left_out = fitted(np.full(len(rows), True))
    for row in (0, 13, 29):
        location, _ = fitted(np.arange(len(rows)) != row)
        mean, variance = location.predict(rows[[row]])
        assert left_out.mean[row] == pytest.approx(mean[0], abs=1e-6)
        # With points, R leaves out directions that explain less than a hundredth of the noise.
        error = 1e-7 if n_points is None else 0.01 * covariance.noise
        assert left_out.variance[row] == pytest.approx(variance[0], rel=1e-6, abs=error)


def test_all_rows_as_points_is_the_exact_location(rows, targets):
    covariance = COVARIANCES[0]
    noises = np.full(len(rows), covariance.noise)
    exact, exact_left_out = fit_exact(covariance, rows, targets, noises)
    other, left_out = fit_points(covariance, rows, rows, targets, noises)
    new = np.linspace(-1, 1, 10).reshape(5, 2)
    # Axes of k(P, P) that sums say nothing about are left out.
    np.testing.assert_allclose(other.predict(new)[0], exact.predict(new)[0], atol=1e-4)
    np.testing.assert_allclose(other.predict(new)[1], exact.predict(new)[1], atol=1e-3)
    np.testing.assert_allclose(left_out.mean, exact_left_out.mean, atol=1e-5)


def test_fewer_directions_change_the_variance_by_little_of_the_noise(rows, targets, generator):
    covariance = COVARIANCES[0]
    noises = covariance.noise * generator.uniform(0.5, 2.0, len(rows))
    location, _ = fit_exact(covariance, rows, targets, noises)
    fewer = fewer_directions(location, noises)
    assert fewer.root.shape[1] < len(rows)
    new = generator.standard_normal((50, 2))
    (mean, variance), (same, larger) = location.predict(new), fewer.predict(new)
    np.testing.assert_array_equal(mean, same)
    # At the rows a hundredth of the noise; far from them more, where the variance is larger too.
    assert (larger >= variance - 1e-12).all()
    np.testing.assert_allclose(larger + covariance.noise, variance + covariance.noise, rtol=0.05)
    at_rows = fewer.predict(rows)[1] - location.predict(rows)[1]
    assert at_rows.max() < 0.012 * noises.max()


def test_points_of_a_smooth_function_without_noise_leave_rows_out_as_they_should(generator):
    """Axes that are rounding alone once had residuals of 1e8 here."""
    rows = generator.standard_normal((400, 2))
    targets = np.sin(rows[:, 0]) + 0.5 * rows[:, 1]
    covariance = Covariance("rbf", np.array([3.0, 20.0]), 400.0, 1e-4, 1e-6)
    noises = np.full(len(rows), covariance.noise)
    location, left_out = fit_points(covariance, rows[:200], rows, targets, noises)
    assert np.abs(left_out.mean - targets).max() < 0.05
    new = generator.uniform(-1, 1, (50, 2))
    expected = np.sin(new[:, 0]) + 0.5 * new[:, 1]
    np.testing.assert_allclose(location.predict(new)[0], expected, atol=5e-3)


def test_sums_with_more_rows_are_solved_along_the_axes_of_the_first(rows, targets, generator):
    covariance, points = COVARIANCES[1], rows[:10]
    noises = covariance.noise * generator.uniform(0.5, 2.0, len(rows))
    weights = covariance.noise / noises

    def summed(sums, some):
        return add_to_location(sums, covariance, points, rows[some], targets[some], weights[some])

    some = summed(None, slice(0, 20))
    axes = solve_points(covariance, points, some, 1.0).whitening
    everything = summed(some, slice(20, None))
    found = solve_points(covariance, points, everything, 1.0, axes)
    gram = covariance.between(points, points)
    # α = (k(P, P) + B)⁻¹c, solved as it stands.
    sections = covariance.between(points, rows)
    expected = np.linalg.solve(gram + sections / noises @ sections.T, sections @ (targets / noises))
    np.testing.assert_allclose(found.location.coefficients, expected, rtol=1e-6)
    identity = found.whitening.T @ gram @ found.whitening
    np.testing.assert_allclose(identity, np.eye(len(points)), atol=1e-8)


def test_idle_directions_are_little_of_the_noise_of_rows_that_are_left_out(rows, targets):
    covariance = COVARIANCES[0]
    sums = add_to_location(None, covariance, rows, rows, targets, np.ones(len(rows)))
    whole = solve_points(covariance, rows, sums, 1.0)
    fewer = whole.without_idle_directions(float(len(rows)))
    assert fewer.whitening.shape[1] == len(fewer.told) < len(rows)
    noises = np.full(len(rows), covariance.noise)
    expected, found = (one.left_out(rows, targets, noises) for one in (whole, fewer))
    change = found.variance - expected.variance
    assert np.abs(change).mean() < 2e-3 * covariance.noise
    np.testing.assert_allclose(found.mean, expected.mean, atol=0.1 * np.sqrt(covariance.noise))


def test_the_bell_is_a_mixture_of_two_normals():
    r = np.linspace(-12, 12, 41)
    expected = np.log(0.98 * stats.norm.pdf(r) + 0.02 * stats.norm(0, 4).pdf(r))
    np.testing.assert_allclose(bell_log_density(r), expected, rtol=1e-12)
    first, second = bell_gradient(r)
    step = 1e-4
    above, below = bell_log_density(r + step), bell_log_density(r - step)
    np.testing.assert_allclose(first, (above - below) / (2 * step), atol=1e-6)
    np.testing.assert_allclose(second, (above - 2 * expected + below) / step**2, atol=1e-5)
    levels = np.array([1e-6, 0.01, 0.4, 0.5, 0.999])
    np.testing.assert_allclose(bell_cdf(bell_quantile(levels)), levels, rtol=1e-9)


def test_derivatives_of_residual_functions():
    r = np.linspace(-7.5, 7.5, 31)
    step = 1e-4
    above, at, below = (residual_functions(r + move) for move in (step, 0.0, -step))
    np.testing.assert_allclose(residual_functions(r, 1), (above - below) / (2 * step), atol=1e-6)
    np.testing.assert_allclose(
        residual_functions(r, 2), (above - 2 * at + below) / step**2, atol=1e-5
    )


def test_maps_of_the_target_invert_and_have_the_slope_that_they_say(generator):
    y = generator.gamma(1.0, 2.0, 200)
    for response in [straight_response(y, np.ones(200)), *bent_responses(y, np.ones(200))]:
        wide = np.linspace(y.min() - 3.0, y.max() + 5.0, 57)
        np.testing.assert_allclose(response.inverse(response.forward(wide)), wide, atol=1e-9)
        step = 1e-6
        slope = (response.forward(wide + step) - response.forward(wide - step)) / (2 * step)
        np.testing.assert_allclose(response.log_slope(wide), np.log(slope), atol=1e-4)
    mirrored = bent_responses(-y, np.ones(200))
    np.testing.assert_allclose(
        [one.forward(-y[:5]) for one in mirrored],
        [-one.forward(y[:5]) for one in bent_responses(y, np.ones(200))],
    )
    # No crowd is at the edge: below the least, one row would cost ten thousand nats.
    assert len(mirrored) == 4
    assert not bent_responses(np.append(y, y.min() - 10.0), np.ones(201))


def test_scales_of_folds_have_the_noise_of_the_fit(rows, targets, generator):
    """Else a factor that suits the noise of some rows is applied to that of others."""
    keys = np.sort(generator.integers(0, 1 << 62, len(rows)).astype(np.uint64))
    pairs = Pairs(rows, targets, np.ones(len(rows)), keys)
    response = straight_response(targets, pairs.weights)
    folds = held_out_folds(pairs, COVARIANCES[0], response, 0.0, 0.7, Progress())
    assert {fold.left.location.noise for fold in folds} == {0.7}
    left_out = fit_exact(
        folds[0].left.location.covariance,
        folds[0].others.inputs,
        folds[0].left.targets,
        np.full(len(folds[0].others.y), folds[0].left.location.covariance.noise),
    )[1]
    np.testing.assert_allclose(folds[0].left.scale, np.sqrt(left_out.variance + 0.7))


def slices_at(slopes, bounds=(-np.inf, np.inf), n_nodes=N_NODES):
    response = straight_response(np.array([-1.0, 1.0]), np.ones(2))
    mean, scale = np.array([0.3]), np.array([0.7])
    return normalized_slices(response, mean, scale, slopes[None], bounds, n_nodes)


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, np.inf), (-0.2, 0.9), (7.0, 9.0)])
def test_quadrature_against_scipy(bounds, generator):
    slices = slices_at(2 * generator.standard_normal(residual_functions(np.zeros(1)).shape[1]),
                       bounds)  # fmt: skip

    def density(y):
        return float(np.exp(slices.log_density(np.array([y]))[0]))

    low, high = max(bounds[0], -40.0), min(bounds[1], 40.0)
    # Where the functions are cut off at ±8 the density has a kink, which SciPy should know of.
    kinks = [one for one in (0.3 - 0.7 * REACH, 0.0, 0.3 + 0.7 * REACH) if low < one < high]
    options = {"points": kinks or None, "limit": 500, "epsabs": 1e-11}
    total = integrate.quad(density, low, high, **options)[0]
    assert total == pytest.approx(1.0, abs=2e-6)
    middle = (max(low, -1.0) + min(high, 2.0)) / 2 if low < 2 else (low + high) / 2
    inner = [one for one in kinks if one < middle]
    mass = integrate.quad(density, low, middle, points=inner or None, limit=500)[0]
    # Cubics through nodes a tenth apart, for bumps half wide with factors of two in the exponent.
    assert slices.cdf(np.array([[middle]]))[0, 0] == pytest.approx(mass, abs=2e-4)
    assert slices.errors[0] < 1e-6


def test_a_tilt_that_narrows_much_has_the_right_quantiles():
    """A bump so high that the density is a peak about a twentieth of the bell's width."""
    slopes = np.zeros(residual_functions(np.zeros(1)).shape[1])
    slopes[10] = 120.0
    slices = slices_at(slopes, n_nodes=N_FINE_NODES)
    top = slices.quantiles(np.array([[0.5]]))[0, 0]
    grid = np.linspace(top - 1.0, top + 1.0, 10_001)
    mean, scale, rows = (
        np.repeat(one, len(grid), 0) for one in (slices.mean, slices.scale, slopes[None])
    )
    many = normalized_slices(slices.response, mean, scale, rows, (-np.inf, np.inf))
    values = np.exp(many.log_density(grid))
    sums = np.append(0.0, np.cumsum((values[1:] + values[:-1]) / 2) * (grid[1] - grid[0]))
    width = np.subtract(*slices.quantiles(np.array([[0.95, 0.05]]))[0])
    expected = np.subtract(*np.interp([0.95, 0.05], sums, grid))
    assert expected < 0.3
    # Straight lines in cells that are half as wide as the peak's standard deviation.
    assert width == pytest.approx(expected, rel=1e-3)


def test_cdf_and_quantiles_invert_each_other(generator):
    slices = slices_at(3 * generator.standard_normal(residual_functions(np.zeros(1)).shape[1]))
    levels = np.array([[1e-5, 0.001, 0.05, 0.3, 0.5, 0.77, 0.95, 0.9999, 1 - 1e-6]])
    quantiles = slices.quantiles(levels)
    assert (np.diff(quantiles) > 0).all()
    np.testing.assert_allclose(slices.cdf(quantiles), levels, atol=1e-9)


def make_problem(generator, n_rows=40):
    nodes, log_masses = node_masses(np.full(n_rows, -np.inf), np.full(n_rows, np.inf))
    inputs = np.column_stack([np.ones(n_rows), generator.standard_normal((n_rows, 2))])
    weights = generator.uniform(0.5, 1.5, n_rows)
    residuals = generator.standard_normal(n_rows) + 0.8 * np.sign(inputs[:, 1])
    return residuals, TiltProblem(
        inputs,
        residual_functions(residuals),
        residual_functions(nodes),
        log_masses,
        weights / weights.sum(),
    )


def test_gradient_of_the_likelihood_against_differences(generator):
    _, problem = make_problem(generator)
    shape = 3, problem.shown.shape[1]
    coefficients = 0.5 * generator.standard_normal(shape)
    _, derivative = problem.loss(coefficients)
    differences = approx_fprime(
        coefficients.ravel(), lambda flat: problem.loss(flat.reshape(shape))[0], 1e-7
    )
    np.testing.assert_allclose(derivative.ravel(), differences, atol=1e-6)


def test_single_precision_is_the_same_to_six_digits(generator):
    _, problem = make_problem(generator)
    coefficients = 0.5 * generator.standard_normal((3, problem.shown.shape[1]))
    value, derivative = problem.loss(coefficients)
    rounded, other = problem.single().loss(coefficients)
    assert rounded == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(other, derivative, atol=1e-6)


def test_the_loss_is_minus_the_mean_gain(generator):
    _, problem = make_problem(generator)
    coefficients = 0.5 * generator.standard_normal((3, problem.shown.shape[1]))
    assert problem.loss(coefficients)[0] == pytest.approx(
        -problem.weights @ problem.gains(coefficients)
    )


def test_the_path_ends_where_the_derivative_vanishes(generator):
    _, problem = make_problem(generator)
    *_, coefficients = likeliest_path(problem, [0.1, 0.01], n_steps=500)
    _, derivative = problem.loss(coefficients)
    np.testing.assert_allclose(derivative + 0.01 * coefficients, 0.0, atol=1e-4)


def test_turned_coordinates_end_at_the_same_tilt_with_the_curvature_of_differences(generator):
    _, problem = make_problem(generator)
    turned = problem.turned()
    shape, step = turned.curvature.shape, 1e-4

    def slopes(entry, size):
        at = np.zeros(shape)
        at[entry] = size
        return turned.problem.loss(at)[1]

    for entry in ((0, 17), (2, 17), (1, 12)):
        seconds = (slopes(entry, step) - slopes(entry, -step)) / (2 * step)
        expected = np.zeros(shape)
        expected[entry] = turned.curvature[entry]
        # Differences of so small a step are right to its square.
        np.testing.assert_allclose(seconds, expected, atol=1e-7)
    *_, expected = likeliest_path(problem, [0.1, 0.01], n_steps=500)
    *_, found = turned.path([0.1, 0.01], n_steps=500, start=np.ones(shape))
    # Both stop where no derivative is above 1e-5 in units of the curvature, which is 0.01 or more.
    np.testing.assert_allclose(found, expected, atol=1e-2)
    np.testing.assert_allclose(problem.gains(found), problem.gains(expected), atol=1e-3)


def test_closed_form_against_brute_force(generator):
    residuals, problem = make_problem(generator, 25)
    scale = 0.3
    sums = conditional_sums(problem.inputs, residuals, problem.weights, scale)
    # Every expectation over the noise by SciPy, for some entries of H and h.
    quadratic, linear = sums.system()
    k = problem.shown.shape[1]

    def mean_over_noise(function):
        def integrand(noise):
            return function(residuals + scale * noise) * stats.norm.pdf(noise)

        return problem.weights @ integrate.quad_vec(integrand, -8, 8, epsabs=1e-10)[0]

    for (a, i), (b, j) in [((0, 0), (0, 0)), ((1, 4), (2, 5)), ((2, 9), (2, 1))]:
        expected = mean_over_noise(
            lambda r, a=a, b=b, i=i, j=j: (
                residual_functions(r, 1)[:, i]
                * residual_functions(r, 1)[:, j]
                * problem.inputs[:, a]
                * problem.inputs[:, b]
            )
        )
        # Seven Gauss–Hermite nodes for bumps twice as wide as the noise.
        assert quadratic[a * k + i, b * k + j] == pytest.approx(expected, abs=1e-4)
    for a, i in [(0, 0), (1, 8), (2, 3)]:
        expected = mean_over_noise(
            lambda r, a=a, i=i: (
                (
                    residual_functions(r, 2)[:, i]
                    + residual_functions(r, 1)[:, i] * bell_gradient(r)[0]
                )
                * problem.inputs[:, a]
            )
        )
        assert linear[a * k + i] == pytest.approx(expected, abs=1e-3)
    (coefficients,) = closed_form_path(sums, [0.1])
    np.testing.assert_allclose(
        (quadratic + 0.1 * np.eye(len(linear))) @ coefficients.ravel(), -linear, atol=1e-9
    )
    np.testing.assert_allclose(quadratic, quadratic.T)


@pytest.mark.parametrize("bounds", [(-0.7, np.inf), (-1.0, 1.5)])
def test_closed_form_finds_a_density_between_bounds(bounds, generator):
    """The integral of H β + h over the density exp(β·b) q between bounds vanishes."""
    coefficients = 0.5 * generator.standard_normal(residual_functions(np.zeros(1)).shape[1])
    nodes = np.linspace(bounds[0], min(bounds[1], 9.0), 200_001)
    logs = bell_log_density(nodes) + residual_functions(nodes) @ coefficients
    masses = np.exp(logs - logs.max())
    ends = tuple(np.full(len(nodes), end) for end in bounds)
    sums = conditional_sums(np.ones((len(nodes), 1)), nodes, masses / masses.sum(), 0.2, ends)
    quadratic, linear = sums.system()
    # Sums with a step of 1e-5 over functions of size one, with a kink at ±8 far in the tail.
    np.testing.assert_allclose(quadratic @ coefficients, -linear, atol=2e-4)


def test_sums_of_parts_are_sums_of_all(generator):
    residuals, problem = make_problem(generator)
    parts = [
        conditional_sums(problem.inputs[part], residuals[part], problem.weights[part], 0.2)
        for part in (slice(0, 15), slice(15, None))
    ]
    everything = conditional_sums(problem.inputs, residuals, problem.weights, 0.2)
    for one, other in zip(add_moments(*parts), everything, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_gaussian_linear_model_is_found(generator):
    X = generator.standard_normal((600, 3))
    slopes = np.array([1.0, -2.0, 0.0])
    y = 3.0 + X @ slopes + 0.5 * generator.standard_normal(600)
    model = ConditionalKernelExponentialFamily(random_state=0).fit(X, y)
    new = generator.standard_normal((400, 3))
    truth = stats.norm(3.0 + new @ slopes, 0.5)
    drawn = truth.rvs(random_state=1)
    # 600 rows leave the mean uncertain by 0.5 √(4/600) = 0.04, and the log density by 0.003; the
    # two hundredths of odd rows cost another 0.02.
    assert np.mean(truth.logpdf(drawn) - model.score_samples(new, drawn)) < 0.04
    assert np.sqrt(np.mean((model.predict(new) - truth.mean()) ** 2)) < 0.1
    np.testing.assert_allclose(model.predict_std(new), 0.5, rtol=0.2)


def two_branches(generator, n_rows):
    X = generator.uniform(-2, 2, (n_rows, 1))
    branch = np.where(generator.random(n_rows) < 0.5, 1.0, -1.0)
    y = branch * (0.5 + X[:, 0] ** 2 / 2) + 0.2 * generator.standard_normal(n_rows)
    return X, y


def test_two_branches_are_known_to_a_tenth_of_a_nat(generator):
    X, y = two_branches(generator, 4000)
    model = ConditionalKernelExponentialFamily(n_components=40, random_state=0).fit(X, y)
    assert model.gain_ > 0.5
    new, drawn = two_branches(generator, 2000)
    center = 0.5 + new[:, 0] ** 2 / 2
    truth = np.logaddexp(
        stats.norm(center, 0.2).logpdf(drawn), stats.norm(-center, 0.2).logpdf(drawn)
    ) - np.log(2)
    assert np.mean(truth - model.score_samples(new, drawn)) < 0.1
    intervals = model.predict_interval(np.array([[1.5]]), kind="highest_density")
    assert intervals.shape == (1, 2, 2)
    (below, above) = intervals[0]
    assert below[0] < -1.625 < below[1] < above[0] < 1.625 < above[1]


def test_probabilities_of_lattice_points_against_integrals(generator):
    lattice = Lattice(-2.0, 0.5, 12)
    response = straight_response(np.array([-1.0, 1.0]), np.ones(2))
    mean, scale = np.array([0.3, -4.0]), np.array([0.7, 0.4])
    slopes = generator.standard_normal((2, residual_functions(np.zeros(1)).shape[1]))
    slices = lattice_slices(lattice, response, mean, scale, slopes)
    for row in range(2):
        edges = np.concatenate([[-np.inf], lattice.points[:-1] + 0.25, [np.inf]])
        masses = [
            integrate.quad(
                lambda r: float(np.exp(bell_log_density(np.array([r]))[0])),
                *np.clip((np.array(ends) - mean[row]) / scale[row], -30.0, 30.0),
                limit=200,
            )[0]
            for ends in itertools.pairwise(edges)
        ]
        residuals = (lattice.points - mean[row]) / scale[row]
        weights = np.array(masses) * np.exp(residual_functions(residuals) @ slopes[row])
        np.testing.assert_allclose(np.exp(slices.logs[row]), weights / weights.sum(), rtol=1e-6)
    shares, points = np.exp(slices.logs), lattice.points
    sums = np.cumsum(shares, axis=1)
    np.testing.assert_allclose(slices.cdf(np.full((2, 1), 0.7))[:, 0], sums[:, 5])
    levels = np.tile([0.01, 0.3, 0.99], (2, 1))
    expected = [points[np.searchsorted(sums[row], levels[row])] for row in range(2)]
    np.testing.assert_array_equal(slices.quantiles(levels), expected)
    found = slices.mean_and_deviation()
    np.testing.assert_allclose(found[0], shares @ points)
    np.testing.assert_allclose(found[1] ** 2, shares @ points**2 - (shares @ points) ** 2)
    assert slices.log_density(np.array([0.25, 0.5]))[0] == -np.inf


def test_the_likelihood_of_a_lattice_has_its_derivative(generator):
    mean, scale = generator.standard_normal(15), np.full(15, 0.8)
    response = straight_response(np.array([-1.0, 1.0]), np.ones(2))
    nodes, log_masses = lattice_cells(Lattice(-3.0, 1.0, 7), response, mean, scale)
    inputs = np.column_stack([np.ones(15), generator.standard_normal(15)])
    shown = residual_functions((np.rint(mean) - mean) / scale)
    problem = TiltProblem(inputs, shown, residual_functions(nodes), log_masses, np.full(15, 1 / 15))
    coefficients = 0.3 * generator.standard_normal((2, shown.shape[1]))
    _, derivative = problem.loss(coefficients)
    differences = approx_fprime(
        coefficients.ravel(), lambda flat: problem.loss(flat.reshape(2, -1))[0], 1e-7
    )
    np.testing.assert_allclose(derivative.ravel(), differences, atol=1e-6)
    assert problem.loss(coefficients)[0] == pytest.approx(
        -problem.weights @ problem.gains(coefficients)
    )


def test_counts_are_known_to_a_twentieth_of_a_nat(generator):
    def counts(n_rows):
        X = generator.uniform(-2, 2, (n_rows, 1))
        rates = np.exp(0.5 + X[:, 0])
        return X, generator.poisson(rates).astype(float), rates

    X, y, _ = counts(500)
    model = ConditionalKernelExponentialFamily(
        lattice="auto", bounds="auto", n_components=20, kernel="rbf", random_state=0
    ).fit(X, y)
    assert model.bounds_ == (0.0, np.inf)
    new, drawn, rates = counts(2000)
    assert stats.poisson(rates).logpmf(drawn).mean() - model.score(new, drawn) < 0.05
    low, high = model.predict_interval(new).T
    assert np.mean((low <= drawn) & (drawn <= high)) > 0.89
    with pytest.raises(ValueError, match="no derivatives"):
        model.gradient(new, drawn)
    assert model.score_samples(new[:1], np.array([0.5]))[0] == -np.inf
    assert set(np.unique(model.sample(new[:50], 3, random_state=0))) <= set(range(60))


def test_points_that_miss_something_widen_the_scale(generator):
    """A smooth function without noise: its errors are the points' own, and fresh rows show them."""
    rows, fresh = generator.uniform(-2, 2, (2, 800, 2))
    targets, others = (np.sin(4 * x[:, 0]) * np.cos(4 * x[:, 1]) for x in (rows, fresh))
    covariance = Covariance("rbf", np.full(2, 0.4), 1.0, 0.1, 1e-7)
    noises = np.full(len(rows), covariance.noise)
    location, left_out = fit_points(covariance, rows[:40], rows, targets, noises)
    assert location.noise > 100 * covariance.noise
    mean, variance = location.predict(fresh)
    logs = []
    for noise in (location.noise, covariance.noise):
        # The factor that left-out rows prefer, as everywhere.
        factor = likeliest_factor(
            (targets - left_out.mean) / np.sqrt(left_out.variance + noise), np.ones(len(rows))
        )
        scale = factor * np.sqrt(variance + noise)
        logs.append(np.mean(bell_log_density((others - mean) / scale) - np.log(scale)))
    assert logs[0] > logs[1] + 0.1
