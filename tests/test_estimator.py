"""What a user sees of `KernelExponentialFamily`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from kexpfam import (
    CharacteristicNoise,
    FourierFeatures,
    KernelExponentialFamily,
    MixtureBase,
    QuadratureNormalizer,
    Tuning,
    TuningWarning,
)
from kexpfam.base import AutomaticBase, GaussianBase, GaussianMixtureDensity, UniformBase
from kexpfam.datasets import make_density
from kexpfam.metrics import fisher_divergence
from kexpfam.tuning import Hyperparameters


@pytest.fixture(scope="module")
def ring():
    return make_density("ring").sample(400, random_state=0)


def quick(**options):
    options = {"n_components": 32, "tuning": Tuning(n_steps=5), "random_state": 0, **options}
    return KernelExponentialFamily(**options)


def test_a_gaussian_is_recovered_from_a_base_that_is_too_wide():
    """The closed-form truth: ∇log p = −x for standard normal rows."""
    X = np.random.default_rng(0).standard_normal((2000, 1))
    wide = GaussianMixtureDensity(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), 4.0))
    model = quick(base=wide).fit(X)
    grid = np.linspace(-2, 2, 41)[:, None]
    assert np.abs(model.gradient(grid) + grid).mean() < 0.1
    exact = -(grid[:, 0] ** 2 + np.log(2 * np.pi)) / 2
    # A fitted Gaussian would be off by 1.5·√(2/2000) = 0.05 (one deviation) at the ends.
    assert np.abs(model.score_samples(grid) - exact).max() < 0.2


def test_tuning_improves_on_the_base_density_and_is_recorded(ring):
    model = quick(tuning=Tuning(n_steps=12)).fit(ring)
    fresh = make_density("ring").sample(2000, random_state=1)
    truth = make_density("ring").gradient(fresh)
    assert model.score(fresh) > model.base_.log_density(fresh).mean()
    assert fisher_divergence(model, fresh, truth) < fisher_divergence(model.base_, fresh, truth)
    assert [record["step"] for record in model.tuning_history_] == list(range(1, 13))
    assert set(model.tuning_history_[0]) == {
        "step", "loss", "penalty", "noise_scale", "length_scale",
    }  # fmt: skip
    surface = model.loss_surface_
    assert surface.losses.shape == (len(surface.noise_scales), len(surface.penalties))
    assert model.penalty_ in surface.penalties
    assert model.noise_scale_ in surface.noise_scales


def test_longer_tuning_lowers_the_held_out_loss(ring):
    history = quick(tuning=Tuning(n_steps=40)).fit(ring).tuning_history_
    losses = [record["loss"] for record in history]
    assert np.mean(losses[-10:]) < np.mean(losses[:5])


@pytest.mark.parametrize("criterion", ["score_matching", "likelihood"])
def test_what_the_base_explains_is_left_to_the_base(criterion):
    """Gaussian rows on a Gaussian base: on fresh rows the model is never worse than the base."""
    X = np.random.default_rng(0).standard_normal((300, 3))
    model = quick(base="gaussian", criterion=criterion).fit(X)
    fresh = np.random.default_rng(1).standard_normal((5000, 3))
    assert model.score(fresh) > model.base_.log_density(fresh).mean() - 0.02


def test_an_automatic_base_is_chosen_once(ring, monkeypatch):
    """What a tilt gains beside one family says nothing of another."""
    families = iter([GaussianBase(), UniformBase()])
    monkeypatch.setattr(AutomaticBase, "choose", lambda *_: next(families))
    found, given = (quick(base=base).fit(ring) for base in ("auto", "gaussian"))
    np.testing.assert_array_equal(found.score_samples(ring), given.score_samples(ring))
    assert found.health_.comparison == given.health_.comparison


def test_numbers_are_taken_as_given(ring):
    model = quick(penalty=1e-3, noise_scale=0.2, length_scale=[0.5, 0.7]).fit(ring)
    assert (model.penalty_, model.noise_scale_) == (1e-3, 0.2)
    np.testing.assert_array_equal(model.length_scale_, [0.5, 0.7])
    assert model.tuning_history_ == []
    assert model.loss_surface_ is None


@pytest.mark.parametrize("fixed", ["penalty", "noise_scale", "length_scale"])
def test_each_hyper_parameter_can_be_fixed_alone(ring, fixed):
    model = quick(**{fixed: 0.5}).fit(ring)
    np.testing.assert_array_equal(getattr(model, f"{fixed}_"), 0.5)
    assert len(model.tuning_history_) == 5


def test_a_fixed_penalty_that_loses_to_the_base_gives_the_base_with_a_warning():
    X = np.random.default_rng(0).standard_normal((100, 2))
    tuning = Tuning(n_steps=1, start=Hyperparameters(None, None, np.full(2, 0.05)))
    model = quick(base="gaussian", penalty=1e-9, noise=None, tuning=tuning)
    with pytest.warns(TuningWarning, match="the model is its base density"):
        model.fit(X)
    assert np.isinf(model.penalty_)
    np.testing.assert_allclose(model.score_samples(X), model.base_.log_density(X))


def test_plain_score_matching_has_no_noise(ring):
    model = quick(noise=None).fit(ring)
    assert model.noise_scale_ == 0
    assert all(record["noise_scale"] == 0 for record in model.tuning_history_)


@pytest.mark.parametrize(
    "options",
    [
        {"base": "uniform"},
        {"base": "gaussian"},
        {"base": MixtureBase(n_components=3), "tuning": Tuning(n_steps=5)},
        {"noise": "laplace"},
        {"noise": "uniform"},
        {"noise": CharacteristicNoise(lambda w: jnp.exp(-(w**2).sum(axis=1) / 2))},
        {"kernel": "matern"},
        {"kernel": "rational_quadratic"},
        {"basis": FourierFeatures(phases="random")},
        {"basis": FourierFeatures(draw="quadrature")},
        {"criterion": "likelihood"},
        {"tuning": Tuning(n_steps=3, n_folds=0)},
        {"standardize": False},
    ],
    ids=lambda options: "-".join(f"{k}={v!s:.18}" for k, v in options.items()),
)
def test_every_option_gives_a_normalised_density(ring, options):
    model = quick(**{"tuning": "folds", **options}).fit(ring)
    exact = QuadratureNormalizer(tolerance=1e-4).estimate(model.density_, np.random.default_rng(0))
    # Five of the model's own error bars, and what the quadrature may miss.
    error = 5 * model.log_normalizer_error_ + 1e-3
    assert abs(model.log_normalizer_ - exact.log_normalizer) < error


def test_a_users_own_base_density_works_in_the_users_units(ring):
    class Wide:
        """A Gaussian of deviation 5 without a Hessian."""

        def log_density(self, X):
            return -(X**2).sum(axis=1) / 50 - np.log(2 * np.pi * 25)

        def gradient(self, X):
            return -X / 25

        def sample(self, n, generator):
            return 5 * generator.standard_normal((n, 2))

    given = {"penalty": 1e-3, "noise_scale": 0.1, "length_scale": 0.5}
    given |= {"normalizer": "quadrature", "gate": False}
    model = quick(base=Wide(), **given).fit(ring)
    np.testing.assert_allclose(model.base_.log_density(ring), Wide().log_density(ring))
    reference = GaussianMixtureDensity(np.ones(1), np.zeros((1, 2)), 25 * np.eye(2)[None])
    same = quick(base=reference, **given).fit(ring)
    # Second differences stand in for a zero third derivative, at a step that leaves about 1e-8.
    np.testing.assert_allclose(model.score_samples(ring), same.score_samples(ring), atol=1e-4)


def test_the_score_matching_loss_is_what_the_derivatives_say(ring):
    X = ring * [1.0, 10.0]
    model = quick().fit(X)
    expected = model.laplacian(X) + (model.gradient(X) ** 2).sum(axis=1) / 2
    assert model.score_matching_loss(X) == pytest.approx(expected.mean())
    weights = np.arange(len(X), dtype=float)
    assert model.score_matching_loss(X, sample_weight=weights) == pytest.approx(
        np.average(expected, weights=weights)
    )
    same = quick().fit(ring)
    assert model.score_matching_loss(X, standardized=True) == pytest.approx(
        same.score_matching_loss(ring, standardized=True), rel=1e-4
    )


def test_quadrature_and_importance_sampling_agree(ring):
    by_draws = quick(normalizer="importance").fit(ring)
    by_rule = quick().fit(ring)
    difference = by_draws.log_normalizer_ - by_rule.log_normalizer_
    assert abs(difference) < 5 * by_draws.log_normalizer_error_
    assert by_draws.effective_sample_size_ > 1000
    assert np.isnan(by_rule.effective_sample_size_)


def test_progress_is_shown_on_request_only(ring, capsys):
    quick().fit(ring)
    assert capsys.readouterr() == ("", "")
    quick(verbose=True).fit(ring)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "tuning" in shown.err
    assert "cross-validating" in shown.err


def test_a_model_without_a_tilt_draws_from_its_base_density(generator):
    rows = generator.standard_normal((150, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + [5.0, 0.0]
    settings = {"n_components": 64, "noise_scale": 0.05, "length_scale": 0.2, "base": "gaussian"}
    with pytest.warns(UserWarning, match="does not beat"):
        model = KernelExponentialFamily(penalty=1e-6, random_state=0, **settings).fit(rows)
    assert not model.has_tilt_
    draws = model.sample(20_000, random_state=0)
    # A few standard errors of twenty thousand draws.
    np.testing.assert_allclose(draws.mean(axis=0), rows.mean(axis=0), atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T), np.cov(rows.T), atol=0.06)
    np.testing.assert_array_equal(model.sample(20_000, random_state=0), draws)
