"""The kernel's density of a target, pooled with the conditional of a mixture."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import integrate, optimize, stats

import kexpfam
from kexpfam import ConditionalKernelExponentialFamily
from kexpfam.base.averaged import AverageSearch
from kexpfam.base.ordered import OrderedMixture
from kexpfam.base.target_mixture import target_lines
from kexpfam.bridges import jax_log_density
from kexpfam.data.pairs import Pairs
from kexpfam.data.response import straight_response
from kexpfam.tuning.pooling import _fitted, _narrowest_stretch, likeliest_share


def clusters(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight clusters of inputs, each with slopes and a scale of its own."""
    fixed = np.random.default_rng(7)
    centers, slopes = 3 * fixed.standard_normal((8, 2)), 2 * fixed.standard_normal((8, 2))
    scales = np.geomspace(0.02, 1.0, 8)
    generator = np.random.default_rng(seed)
    which = generator.integers(8, size=n_rows)
    away = 0.5 * generator.standard_normal((n_rows, 2))
    noise = scales[which] * generator.standard_normal(n_rows)
    return centers[which] + away, 6 + (slopes[which] * away).sum(axis=1) + noise


@pytest.fixture(scope="module", params=[None, (3.0, np.inf)], ids=["everywhere", "bounded"])
def model(request):
    X, y = clusters(500, 0)
    bounds = (-np.inf, np.inf) if request.param is None else request.param
    y = np.maximum(y, bounds[0] + 0.01)
    return ConditionalKernelExponentialFamily(random_state=0, bounds=bounds).fit(X, y)


@pytest.fixture
def rows():
    # Some of the last are far from all rows.
    X, _ = clusters(6, 1)
    return np.concatenate([X, [[20.0, -15.0]]])


def test_a_mixture_is_taken_where_clusters_have_scales_of_their_own(model):
    assert 0 < model.density_.share < 1
    assert model.has_tilt_
    X, y = clusters(1000, 2)
    inside = y > model.bounds_[0]
    alone = model.density_.untilted()
    gain = model.score(X[inside], y[inside]) - alone.log_density(X[inside], y[inside]).mean()
    assert gain > 0.1
    low, high = model.predict_interval(X[inside], coverage=0.9).T
    # Three standard errors of a thousand rows below; intervals may be wide where rows are few.
    assert 0.87 < np.mean((low <= y[inside]) & (y[inside] <= high)) < 0.97


def test_a_mixture_of_inputs_that_follow_from_others_has_some_width():
    X, y = clusters(200, 3)
    inputs = np.column_stack([X, X @ [1.0, -2.0], X @ [0.3, 0.1], X[:, 0]])
    pairs = Pairs(inputs, y, np.ones(200), np.arange(200, dtype=np.uint64))
    response = straight_response(y, pairs.weights)
    mixture = _fitted(pairs, response, AverageSearch(8, 0.0, 0.0, 0.0), 0, 2)
    assert np.linalg.eigvalsh(mixture.covariances).min() > 1e-14
    assert np.isfinite(target_lines(mixture).at(inputs[:5]).log_density(y[:5])).all()


def test_it_is_normalized_and_its_cdf_is_the_integral(model, rows):
    density = model.density_
    for row in rows:
        at = row[None]
        start, middle, end = model.predict_quantiles(at, [1e-7, 0.6, 1 - 1e-7])[0]
        start = max(start, model.bounds_[0])
        masses = []
        for first, last in ((start, middle), (middle, end)):
            places = np.linspace(first, last, 20_001)
            values = np.exp(density.log_density_table(at, places)[0])
            masses.append(integrate.simpson(values, x=places))
        # The kernel's cdf is piecewise quadratic between its nodes.
        np.testing.assert_allclose(masses, [0.6, 0.4], atol=5e-5)
        assert model.cdf(at, np.array([middle]))[0] == pytest.approx(0.6, abs=1e-6)


def test_quantiles_invert_the_cdf_far_into_the_tails(model, rows):
    levels = np.array([1e-9, 1e-4, 0.05, 0.35, 0.5, 0.95, 1 - 1e-6])
    found = model.predict_quantiles(rows, levels)
    assert (np.diff(found, axis=1) > 0).all()
    masses = model.density_.slices(rows).cdf(found)
    # Near a bound the targets themselves are rounded: a few units of the last digit of one.
    expected = np.broadcast_to(levels, masses.shape)
    np.testing.assert_allclose(masses, expected, rtol=1e-6, atol=1e-14)
    ends = model.density_.quantiles(rows, np.tile([0.0, 1.0], (len(rows), 1)))
    np.testing.assert_array_equal(ends, np.broadcast_to(model.bounds_, ends.shape))


def test_moments_are_integrals(model, rows):
    for row in rows[:4]:
        at = row[None]
        ends = model.predict_quantiles(at, [1e-12, 1 - 1e-12])[0]
        places = np.linspace(*ends, 100_001)
        values = np.exp(model.density_.log_density_table(at, places)[0])
        mean = integrate.simpson(values * places, x=places)
        variance = integrate.simpson(values * (places - mean) ** 2, x=places)
        # Tails of the kernel's bell are given to one point each, and cells to their nodes.
        deviation = np.sqrt(variance)
        assert model.predict(at)[0] == pytest.approx(mean, abs=2e-3 * deviation)
        assert model.predict_std(at)[0] == pytest.approx(deviation, rel=5e-3)


def test_sets_have_their_share_of_draws(model, rows):
    rows = rows[:3]
    draws = model.sample(rows, 20_000, random_state=0)
    for row, drawn in zip(rows, draws, strict=True):
        sets = model.predict_interval(row[None], coverage=0.8, kind="highest_density")[0]
        inside = np.zeros(len(drawn), bool)
        for low, high in np.atleast_2d(sets):
            inside |= (drawn >= low) & (drawn <= high)
        assert inside.mean() == pytest.approx(0.8, abs=0.015)


def test_derivatives_are_those_of_differences(model, rows):
    y = model.predict_quantiles(rows, [0.3])[:, 0]
    step = 1e-4 * model.predict_std(rows)
    before, at, after = (model.score_samples(rows, y + k * step) for k in (-1, 0, 1))
    # Fourth derivatives grow with the fourth power of the narrowest component.
    np.testing.assert_allclose(
        model.gradient(rows, y), (after - before) / (2 * step), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        model.laplacian(rows, y), (after - 2 * at + before) / step**2, rtol=1e-3, atol=1e-2
    )


def test_the_jax_function_and_a_file_say_the_same(model, rows, tmp_path):
    y = model.predict_quantiles(rows, [0.7])[:, 0]
    expected = model.score_samples(rows, y)
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(jax_log_density(model)))(rows, y)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(kexpfam.load(tmp_path / "model").score_samples(rows, y), expected)


def test_lines_are_ratios_of_the_mixtures_densities():
    generator = np.random.default_rng(3)
    means = generator.standard_normal((4, 3))
    roots = generator.standard_normal((4, 3, 3))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.2 * np.eye(3)
    weights = generator.dirichlet(np.ones(4))
    rows = generator.standard_normal((5, 3))

    def density(places):
        there = slice(0, places.shape[1])
        parts = [
            weight * stats.multivariate_normal(mean[there], covariance[there, there]).pdf(places)
            for weight, mean, covariance in zip(weights, means, covariances, strict=True)
        ]
        return np.sum(parts, axis=0)

    lines = target_lines(OrderedMixture(weights, means, covariances)).at(rows[:, :2])
    expected = np.log(density(rows) / density(rows[:, :2]))
    np.testing.assert_allclose(lines.log_density(rows[:, 2]), expected, rtol=1e-10)
    several = np.stack([rows[:, 2], rows[:, 2] + 1], axis=1)
    np.testing.assert_allclose(lines.log_density(several)[:, 0], expected, rtol=1e-8)
    apart = 1e-5
    slope = (lines.below(several + apart) - lines.below(several - apart)) / (2 * apart)
    np.testing.assert_allclose(slope, np.exp(lines.log_density(several)), rtol=1e-6)
    both = lines.below_and_density(several)
    np.testing.assert_allclose(both[0], lines.below(several), rtol=1e-12)
    np.testing.assert_allclose(both[1], np.exp(lines.log_density(several)), rtol=1e-12)


def test_the_share_is_the_likeliest():
    generator = np.random.default_rng(4)
    kernel, other = generator.standard_normal((2, 300))
    weights = generator.random(300)
    shares = np.linspace(0.001, 0.999, 999)
    means = [
        np.average(np.log((1 - w) * np.exp(kernel) + w * np.exp(other)), weights=weights)
        for w in shares
    ]
    found = likeliest_share(kernel, other, weights)
    assert found == pytest.approx(shares[int(np.argmax(means))], abs=0.002)
    assert likeliest_share(np.zeros(5), np.full(5, -9.0), np.ones(5)) == 0.0


@pytest.mark.parametrize(("width", "expected"), [(0.99, 1.02), (1.3, 0.9), (2.0, 0.85)])
def test_beside_a_wide_mixture_the_kernel_is_as_narrow_as_still_covers(width, expected):
    y = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    found = _narrowest_stretch(
        1.02,
        lambda stretch: stats.norm.cdf(y, scale=stretch),
        stats.norm.cdf(y, scale=width),
        0.3,
        np.ones(4000),
    )
    assert found == expected

    def covered(stretch):
        """The mass of a standard normal between the pool's quantiles, found by bisection."""
        end = optimize.brentq(
            lambda y: 0.7 * stats.norm.cdf(y / stretch) + 0.3 * stats.norm.cdf(y / width) - 0.95,
            0.0,
            9.0,
        )
        return 2 * stats.norm.cdf(end) - 1

    assert covered(found) >= 0.9
    narrower = [stretch for stretch in (0.85, 0.9, 0.95, 1.0) if stretch < found]
    assert not narrower or covered(narrower[-1]) < 0.9
