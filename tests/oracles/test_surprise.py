"""Surprise and expected ranges against closed forms and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kexpfam import KernelDiffusion, KernelExponentialFamily
from kexpfam.datasets import make_thin_table

COVARIANCE = np.array([[4.0, 1.5, 0.0], [1.5, 1.0, -0.3], [0.0, -0.3, 0.5]])


class Gaussian:
    """A base density of three dependent columns, which a user could have written."""

    def log_density(self, X):
        return stats.multivariate_normal([1.0, 2.0, 3.0], COVARIANCE).logpdf(X)

    def gradient(self, X):
        return -(X - [1.0, 2.0, 3.0]) @ np.linalg.inv(COVARIANCE)

    def sample(self, n, generator):
        return generator.multivariate_normal([1.0, 2.0, 3.0], COVARIANCE, n)


def conditional_scores(rows, mean, covariance):
    """z of every value given the others: of a Gaussian, from its precision matrix."""
    precision = np.linalg.inv(covariance)
    return (rows - mean) @ precision / np.sqrt(np.diag(precision))


def brute_force(model, rows, column, values):
    """Surprise and quantiles of one column on a fine grid of values.

    What is likely is judged after the column's map, what is probable is not.
    """

    def stretched(rows):
        coordinates = getattr(model.density_, "coordinates", None)
        return 0.0 if coordinates is None else coordinates.log_jacobian(rows)

    found = []
    for row in rows:
        moved = np.repeat(row[None], len(values), axis=0)
        moved[:, column] = values
        logs, own = model.score_samples(moved), model.score_samples(row[None])[0]
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        logs, own = logs - stretched(moved), own - stretched(row[None])
        cumulative = np.cumsum(shares) - shares / 2
        found.append(
            [-np.log(shares[logs <= own].sum()), *np.interp([0.05, 0.95], cumulative, values)]
        )
    return np.transpose(found)


@pytest.fixture(scope="module")
def gaussian_rows():
    return np.random.default_rng(0).multivariate_normal([1.0, 2.0, 3.0], COVARIANCE, 4000)


def test_of_a_gaussian_it_is_the_tail_of_the_conditional_z(gaussian_rows):
    """A Gaussian base density, fitted: its own mean and covariance are the truth."""
    model = KernelExponentialFamily(
        base="gaussian", n_components=4, penalty=1e9, noise_scale=0.1, length_scale=1.0,
        gate=False, random_state=0,
    ).fit(gaussian_rows)  # fmt: skip
    rows = gaussian_rows[:200].copy()
    rows[::3, 0] += 6
    mean, covariance = gaussian_rows.mean(axis=0), np.cov(gaussian_rows.T, bias=True)
    z = conditional_scores(rows, mean, covariance)
    expected = -np.log(2 * stats.norm.sf(np.abs(z)))
    # Nodes are a quarter of a standard deviation apart, and 1 or 2 far out, where a straight line
    # is below the logarithm of a Gaussian by 1/8 or 1/2 at the most.
    np.testing.assert_allclose(model.surprise(rows), expected, atol=0.03, rtol=0.04)
    low, high = model.expected_range(rows, 0.9)
    spread = 1 / np.sqrt(np.diag(np.linalg.inv(covariance)))
    middle = rows - z * spread
    np.testing.assert_allclose(low, middle - 1.6449 * spread, atol=0.02)
    np.testing.assert_allclose(high, middle + 1.6449 * spread, atol=0.02)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KernelDiffusion(marginals=None, random_state=0),
        lambda: KernelDiffusion(
            n_components=64, n_levels=4, marginals=None, gate=False, random_state=0
        ),
        lambda: KernelDiffusion(
            n_components=64, n_levels=4, marginals="yeo_johnson", gate=False, random_state=0
        ),
        lambda: KernelExponentialFamily(
            n_components=32, penalty=1e-3, noise_scale=0.1, length_scale=1.0, gate=False,
            random_state=0,
        ),
        lambda: KernelExponentialFamily(
            n_components=32, base="uniform", penalty=1e-3, noise_scale=0.1, length_scale=1.0,
            gate=False, random_state=0,
        ),
    ],
    ids=["base alone", "flow", "power transforms", "tilted", "box"],
)  # fmt: skip
def test_it_is_that_of_the_density_itself(make, request):
    """By `score_samples` at hundreds of values of a column."""
    rows = np.random.default_rng(0).gamma(3.0, size=(400, 2))
    rows[:, 1] += np.sin(2 * rows[:, 0])
    model = make().fit(rows)
    assert model.has_tilt_ == ("base alone" not in request.node.name)
    some = rows[:4].copy()
    some[::2, 1] += 3
    surprise = model.surprise(some)
    low, high = model.expected_range(some, 0.9)
    for column in range(2):
        values = np.linspace(rows[:, column].min() - 4, rows[:, column].max() + 8, 501)
        if model.get_params().get("base") == "uniform":
            values = np.linspace(rows[:, column].min(), rows[:, column].max(), 501)
        expected = brute_force(model, some, column, values)
        inside = np.isfinite(expected[0])
        assert inside.any()
        # A flow's tilt is a straight line between 25 quantiles.
        np.testing.assert_allclose(
            surprise[inside, column], expected[0, inside], atol=0.1, rtol=0.05
        )
        spread = rows[:, column].std()
        np.testing.assert_allclose(low[inside, column], expected[1, inside], atol=0.05 * spread)
        np.testing.assert_allclose(high[inside, column], expected[2, inside], atol=0.05 * spread)


def test_a_users_own_base_density_is_asked_for_its_values(gaussian_rows):
    model = KernelExponentialFamily(
        base=Gaussian(), n_components=4, penalty=1e9, noise_scale=0.1, length_scale=1.0,
        gate=False, random_state=0,
    ).fit(gaussian_rows[:500])  # fmt: skip
    z = conditional_scores(gaussian_rows[:50], np.array([1.0, 2.0, 3.0]), COVARIANCE)
    expected = -np.log(2 * stats.norm.sf(np.abs(z)))
    np.testing.assert_allclose(model.surprise(gaussian_rows[:50]), expected, atol=0.35)


def test_the_shifted_value_is_found(gaussian_rows):
    """By the base density's exact conditionals, as well as a Gaussian's own z would."""
    generator = np.random.default_rng(1)
    fresh = generator.multivariate_normal([1.0, 2.0, 3.0], COVARIANCE, 300)
    columns = generator.integers(3, size=300)
    fresh[np.arange(300), columns] += 8 * np.sqrt(np.diag(COVARIANCE))[columns]
    model = KernelDiffusion(random_state=0).fit(gaussian_rows)
    assert (model.surprise(fresh).argmax(axis=1) == columns).mean() == 1.0


def test_rows_far_out_have_finite_numbers():
    rows = make_thin_table("sphere", 400, random_state=0)
    model = KernelDiffusion(n_components=32, n_levels=3, gate=False, random_state=0).fit(rows)
    surprise = model.surprise(np.array([[50.0, 0.0, 0.0, 0.0], [0.0, 0.0, -1e6, 0.0]]))
    assert np.isfinite(surprise).all()
    assert surprise.max(axis=1).min() > 6.9


def test_coverage_must_be_a_share(gaussian_rows):
    model = KernelDiffusion(random_state=0).fit(gaussian_rows[:200])
    with pytest.raises(ValueError, match="between 0 and 1; got 90"):
        model.expected_range(gaussian_rows[:2], 90)
