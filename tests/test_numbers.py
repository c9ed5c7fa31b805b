"""Numbers that are huge, tiny, nearly dependent or complex: an answer, or a word."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam import (
    ConditionalKernelExponentialFamily,
    DegenerateTableError,
    DegenerateTableWarning,
    GaussianBase,
    KernelChain,
    KernelDiffusion,
    KernelExponentialFamily,
    MixtureBase,
)
from kexpfam.base.ordered import surely_positive
from kexpfam.data.coordinates import whitening
from kexpfam.data.marginals import fit_marginals
from kexpfam.data.standardize import Standardizer
from tests.conftest import make_sketch

FAMILY = {"n_components": 32, "penalty": 1e-3, "noise_scale": 0.2, "length_scale": 1.0}


def bent_rows(count=240):
    rows = np.random.default_rng(0).normal(size=(count, 3))
    rows[:, 2] += rows[:, 0] ** 2
    return rows


@pytest.fixture(scope="module")
def rows():
    return bent_rows()


MODELS = {
    "family": KernelExponentialFamily(random_state=0, gate=False, **FAMILY),
    "diffusion": KernelDiffusion(n_components=32, n_levels=3, gate=False, random_state=0),
    "diffusion with maps": KernelDiffusion(marginals="gaussianize", random_state=0),
}


@pytest.mark.usefixtures("users_mixtures")
@pytest.mark.parametrize("name", MODELS)
def test_rows_however_far_out_have_a_density_and_a_gradient_inward(name, rows):
    model = MODELS[name].fit(rows)
    signs = np.array([[1.0, 0, 0], [0, -1, 0], [1, 1, -1]])
    logs = []
    for size in (1e6, 1e20, 1e160, 1e308):
        far = size * signs
        logs.append(model.score_samples(far))
        gradient = model.gradient(far)
        assert np.isfinite(logs[-1]).all()
        assert np.isfinite(gradient).all()
        assert (logs[-1] < -500).all()
    assert (np.diff(logs, axis=0) <= 0).all()
    assert np.isfinite(model.laplacian(1e308 * signs)).all()


def test_a_diffusions_rows_far_out_are_unlikely_and_no_more(rows):
    model = KernelDiffusion(n_components=32, n_levels=3, gate=False, random_state=0).fit(rows)
    distances = 10.0 ** np.arange(1, 4)
    logs = model.score_samples(distances[:, None] * [1.0, 0.0, 0.0])
    # A Gaussian would have -50, -5000, -500000.
    assert (np.diff(logs) < 0).all()
    assert logs[-1] > -100
    # Draws stay among the rows all the same: 1e-4 of 30 000 would be three.
    assert np.abs(model.sample(30_000, random_state=0)).max() < 5 * np.abs(rows).max()


@pytest.mark.filterwarnings("ignore::kexpfam.DegenerateTableWarning")
def test_gradients_of_fewer_rows_than_columns():
    rows = np.random.default_rng(0).normal(size=(8, 20))
    model = KernelDiffusion(random_state=0).fit(rows)
    assert np.isfinite(model.gradient(1e6 * rows)).all()


@pytest.mark.parametrize("name", ["family", "diffusion"])
def test_only_the_proportions_of_weights_matter(name, rows):
    expected = MODELS[name].fit(rows).score_samples(rows[:20])
    for weight in (1e-100, 1e100):
        found = MODELS[name].fit(rows, sample_weight=np.full(len(rows), weight))
        # Sums are rounded elsewhere; nothing is lost.
        np.testing.assert_allclose(found.score_samples(rows[:20]), expected, atol=1e-6)


def weighted(name, rows, weights):
    """A fit of any estimator that takes weights."""
    if name == "conditional":
        model = ConditionalKernelExponentialFamily(random_state=0)
        return model.fit(rows[:, :1], rows[:, 1], sample_weight=weights)
    return {**MODELS, "chain": KernelChain(random_state=0)}[name].fit(rows, sample_weight=weights)


WEIGHTED = ["family", "diffusion", "conditional", "chain"]


@pytest.mark.parametrize("weight", [1e307, 5e-324])
@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_whose_sums_are_no_numbers_are_refused(name, weight, rows):
    with pytest.raises(ValueError, match="either zero or between 1e-250 and 1e"):
        weighted(name, rows, np.full(len(rows), weight))


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_row_that_has_all_the_weight_is_refused(name, rows):
    with pytest.raises(DegenerateTableError, match="one row has all of the weight"):
        weighted(name, rows, np.append(1e20, np.ones(len(rows) - 1)))


def test_rows_that_are_all_equal_have_the_unit_one():
    """Beside a value so far out that the others are one number, and which is held out."""
    _, root = whitening(np.full((30, 2), 0.5), np.ones(30), np.arange(30) < 6)
    np.testing.assert_allclose(root @ root.T, np.eye(2))


def test_a_row_of_hardly_any_weight_is_as_good_as_unseen(rows):
    weights = np.append([1e-200] * 3, np.ones(47))
    model = weighted("conditional", rows[:50], weights)
    assert np.isfinite(model.score_samples(rows[:, :1], rows[:, 1])).all()


@pytest.mark.parametrize("kind", ["yeo_johnson", "gaussianize"])
def test_marginal_maps_of_a_column_that_does_not_vary(kind):
    """Where the only other value is held out, and so far away that all the others are equal."""
    values = np.column_stack([np.linspace(-2, 2, 30), np.full(30, 0.5)])
    units = Standardizer(np.zeros(2), np.ones(2))
    maps = fit_marginals(values, np.ones(30), np.arange(30) < 6, units, kind)
    assert np.isfinite(maps.forward(values)).all()
    assert np.isfinite(maps.curve(values).log_slopes).all()


@pytest.mark.filterwarnings("ignore::kexpfam.DegenerateTableWarning")
def test_a_chain_has_gradients_however_far_out(rows):
    """Also where columns nearly follow from others, and mixtures are as thin as rounding."""
    noise = np.random.default_rng(1).normal(size=len(rows))
    table = np.column_stack([rows[:, :2], rows[:, 0] - rows[:, 1] + 1e-7 * noise])
    model = KernelChain(random_state=0).fit(table[:60])
    far = np.array([[1e50, 0, 0], [0, -1e200, 1], [1e300, 1e100, -1e20]])
    assert np.isfinite(model.score_samples(far)).all()
    assert np.isfinite(model.gradient(far)).all()


def test_thin_covariances_have_cholesky_factors(rows):
    wide = np.cov(rows.T)
    # Thinner than rounding along one direction, and negative there.
    axes = np.linalg.qr(rows[:3])[0]
    thin = (axes * [1.0, 0.5, -1e-16]) @ axes.T
    found = surely_positive(np.stack([wide, thin]))
    np.testing.assert_array_equal(found[0], wide)
    np.testing.assert_allclose(found[1], thin, atol=1e-12)
    assert np.isfinite(np.linalg.cholesky(found)).all()


@pytest.mark.parametrize("distance", [1e-9, 1e-7])
def test_a_nearly_dependent_column_is_named_and_costs_no_likelihood(distance, rows):
    noise = np.random.default_rng(1).normal(size=len(rows))
    table = np.column_stack([rows, rows[:, 0] + rows[:, 1] + distance * noise])
    diffusion = KernelDiffusion(n_components=32, n_levels=3, random_state=0)
    for model in (diffusion, KernelExponentialFamily(n_components=32, random_state=0)):
        with pytest.warns(DegenerateTableWarning, match="linear combination"):
            model.fit(table[:200])
        base = model.density_.untilted().log_density(table[200:]).mean()
        assert model.score(table[200:]) >= base - 0.1


def test_a_value_far_from_all_others_is_named(rows):
    table = rows.copy()
    table[7, 1] = 1e8
    with pytest.warns(DegenerateTableWarning, match=r"Column 1 holds 1e\+08, while half"):
        KernelExponentialFamily(random_state=0, base="gaussian", **FAMILY).fit(table)


@pytest.mark.filterwarnings("ignore::kexpfam.DegenerateTableWarning")
def test_a_table_with_such_a_value_has_a_chain():
    rows, fresh = np.random.default_rng(0).normal(size=(2, 300, 2))
    rows[7, 1] = 1e8
    # A Gaussian, whose standard deviation is that of the value, has about -18.
    assert KernelChain(random_state=0).fit(rows).score(fresh) > -20


def test_complex_numbers_are_refused_wherever_they_come_from(rows):
    for given in (rows + 1j, iter([rows + 1j])):
        with pytest.raises(ValueError, match=r"[Cc]omplex"):
            KernelExponentialFamily(**FAMILY).fit(given)


def chen_wiesel_hero(rows):
    """Their formula (23); scikit-learn's `oas` leaves 2/p out."""
    covariance, (n, p) = np.cov(rows.T, bias=True), rows.shape
    square, trace = np.trace(covariance @ covariance), np.trace(covariance)
    share = ((1 - 2 / p) * square + trace**2) / ((n + 1 - 2 / p) * (square - trace**2 / p))
    assert 0 < share < 1
    return (1 - share) * covariance + share * trace / p * np.eye(p)


@pytest.mark.parametrize("base", [GaussianBase(0.0), MixtureBase(regularization=0.0), None])
def test_covariances_of_few_rows_are_shrunk(base, rows):
    few = rows.reshape(-1, 9)[:20] * [5, 3, 1, 1, 1, 1, 1, 1, 1]
    if base is None:
        _, root = whitening(few, np.ones(20), np.zeros(20, bool))
        found = root @ root.T
    else:
        (found,) = base.fit(make_sketch(few), np.random.default_rng(0)).covariances
    np.testing.assert_allclose(found, chen_wiesel_hero(few), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::kexpfam.DegenerateTableWarning")
@pytest.mark.parametrize(
    "model",
    [KernelDiffusion(n_components=32, n_levels=3), KernelChain()],
    ids=lambda model: type(model).__name__,
)
def test_few_rows_of_many_columns(model):
    """A sample covariance of 48 rows in 30 columns would lose twenty nats on new rows."""
    generator = np.random.default_rng(0)
    train, fresh = generator.normal(size=(60, 30)), generator.normal(size=(200, 30))
    truth = -15 * np.log(2 * np.pi) - (fresh**2).sum(axis=1).mean() / 2
    assert model.set_params(random_state=0).fit(train).score(fresh) > truth - 5


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_the_unit_of_a_target_or_input_changes_nothing(unit):
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((40, 1))
    target = inputs[:, 0] + 0.3 * generator.standard_normal(40)
    expected = ConditionalKernelExponentialFamily(random_state=0).fit(inputs, target)
    model = ConditionalKernelExponentialFamily(random_state=0).fit(inputs * unit, target * unit)
    # Rounding of the units, and of logarithms near 700.
    np.testing.assert_allclose(
        model.score_samples(inputs * unit, target * unit) + np.log(unit),
        expected.score_samples(inputs, target),
        **{"rtol": 0, "atol": 1e-9},
    )
    np.testing.assert_allclose(model.predict(inputs * unit) / unit, expected.predict(inputs))
    np.testing.assert_allclose(
        model.gradient(inputs * unit, target * unit) * unit, expected.gradient(inputs, target)
    )
    np.testing.assert_allclose(
        model.predict_std(inputs * unit) / unit, expected.predict_std(inputs)
    )
