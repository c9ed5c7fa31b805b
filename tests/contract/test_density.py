"""What every density promises, whatever it is made of.

One truth per model: `gradient` and `laplacian` are derivatives of `score_samples`, by central
differences, for every estimator, basis and kind of model. And one contract for all densities.
"""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest
from sklearn.base import clone

import kexpfam
from kexpfam import (
    ArcCosineFeatures,
    FourierFeatures,
    KernelChain,
    KernelDiffusion,
    KernelExponentialFamily,
    NystromFeatures,
)
from kexpfam.bridges import jax_log_density
from kexpfam.datasets import make_thin_table
from kexpfam.model import Density, RealDensity


@pytest.fixture(scope="module")
def rows():
    """Thin enough for a tilt to pay."""
    return make_thin_table("powers", 400, random_state=0)[:, [0, 2]]


class UsersDensity:
    """A wide Gaussian, written by a user."""

    def log_density(self, X):
        return -(X**2).sum(axis=1) / 8 - np.log(8 * np.pi)

    def gradient(self, X):
        return -X / 4

    def sample(self, n, generator):
        return 2 * generator.standard_normal((n, 2))


GIVEN = {
    "n_components": 32,
    "length_scale": 1.5,
    "noise_scale": 0.1,
    "penalty": 1e-3,
    "gate": False,
    "random_state": 0,
}
FAMILIES = {
    "fourier": {},
    "random phases": {"basis": FourierFeatures(phases="random")},
    "grid": {"basis": "grid"},
    "nystrom": {"basis": "nystrom"},
    "nystrom derivatives": {"basis": NystromFeatures(functions="derivatives"), "n_components": 12},
    "arc-cosine": {"basis": ArcCosineFeatures(degree=3)},
    "gaussian base": {"base": "gaussian"},
    "averaged base": {"base": "averaged_mixture"},
    "uniform base": {"base": "uniform"},
    "user's base": {"base": UsersDensity()},
    "not standardized": {"standardize": False},
    "base alone": {"base": "gaussian", "penalty": 1e-6, "gate": True},
}
# No tilt pays here.
GAUSSIAN = np.random.default_rng(0).standard_normal((200, 2))
DIFFUSION = {"n_components": 32, "n_levels": 3, "gate": False, "random_state": 0}
DIFFUSIONS = {
    "plain": {"marginals": None},
    "power transforms": {"marginals": "yeo_johnson"},
    "gaussianized": {"marginals": "gaussianize"},
    "base alone": {"n_components": "auto", "gate": True},
}


def differences(function, rows, scales, step):
    """∂_j of a function of rows, as the last axis; all moved rows in one call."""
    moves = step * np.diag(scales)
    moved = np.concatenate([rows + sign * move for move in moves for sign in (1, -1)])
    values = np.asarray(function(moved)).reshape(len(scales), 2, len(rows), -1)
    changes = (values[:, 0] - values[:, 1]) / (2 * step * scales[:, None, None])
    return np.moveaxis(changes, 0, -1)


def assert_derivatives_agree(model, rows, *, second=True):
    some, scales = rows[:8], rows.std(axis=0)
    gradient = differences(model.score_samples, some, scales, 1e-5)[:, 0]
    # Rounding of a log density (1e-14 of it) over the step, and the step's square.
    np.testing.assert_allclose(
        model.gradient(some) * scales, gradient * scales, rtol=1e-4, atol=1e-5
    )
    if not second:
        return
    jacobian = differences(model.gradient, some, scales, 1e-5)
    laplacian = np.trace(jacobian, axis1=1, axis2=2)
    size = np.abs(laplacian).max()
    np.testing.assert_allclose(model.laplacian(some), laplacian, rtol=1e-4, atol=1e-5 * size)


def assert_support_is_a_box(model, *, ends):
    """Whether the density ends at the faces of a box; inside of them it is positive."""
    box = model.density_.support_box()
    assert (box is not None) == ends
    if box is not None:
        low, high = box
        inward = 1e-6 * (high - low)
        corners = np.stack([low + inward, high - inward, low - inward, high + inward])
        np.testing.assert_array_equal(
            np.isfinite(model.score_samples(corners)), [True, True, False, False]
        )


def assert_comes_back(model, rows, folder):
    """From a file, bit by bit."""
    model.save(folder / "model.kexpfam")
    loaded = kexpfam.load(folder / "model.kexpfam")
    assert type(loaded) is type(model)
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert set(vars(loaded)) == set(vars(model))
    for method in ("score_samples", "gradient", "laplacian"):
        one, other = (getattr(which, method)(rows[:40]) for which in (model, loaded))
        np.testing.assert_array_equal(one, other)
    assert os.listdir(folder) == ["model.kexpfam"]


@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
@pytest.mark.filterwarnings("ignore::kexpfam.TuningWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name, rows, tmp_path):
    rows = rows if name != "base alone" else GAUSSIAN
    model = KernelExponentialFamily(**{**GIVEN, **FAMILIES[name]}).fit(rows)
    assert model.has_tilt_ == (name != "base alone")
    assert_derivatives_agree(model, rows)
    assert_support_is_a_box(model, ends=name == "uniform base")
    if name != "user's base":
        assert_comes_back(model, rows, tmp_path)


@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
def test_the_exact_family(rows, tmp_path):
    settings = {**GIVEN, "basis": "exact"}
    settings.pop("n_components")
    model = KernelExponentialFamily(**settings).fit(rows[:60])
    assert model.has_tilt_
    assert_derivatives_agree(model, rows)
    assert_comes_back(model, rows, tmp_path)


@pytest.mark.parametrize("name", DIFFUSIONS)
def test_diffusions(name, rows):
    rows = rows if name != "base alone" else GAUSSIAN
    model = KernelDiffusion(**{**DIFFUSION, **DIFFUSIONS[name]}).fit(rows)
    assert model.has_tilt_ == (name != "base alone")
    assert_derivatives_agree(model, rows)


def test_diffusions_after_more_rows_and_a_file(rows, tmp_path):
    model = KernelDiffusion(**DIFFUSION, marginals=None).fit(rows[:300]).partial_fit(rows[300:])
    model.save(tmp_path / "model.kexpfam")
    loaded = kexpfam.load(tmp_path / "model.kexpfam")
    np.testing.assert_array_equal(loaded.gradient(rows[:3]), model.gradient(rows[:3]))
    # Second derivatives are those of other flows, and take longest to compile.
    assert_derivatives_agree(loaded, rows, second=False)


def test_the_flows_gradient_is_not_the_lowest_levels_score(rows):
    """They estimate the same thing in two ways: the one that is tested must be the one used."""
    model = KernelDiffusion(**DIFFUSION, marginals=None).fit(rows)
    gradient, score = model.gradient(rows[:50]), model.smoothed_gradient(rows[:50])
    assert ((gradient - score) ** 2).mean() > 1e-3 * (gradient**2).mean()


MODELS = {
    "tilted": KernelExponentialFamily(**GIVEN),
    "tilted, base alone": KernelExponentialFamily(**{**GIVEN, **FAMILIES["base alone"]}),
    "flow": KernelDiffusion(**DIFFUSION, marginals=None),
    "flow, base alone": KernelDiffusion(random_state=0),
    "chain": KernelChain(gate=False, random_state=0),
    "chain, base alone": KernelChain(random_state=0),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, rows):
    alone = request.param.endswith("base alone")
    fitted = clone(MODELS[request.param]).fit(GAUSSIAN if alone else rows)
    assert fitted.has_tilt_ == (not alone)
    return fitted


# A bad normalizer shifts all log densities alike, and few draws may say that chains differ.
@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
@pytest.mark.filterwarnings("ignore::kexpfam.SamplingWarning")
@pytest.mark.filterwarnings("ignore::kexpfam.TuningWarning")
def test_every_density_keeps_the_contract(model, rows):
    density, some = model.density_, rows[:16]
    assert isinstance(density, Density)
    logs, errors = density.log_density_and_error(some)
    np.testing.assert_array_equal(logs, density.log_density(some))
    np.testing.assert_allclose(logs, model.score_samples(some), rtol=1e-12)
    assert (errors >= 0).all()
    assert (errors < 1e-2).all()
    np.testing.assert_array_equal(model.gradient(some), density.gradient(some))
    np.testing.assert_array_equal(model.laplacian(some), density.laplacian(some))
    base = density.untilted()
    assert not base.has_tilt
    assert type(base) is type(density)
    assert (base.log_density(some) != logs).any() == density.has_tilt
    # The same seed gives the same draws; they look like what weighs draws for comparisons.
    one, again = (density.sample(512, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, again)
    assert one.shape == (512, 2)
    drawn = density.log_density(one)
    weighed, shares = density.draws_log_density(4096, np.random.default_rng(4))
    assert shares.sum() == pytest.approx(1)
    # Four standard errors of both means.
    error = drawn.std() * np.sqrt(1 / 512 + (shares**2).sum())
    assert drawn.mean() == pytest.approx(shares @ weighed, abs=4 * error)
    assert model.health_.has_tilt == density.has_tilt
    assert model.health_.in_words


def test_densities_of_real_columns_have_a_jax_form(model, rows):
    if not isinstance(model.density_, RealDensity):
        with pytest.raises(TypeError, match="KernelExponentialFamily"):
            jax_log_density(model)
        return
    with jax.enable_x64(True):
        logs = jax.jit(jax.vmap(model.density_.jax_function()))(rows[:8])
    # The flow is followed with steps of its own.
    np.testing.assert_allclose(logs, model.score_samples(rows[:8]), atol=1e-3)
