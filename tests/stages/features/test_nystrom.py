"""Inducing points: how they are chosen, and what a fit on them gives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import make_sketch, moment_source

from kexpfam import KernelExponentialFamily, LaplaceNoise, Matern, NystromFeatures, Tuning
from kexpfam.data.standardize import Standardizer
from kexpfam.datasets import make_density
from kexpfam.features import NystromBasis, SectionBasis
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import TiltedDensity
from kexpfam.moments import total_moments
from kexpfam.noise import NoNoise
from kexpfam.solve import penalty_matrix_of, solve_ridge, system_at


@pytest.mark.parametrize("selection", ["random", "kmeans++"])
def test_points_are_distinct_rows(selection, two_clusters, generator):
    doubled = np.concatenate([two_clusters, two_clusters])
    basis = NystromFeatures(selection).build(50, make_sketch(doubled), RadialBasis(), generator)
    assert basis.points.shape == (50, 2)
    assert len(np.unique(basis.points, axis=0)) == 50
    assert (basis.points[:, None] == two_clusters).all(axis=2).any(axis=1).all()


def test_all_rows_serve_where_there_are_fewer_than_asked_for(two_clusters, generator):
    sketch = make_sketch(two_clusters[:20])
    with pytest.warns(UserWarning, match="only 20 distinct rows"):
        assert NystromFeatures().build(50, sketch, RadialBasis(), generator).n_features == 20


def test_duplicate_points_do_no_harm(two_clusters, base):
    """Coinciding functions share their coefficient, and the fit is that of the distinct ones."""
    points, unit = two_clusters[:15], np.ones(2)

    def fitted(basis):
        source = moment_source(basis, NoNoise(), two_clusters, np.ones(300), base)
        system = system_at(basis, total_moments(source.at(0.0).values()), NoNoise(), 0.0)
        coefficients = solve_ridge(system, 1e-3, penalty_matrix_of(basis))
        return TiltedDensity(basis, coefficients, base, Standardizer(0 * unit, unit), 0.0)

    twice = np.concatenate([points, points])
    for make in (
        lambda z: NystromBasis(z, unit),
        lambda z: SectionBasis(z, unit, np.arange(2 * len(z)), Matern(3.5), ("gradient",)),
    ):
        once, doubled = fitted(make(points)), fitted(make(twice))
        # The jitter of 1e-9 is shared by two coefficients instead of one; against eigenvalues
        # of 1e-6 that still matter, a change of some 1e-4 of f.
        np.testing.assert_allclose(doubled.tilt(two_clusters), once.tilt(two_clusters), atol=1e-3)


def test_components_of_derivatives(two_clusters, generator):
    sketch = make_sketch(two_clusters)
    everything = NystromFeatures(functions="derivatives").build(
        21, sketch, RadialBasis(), generator
    )
    assert len(everything.points) == 11
    assert everything.n_features == 22  # rounded up to whole points
    some = NystromFeatures(functions="derivatives", components_per_point=1).build(
        21, sketch, RadialBasis(), generator
    )
    assert len(some.points) == some.n_features == 21
    assert set(some.selected % 2) == {0, 1}
    np.testing.assert_array_equal(some.selected // 2, np.arange(21))


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
        ({"noise": "laplace"}, "does not average over LaplaceNoise"),
        ({"noise": LaplaceNoise()}, "basis='fourier'"),
        ({"kernel": Matern(3.5), "noise": "gaussian"}, "MonteCarloNoise"),
        ({"kernel": Matern(2.8), "noise": None}, "half-integer nu"),
        ({"length_scale": 0.0}, "positive number"),
    ],
)
def test_what_it_cannot_do_is_said(options, message, two_clusters):
    model = KernelExponentialFamily(basis="nystrom", n_components=20, random_state=0, **options)
    with pytest.raises(ValueError, match=message):
        model.fit(two_clusters)


def test_an_unknown_selection_is_refused():
    with pytest.raises(ValueError, match="'random' or"):
        NystromFeatures("greedy")
    with pytest.raises(ValueError, match="'values' or 'derivatives'"):
        NystromFeatures(functions="integrals")
    with pytest.raises(ValueError, match="goes with functions='derivatives'"):
        NystromFeatures(components_per_point=1)
