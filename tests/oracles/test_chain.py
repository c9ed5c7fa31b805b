"""Chains made by hand, against sums, integrals, differences and SciPy's distributions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from kexpfam import KernelChain
from kexpfam.base.covariance import Covariance
from kexpfam.base.line import (
    line_mixture_draws,
    line_mixture_quantiles,
    on_line,
    points_on_line,
)
from kexpfam.base.location import Location
from kexpfam.base.ordered import OrderedMixture, walk, walk_to_last
from kexpfam.data.heaps import find_heaps
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.layout import layout_of
from kexpfam.data.marginals import Marginals
from kexpfam.data.standardize import Standardizer
from kexpfam.features.inputs import input_functions
from kexpfam.features.residual import N_RESIDUAL_FUNCTIONS, residual_functions
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_completions import are_exact, completed
from kexpfam.model.chain_terms import CategoryTerm, NumberTerm, Scores
from kexpfam.model.residual_tilt import cell_log_ratio, log_ratio, tilted_levels

REAL = ColumnKind("real")
HALF_LINE = ColumnKind("bounded", (-0.5, np.inf))
SHARE = ColumnKind("bounded", (0.0, 1.0))
GRADE = ColumnKind("grade", levels=("low", "middle", "high"), missing=True)
COUNT = ColumnKind("count", (0.0, np.inf))
# Between its values, of which some are frequent, and beyond them.
HEAPED = COUNT._replace(
    heaps=find_heaps(np.array([0.0, 2, 3, 4, 5, 7, 10]), np.array([9.0, 2, 30, 3, 60, 5, 50]), 0.0)
)
COLOR = ColumnKind("category", levels=("red", "green", "blue"))
FLAG = ColumnKind("boolean", levels=(False, True))
SPIKE = ColumnKind("real", atoms=(0.0, 1.0))


def functions_of(n_inputs, generator):
    points = generator.standard_normal((12, n_inputs))
    return input_functions("rbf", np.full(n_inputs, 1.2), points, 6)


def make_chain(*kinds, seed=0, tilted=True):
    """A chain with random terms, strong enough that any mistake in them shows."""
    generator = np.random.default_rng(seed)
    layout = layout_of(kinds)
    n_numbers, n_indicators = len(layout.numerics), layout.offsets[-1]
    n_scores = min(2, n_indicators)
    scores = Scores(np.full(n_indicators, 0.3), generator.standard_normal((n_indicators, n_scores)))
    categories = []
    for count, offset in zip(layout.level_counts, layout.offsets, strict=False):
        shares = np.log(generator.dirichlet(np.full(count, 3.0)))
        functions = functions_of(offset, generator) if tilted and offset else None
        shape = (0 if functions is None else functions.n_functions, count)
        coefficients = None if functions is None else generator.standard_normal(shape)
        categories.append(CategoryTerm(shares, functions, coefficients))
    numbers = []
    for number in range(n_numbers):
        n_inputs = n_indicators + number
        term = NumberTerm()
        if tilted:
            functions = functions_of(n_inputs, generator)
            shape = functions.n_functions, N_RESIDUAL_FUNCTIONS
            term = term._replace(
                functions=functions, coefficients=0.4 * generator.standard_normal(shape)
            )
        if tilted and n_inputs and number % 2:
            covariance = Covariance("matern", np.full(n_inputs, 1.5), 0.8, 0.3, 0.2)
            points = generator.standard_normal((8, n_inputs))
            root = 0.05 * generator.standard_normal((8, 3))
            location = Location(covariance, points, 0.2 * generator.standard_normal(8), root, 0.2)
            term = term._replace(
                location=location, factor=0.9, share=0.4, wide_share=0.15, plain=number % 4 == 1
            )
        numbers.append(term)
    marginals = mixture = None
    if n_numbers:
        width = n_scores + n_numbers
        roots = generator.standard_normal((3, width, width)) * 0.4 + 0.6 * np.eye(width)
        covariances = roots @ roots.transpose(0, 2, 1) + 0.05 * np.eye(width)
        mixture = OrderedMixture(
            np.array([0.5, 0.3, 0.2]), generator.standard_normal((3, width)), covariances
        )
        ones = np.ones((n_numbers, 1))
        marginals = Marginals(
            Standardizer(np.full(n_numbers, 0.4), np.full(n_numbers, 1.3)),
            np.linspace(0.6, 1.4, n_numbers),
            np.zeros(n_numbers),
            np.full(n_numbers, 1.1),
            ones,
            0 * ones,
            ones,
        )
    return ChainDensity(layout, scores, marginals, mixture, tuple(categories), tuple(numbers))


def gauss(low, high, count):
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (high + low) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights


def line_rule(kind):
    """Nodes and weights that integrate, or sum, over a column."""
    if kind.levels:
        return np.arange(kind.n_cells, dtype=float), np.ones(kind.n_cells)
    if kind.kind == "count":
        return np.arange(120.0), np.ones(120)
    low, high = np.clip(kind.bounds, -40.0, 40.0)
    edges = np.unique([low, *np.clip([-12.0, -5.0, -2.0, 0.0, 2.0, 5.0, 12.0], low, high), high])
    pieces = [gauss(a, b, 28) for a, b in pairwise(edges)]
    nodes, weights = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    if kind.atoms:
        nodes, weights = np.append(nodes, kind.atoms), np.append(weights, [1.0] * len(kind.atoms))
    return nodes, weights


def total_mass(chain, fixed=None):
    """The integral over all columns but those that are fixed, such as to NaN."""
    fixed = fixed or {}
    rules = [
        (np.array([fixed[place]]), np.ones(1)) if place in fixed else line_rule(kind)
        for place, kind in enumerate(chain.layout.kinds)
    ]
    rows = np.stack(np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij"), axis=-1)
    weights = rules[0][1]
    for _, more in rules[1:]:
        weights = np.multiply.outer(weights, more)
    logs = chain.log_density(rows.reshape(-1, len(rules)))
    return float(weights.ravel() @ np.exp(logs))


# Quadrature with a few hundred nodes of tilts that change by factors of ten within a deviation.
CONTINUOUS = 1e-3
# Sums have no quadrature in them, but for the tilt's own nodes, which are normalized exactly.
DISCRETE = 1e-6


@pytest.mark.parametrize(
    ("kinds", "tolerance"),
    [
        ((REAL,), 1e-4),
        ((REAL, HALF_LINE), CONTINUOUS),
        ((COLOR, GRADE, FLAG), DISCRETE),
        ((GRADE, COUNT), DISCRETE),
        ((HEAPED, FLAG, COUNT), DISCRETE),
        ((COLOR, COUNT, GRADE), DISCRETE),
        ((COLOR, REAL, GRADE), CONTINUOUS),
        ((FLAG, SHARE), CONTINUOUS),
        ((SPIKE, GRADE), CONTINUOUS),
    ],
    ids=lambda one: ",".join(kind.kind for kind in one) if isinstance(one, tuple) else None,
)
def test_mass_is_one(kinds, tolerance):
    assert total_mass(make_chain(*kinds)) == pytest.approx(1.0, abs=tolerance)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_mass_of_what_is_there_is_one(missing):
    chain = make_chain(COLOR, REAL, GRADE)
    assert total_mass(chain, {missing: np.nan}) == pytest.approx(1.0, abs=CONTINUOUS)


def test_terms_add_up_and_values_outside_have_no_mass():
    chain = make_chain(COLOR, SHARE, COUNT, SPIKE)
    rows = np.array([[0.0, 0.5, 3.0, 0.0], [2.0, 0.1, 0.0, -1.7], [1.0, np.nan, 2.0, 1.0]])
    np.testing.assert_allclose(chain.contributions(rows).sum(axis=1), chain.log_density(rows))
    assert chain.contributions(rows)[2, 1] == 0
    outside = np.tile(rows[0], (4, 1))
    outside[0, 0], outside[1, 1], outside[2, 2], outside[3, 2] = np.inf, 1.1, -1.0, 2.5
    impossible = np.argwhere(np.isneginf(chain.contributions(outside))).tolist()
    assert impossible == [[0, 0], [1, 1], [2, 2], [3, 2]]
    assert (chain.log_density(outside) == -np.inf).all()


@pytest.mark.parametrize("kinds", [(REAL, HALF_LINE, REAL), (COLOR, HEAPED, SHARE, REAL)])
def test_derivatives_against_differences(kinds):
    chain = make_chain(*kinds, seed=1)
    generator = np.random.default_rng(2)
    rows = np.column_stack(
        [
            generator.integers(0, 3, 6) if kind.is_discrete else generator.uniform(0.1, 0.9, 6)
            for kind in kinds
        ]
    ).astype(float)
    rows[-1, -1] = np.nan
    gradient, laplacian = chain.gradient(rows), chain.laplacian(rows)
    step, seconds = 1e-4, np.zeros(len(rows))
    for column, kind in enumerate(kinds):
        if kind.is_discrete:
            assert np.isnan(gradient[:, column]).all()
            continue
        move = step * np.eye(len(kinds))[column]
        above, at, below = (chain.log_density(rows + sign * move) for sign in (1, 0, -1))
        there = ~np.isnan(rows[:, column])
        assert np.isnan(gradient[~there, column]).all()
        # Rounding of logs of size ten: 1e-15/1e-4 in the first, 1e-15/1e-8 in the second.
        np.testing.assert_allclose(
            gradient[there, column], ((above - below) / (2 * step))[there], atol=1e-5, rtol=1e-5
        )
        seconds += np.where(there, (above - 2 * at + below) / step**2, 0.0)
    np.testing.assert_allclose(laplacian, seconds, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tilted", [True, False])
def test_draws_of_heaps_have_their_masses(tilted):
    chain = make_chain(HEAPED, COUNT, tilted=tilted)
    draws = chain.sample(4000, np.random.default_rng(0))[:, 0]
    masses = np.exp(chain.log_density(np.column_stack([np.arange(30.0), np.full(30, np.nan)])))
    shares = np.array([(draws == value).mean() for value in range(30)])
    # Four standard errors, and what a tilt that is constant around nodes may be off.
    assert (np.abs(shares - masses) < 4 * np.sqrt(masses / len(draws)) + 1e-3).all()


def test_draws_have_the_moments_of_the_density():
    chain = make_chain(COLOR, HALF_LINE, GRADE, seed=3)
    draws = chain.sample(4000, np.random.default_rng(0))
    assert draws[:, 1].min() >= -0.5
    rules = [line_rule(kind) for kind in chain.layout.kinds]
    rows = np.stack(np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij"), -1).reshape(-1, 3)
    weights = np.multiply.outer(np.multiply.outer(rules[0][1], rules[1][1]), rules[2][1]).ravel()
    weights = weights * np.exp(chain.log_density(rows))
    for function in (
        lambda x: x[:, 0] == 1,
        lambda x: x[:, 2] == 2,
        lambda x: np.tanh(x[:, 1]),
        lambda x: np.tanh(x[:, 1]) * (x[:, 0] == 2),
        lambda x: (x[:, 1] < 0.3) * (x[:, 2] == 0),
    ):
        found, wanted = function(draws).astype(float), float(weights @ function(rows))
        # Four standard errors, and what a tilt that is constant around nodes may be off.
        assert abs(found.mean() - wanted) < 4 * found.std() / np.sqrt(len(draws)) + 1e-3


def make_mixture(generator, width=4):
    roots = generator.standard_normal((3, width, width)) + 1.5 * np.eye(width)
    return OrderedMixture(
        np.array([0.2, 0.5, 0.3]),
        generator.standard_normal((3, width)),
        roots @ roots.transpose(0, 2, 1),
    )


def parts_of(mixture, columns):
    return [
        (weight, stats.multivariate_normal(mean[columns], covariance[np.ix_(columns, columns)]))
        for weight, mean, covariance in zip(*mixture, strict=True)
    ]


def test_a_bell_is_two_normals_with_and_without_a_tilt(generator):
    chain = make_chain(REAL, REAL)
    term, inputs = chain.number_terms[1], generator.standard_normal((5, 1))
    points = generator.standard_normal(5)
    _, means, scales = term.bell(inputs)
    expected = stats.norm.pdf(points[:, None], means, scales) @ [0.85, 0.15]
    np.testing.assert_allclose(np.exp(term.bell_log_density(inputs, points)), expected, rtol=1e-12)
    # A tilt of nothing asks for masses and changes no density.
    bell = term._replace(functions=None, coefficients=None)
    flat = term._replace(coefficients=np.zeros_like(term.coefficients))
    rows = generator.standard_normal((5, 2))
    alone, beside = (
        replace(chain, number_terms=(chain.number_terms[0], one)).log_density(rows)
        for one in (bell, flat)
    )
    np.testing.assert_allclose(alone, beside, rtol=1e-9)


def test_combinations_of_functions_need_not_be_made_of_them(generator):
    functions = functions_of(3, generator)
    rows = 2 * generator.standard_normal((300, 3))
    coefficients = generator.standard_normal((functions.n_functions, 4))
    expected = functions(rows) @ coefficients
    np.testing.assert_allclose(functions.combined(rows, coefficients), expected, rtol=1e-9)


def log_density_of(mixture, rows, columns):
    return np.log(sum(w * d.pdf(rows[:, columns]) for w, d in parts_of(mixture, columns)))


def test_conditionals_of_a_mixture_are_ratios_of_its_marginals(generator):
    mixture = make_mixture(generator)
    rows = generator.standard_normal((7, 4))
    walked = walk(mixture.factors(np.ones(4, bool)), rows)
    for column in range(4):
        expected = log_density_of(mixture, rows, list(range(column + 1)))
        if column:
            expected = expected - log_density_of(mixture, rows, list(range(column)))
        np.testing.assert_allclose(walked.log_density[:, column], expected, rtol=1e-9)
        whole = mixture.factors(np.ones(4, bool)).first(column + 1)
        alone = walk_to_last(whole, rows[:, : column + 1])
        for one, other in zip(alone, walked.columns[column], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)
    rows[:3, 1] = np.nan
    expected = log_density_of(mixture, rows[:3], [0, 2, 3])
    np.testing.assert_allclose(mixture.log_marginal(rows)[:3], expected, rtol=1e-9)


def test_filling_draws_from_the_conditional(generator):
    mixture = make_mixture(generator)
    rows = np.tile([0.5, np.nan, -0.3, np.nan], (20_000, 1))
    uniform, normal = generator.random(len(rows)), generator.standard_normal(rows.shape)
    filled = mixture.conditional_fill(rows, uniform, normal)
    # By weighting draws of the marginal of what is missing in a grid.
    nodes = np.linspace(-14, 14, 161)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    whole = np.column_stack(
        [np.full(len(grid), 0.5), grid[:, 0], np.full(len(grid), -0.3), grid[:, 1]]
    )
    weights = np.exp(log_density_of(mixture, whole, [0, 1, 2, 3]))
    weights /= weights.sum()
    for column, place in ((1, 0), (3, 1)):
        mean = weights @ grid[:, place]
        deviation = np.sqrt(weights @ (grid[:, place] - mean) ** 2)
        error = deviation / np.sqrt(len(rows))
        assert abs(filled[:, column].mean() - mean) < 4 * error
        assert filled[:, column].std() == pytest.approx(deviation, rel=0.03)
    np.testing.assert_array_equal(filled[:, [0, 2]], rows[:, [0, 2]])


@pytest.mark.parametrize("support", [(-np.inf, np.inf), (-0.4, np.inf), (-0.4, 1.1)])
def test_numbers_on_the_line_against_scipy(support, generator):
    log_weights = np.log([[0.6, 0.4]])
    centers, deviations = np.array([[0.2, 1.0]]), np.array([[0.5, 0.1]])

    def density(t):
        return float(np.exp(log_weights[0]) @ stats.norm(centers[0], deviations[0]).pdf(t))

    low, high = np.clip(support, -8, 8)
    total = integrate.quad(density, low, high, points=[0.2, 1.0])[0]
    for at in (-0.3, 0.4, 1.05):
        edges = np.array([at]), np.array([at])
        point = on_line(log_weights, centers, deviations, edges, support, cells=False)
        below = integrate.quad(density, low, at, points=[min(0.2, at)])[0] / total
        assert point.log_probability()[0] == pytest.approx(np.log(density(at) / total))
        assert stats.norm.cdf(point.residuals()[0]) == pytest.approx(below, abs=1e-8)
        levels = np.array([below])
        found = line_mixture_quantiles(log_weights, centers, deviations, support, levels)
        assert found[0] == pytest.approx(at, abs=1e-6)
        edges = np.array([at]), np.array([at + 0.05])
        cell = on_line(log_weights, centers, deviations, edges, support, cells=True)
        mass = integrate.quad(density, at, at + 0.05)[0] / total
        assert np.exp(cell.log_probability()[0]) == pytest.approx(mass, rel=1e-7)


def test_cells_whose_edges_are_one_number_have_the_widths_that_are_given():
    """Where a map is flat; a little wider ones agree with differences of Φ."""
    log_weights, centers = np.log([[0.3, 0.7]]), np.array([[0.0, 2.0]])
    deviations, support = np.array([[1.0, 0.1]]), (-np.inf, np.inf)
    point, widths = np.array([1.2]), np.array([1e-30, 1e-7])
    density = on_line(log_weights, centers, deviations, (point, point), support, False).density
    for width in widths:
        edges, given = (point, point + width), np.log([width])
        cell = on_line(
            log_weights, centers, deviations, edges, support, cells=True, log_widths=given
        )
        np.testing.assert_allclose(cell.inside, density + given, atol=1e-5)
    edges = point, point + 1e-5
    given, found = (
        on_line(log_weights, centers, deviations, edges, support, cells=True, log_widths=logs)
        for logs in (None, np.log([1e-5]))
    )
    np.testing.assert_allclose(found.inside, given.inside, atol=1e-6)


def test_counts_on_both_sides_of_a_wide_gap_have_masses_in_it(generator):
    counts = np.concatenate([generator.geometric(1e-3, 300), np.full(20, 99_999)])
    model = KernelChain(random_state=0).fit(pd.DataFrame({"gain": counts}))
    between = pd.DataFrame({"gain": np.arange(10_000, 99_999, 3000)})
    assert np.isfinite(model.score_samples(between)).all()


def test_points_between_no_ends_keep_the_digits_of_their_tails():
    # Components without weight are not looked at.
    log_weights = np.append(np.log([[0.6, 0.4]]), np.full((1, 3), -80.0), axis=1)
    centers = np.array([[0.2, 1.0, 0.3, 0.4, 0.5]])
    deviations = np.array([[0.5, 0.1, 0.3, 0.3, 0.3]])
    for at in (-12.0, 0.4, 12.0):
        places = (at - centers) / deviations
        shares = np.exp(log_weights[0])
        point = points_on_line(log_weights, places, np.zeros(1))
        assert point.below[0] == pytest.approx(shares @ stats.norm.cdf(places[0]), rel=1e-12)
        assert point.above[0] == pytest.approx(shares @ stats.norm.sf(places[0]), rel=1e-12)


@pytest.mark.parametrize("support", [(-np.inf, np.inf), (0.9, np.inf), (-0.4, 1.1)])
def test_draws_on_the_line_have_the_distribution_of_the_mixture(support):
    # Evenly spaced numbers are evenly spaced within every component: their distribution function
    # is wrong by one draw for each of the two at most, and by half a draw for the spacing.
    count, shares = 500, np.array([0.6, 0.4])
    centers, deviations = np.array([0.2, 1.0]), np.array([0.5, 0.1])
    uniform = (np.arange(count) + 0.5) / count
    wide = [np.tile(one, (count, 1)) for one in (np.log(shares), centers, deviations)]
    draws = line_mixture_draws(*wide, support, uniform)

    def below(at):
        return stats.norm.cdf((np.asarray(at)[..., None] - centers) / deviations) @ shares

    start, end = below(np.array(support))
    distance = stats.kstest(draws, lambda at: (below(at) - start) / (end - start)).statistic
    assert distance <= 2.5 / count
    assert draws.min() >= support[0]
    assert draws.max() <= support[1]


def test_tilts_of_quantiles_against_scipy(generator):
    slopes = 1.5 * generator.standard_normal((1, N_RESIDUAL_FUNCTIONS))

    def tilted(r):
        return float(np.exp(residual_functions(np.array([r])) @ slopes[0])[0]) * stats.norm.pdf(r)

    total = integrate.quad(tilted, -9, 9, limit=200)[0]
    for r in (-1.2, 0.3, 2.0):
        found, error = log_ratio(slopes, np.array([r]))
        wanted = 0.99 * tilted(r) / total / stats.norm.pdf(r) + 0.01
        assert found[0] == pytest.approx(np.log(wanted), abs=1e-6)
        assert error[0] < 1e-6
        below = 0.99 * integrate.quad(tilted, -9, r, limit=200)[0] / total
        below += 0.01 * stats.norm.cdf(r)
        # Around nodes, a tenth of a deviation apart, the tilt is constant.
        level = tilted_levels(slopes, np.array([below]))[0]
        assert stats.norm.ppf(level) == pytest.approx(r, abs=0.01)
    edges = stats.norm.cdf(np.linspace(-3, 3, 40))
    below, above = np.append(0.0, edges), 1 - np.append(edges, 1.0)
    ratios = cell_log_ratio(np.repeat(slopes, 41, axis=0), below, above, np.zeros(41))
    assert (1 - below - above) @ np.exp(ratios) == pytest.approx(1.0, abs=1e-12)


def test_weighted_draws_integrate_out_what_is_missing():
    chain = make_chain(COLOR, HALF_LINE, GRADE, seed=4)
    row = np.array([np.nan, 0.8, np.nan])
    # The density of the second column alone, summed over the cells of the others.
    cells = np.array([[color, 0.8, grade] for color in range(3) for grade in range(3)])
    logs = chain.log_density(cells)
    wanted = np.log(np.exp(logs).sum())
    found = completed(chain, row[None], 4000, np.random.default_rng(0))
    log_density, error = found.log_density()
    assert 0 < error[0] < 0.05
    assert abs(log_density[0] - wanted) < 4 * error[0]
    for color in range(3):
        share = np.exp(logs[3 * color : 3 * color + 3]).sum() / np.exp(wanted)
        assert (found.shares * (found.draws[:, :, 0] == color)).sum() == pytest.approx(
            share, abs=4 * np.sqrt(share / found.effective_sizes()[0])
        )


def test_weighted_draws_of_a_mixture_alone_are_exact():
    chain = make_chain(REAL, REAL, REAL, tilted=False)
    rows = np.array([[0.3, np.nan, -0.2], [np.nan, 1.0, np.nan]])
    assert are_exact(chain, rows)
    assert not are_exact(make_chain(REAL, HALF_LINE, REAL, tilted=False), rows)
    assert not are_exact(make_chain(REAL, REAL, REAL), rows)
    assert not are_exact(make_chain(COLOR, REAL, REAL, tilted=False), rows)
    found = completed(chain, rows, 16, np.random.default_rng(0))
    np.testing.assert_allclose(found.effective_sizes(), 16)
    logs, errors = found.log_density()
    np.testing.assert_allclose(errors, 0.0, atol=1e-9)
    # What is there: the marginal of the mixture, which the chain gives as well.
    np.testing.assert_allclose(logs, chain.log_density(rows), rtol=1e-9)
