"""Arc-cosine features: what they refuse, and that kinks can be fitted with noise."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam import ArcCosineFeatures, KernelExponentialFamily, TaylorNoise, Tuning


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"basis": ArcCosineFeatures(degree=1)}, "criterion='likelihood'"),
        (
            {"basis": ArcCosineFeatures(degree=1), "noise": None, "criterion": "likelihood"},
            "needs functions with two derivatives",
        ),
        ({"basis": "arc_cosine", "kernel": "matern"}, "leave kernel at its default"),
        ({"basis": "arc_cosine", "noise": "laplace"}, "does not average over LaplaceNoise"),
        ({"basis": "arc_cosine", "noise": TaylorNoise()}, "four derivatives"),
    ],
)
def test_what_it_cannot_do_is_said(options, message, two_clusters):
    with pytest.raises(ValueError, match=message):
        KernelExponentialFamily(n_components=8, random_state=0, **options).fit(two_clusters)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"degree": 0}, "degree"), ({"bias": -1.0}, "bias"), ({"smoothing": "none"}, "smoothing")],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ArcCosineFeatures(**options)


def test_kinks_are_fitted_with_noise_and_tuned_by_likelihood(two_clusters):
    model = KernelExponentialFamily(
        basis=ArcCosineFeatures(degree=1),
        n_components=8,
        base="gaussian",
        criterion="likelihood",
        tuning=Tuning(n_steps=1, n_folds=2),
        random_state=0,
    ).fit(two_clusters)
    assert np.isnan(model.loss_surface_.losses).all()
    assert model.score(two_clusters) > model.base_.log_density(two_clusters).mean()
