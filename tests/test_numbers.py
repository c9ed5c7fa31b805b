"""Numbers that are huge, tiny, nearly dependent or complex: an answer, or a word."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import oas

from kexpfam import (
    ConditionalKernelExponentialFamily,
    DegenerateTableWarning,
    KernelChain,
    KernelDiffusion,
    KernelExponentialFamily,
)
from kexpfam.data.coordinates import whitening

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
    "diffusion": KernelDiffusion(n_components=16, n_levels=4, gate=False, random_state=0),
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
        assert (logs[-1] < -1e9).all()
    assert (np.diff(logs, axis=0) <= 0).all()
    assert np.isfinite(model.laplacian(1e308 * signs)).all()


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


@pytest.mark.parametrize("distance", [1e-9, 1e-7])
def test_a_nearly_dependent_column_is_named_and_costs_no_likelihood(distance, rows):
    noise = np.random.default_rng(1).normal(size=len(rows))
    table = np.column_stack([rows, rows[:, 0] + rows[:, 1] + distance * noise])
    diffusion = KernelDiffusion(n_components=64, n_levels=4, random_state=0)
    for model in (diffusion, KernelExponentialFamily(n_components=64, random_state=0)):
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


def test_covariances_are_shrunk_as_scikit_learn_does(rows):
    few = rows[:20]
    _, root = whitening(few, np.ones(20), np.zeros(20, bool))
    np.testing.assert_allclose(root @ root.T, oas(few)[0], rtol=1e-10)


@pytest.mark.filterwarnings("ignore::kexpfam.DegenerateTableWarning")
@pytest.mark.parametrize(
    "model",
    [KernelDiffusion(n_components=16, n_levels=3), KernelChain()],
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
        model.predict_std(inputs * unit) / unit, expected.predict_std(inputs)
    )
