"""One truth per model: `gradient` and `laplacian` are derivatives of `score_samples`.

By central differences, for every estimator, basis and kind of model.
"""

from __future__ import annotations

import numpy as np
import pytest

import kexpfam
from kexpfam import (
    ArcCosineFeatures,
    FourierFeatures,
    KernelDiffusion,
    KernelExponentialFamily,
    NystromFeatures,
)
from kexpfam.datasets import make_thin_table


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
    "n_components": 24,
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


def assert_derivatives_agree(model, rows):
    some, scales = rows[:8], rows.std(axis=0)
    gradient = differences(model.score_samples, some, scales, 1e-5)[:, 0]
    # Rounding of a log density (1e-14 of it) over the step, and the step's square.
    np.testing.assert_allclose(
        model.gradient(some) * scales, gradient * scales, rtol=1e-4, atol=1e-5
    )
    jacobian = differences(model.gradient, some, scales, 1e-5)
    laplacian = np.trace(jacobian, axis1=1, axis2=2)
    size = np.abs(laplacian).max()
    np.testing.assert_allclose(model.laplacian(some), laplacian, rtol=1e-4, atol=1e-5 * size)


@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
@pytest.mark.filterwarnings("ignore::kexpfam.TuningWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name, rows):
    rows = rows if name != "base alone" else GAUSSIAN
    model = KernelExponentialFamily(**{**GIVEN, **FAMILIES[name]}).fit(rows)
    assert model.has_tilt_ == (name != "base alone")
    assert_derivatives_agree(model, rows)


@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
def test_the_exact_family(rows):
    settings = {**GIVEN, "basis": "exact"}
    settings.pop("n_components")
    model = KernelExponentialFamily(**settings).fit(rows[:60])
    assert model.has_tilt_
    assert_derivatives_agree(model, rows)


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
    assert_derivatives_agree(loaded, rows)


def test_the_flows_gradient_is_not_the_lowest_levels_score(rows):
    """They estimate the same thing in two ways: the one that is tested must be the one used."""
    model = KernelDiffusion(**DIFFUSION, marginals=None).fit(rows)
    gradient, score = model.gradient(rows[:50]), model.smoothed_gradient(rows[:50])
    assert ((gradient - score) ** 2).mean() > 1e-3 * (gradient**2).mean()
