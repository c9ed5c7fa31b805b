"""Inducing points: how they are chosen, and what a fit on them gives."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests.conftest import make_sketch

from kexpfam import KernelExponentialFamily, LaplaceNoise, Matern, NystromFeatures, Tuning
from kexpfam.datasets import make_density
from kexpfam.features import NystromBasis
from kexpfam.features.spectra import RadialBasis


@pytest.mark.parametrize("selection", ["random", "kmeans++"])
def test_points_are_distinct_rows(selection, two_clusters, generator):
    doubled = np.concatenate([two_clusters, two_clusters])
    basis = NystromFeatures(selection).build(50, make_sketch(doubled), RadialBasis(), generator)
    assert basis.points.shape == (50, 2)
    assert len(np.unique(basis.points, axis=0)) == 50
    assert (basis.points[:, None] == two_clusters).all(axis=2).any(axis=1).all()


def test_all_rows_serve_where_there_are_fewer_than_asked_for(two_clusters, generator):
    sketch = make_sketch(two_clusters[:20])
    assert NystromFeatures().build(50, sketch, RadialBasis(), generator).n_features == 20


def test_derivatives_against_autodiff(generator):
    basis = NystromBasis(generator.standard_normal((6, 2)), np.array([0.7, 1.4]))
    coefficients, rows = generator.standard_normal(6), generator.standard_normal((10, 2))
    metric = np.array([1.0, 3.0])

    def value(x):
        scaled = ((x - basis.points) / basis.length_scale) ** 2
        return jax.numpy.exp(-scaled.sum(axis=1) / 2) @ coefficients

    with jax.enable_x64(True):
        hessian = np.asarray(jax.vmap(jax.hessian(value))(rows))
        expected = jax.vmap(value)(rows), jax.vmap(jax.grad(value))(rows)
        found = basis.values(coefficients, rows), basis.gradient(coefficients, rows)
        laplacian = basis.laplacian(coefficients, rows, metric)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-12)
    np.testing.assert_allclose(
        laplacian, np.diagonal(hessian, axis1=1, axis2=2) @ metric, atol=1e-12
    )


@pytest.mark.parametrize("noise", ["gaussian", None])
def test_a_fit_improves_on_its_base_density(noise):
    ring = make_density("ring")
    model = KernelExponentialFamily(
        basis="nystrom", n_components=60, noise=noise, tuning=Tuning(n_steps=10), random_state=0
    ).fit(ring.sample(400, random_state=0))
    fresh = ring.sample(2000, random_state=1)
    assert model.score(fresh) > model.base_.log_density(fresh).mean() + 0.01
    assert model.coefficients_.shape == (60,)
    assert model.frequencies_ is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "laplace"}, "Nyström basis averages Gaussian noise"),
        ({"noise": LaplaceNoise()}, "basis='fourier'"),
        ({"kernel": Matern(3.5)}, "kernel='rbf'"),
    ],
)
def test_what_it_cannot_do_yet_is_said(options, message, two_clusters):
    model = KernelExponentialFamily(basis="nystrom", n_components=20, random_state=0, **options)
    with pytest.raises(ValueError, match=message):
        model.fit(two_clusters)


def test_an_unknown_selection_is_refused():
    with pytest.raises(ValueError, match="'random' or"):
        NystromFeatures("greedy")
