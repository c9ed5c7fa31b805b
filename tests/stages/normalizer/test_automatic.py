"""Which way log Z is found, and a tilt whose log Z is known: f = h cos(w·x) under a Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from tests.conftest import columns

from kexpfam import ImportanceNormalizer, QuadratureNormalizer
from kexpfam.base import GaussianMixtureDensity
from kexpfam.data.standardize import Standardizer
from kexpfam.features import FourierFeatures
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import TiltedDensity
from kexpfam.normalizer import AutomaticNormalizer


def tilted_along_the_first_column(n_columns: int, height: float) -> TiltedDensity:
    base = GaussianMixtureDensity(np.ones(1), np.zeros((1, n_columns)), np.eye(n_columns)[None])
    basis = FourierFeatures().build(2, columns(n_columns), RadialBasis(), np.random.default_rng(0))
    frequency = 2.0 * np.eye(n_columns)[:1]
    basis = type(basis)(frequency, np.zeros(1), np.ones(1), True)
    units = Standardizer(np.zeros(n_columns), np.ones(n_columns))
    return TiltedDensity(basis, np.array([height, 0.0]), base, units, 0.0)


def known(height: float) -> float:
    """All other columns integrate to one."""
    return np.log(
        quad(lambda x: np.exp(height * np.cos(2 * x) - x**2 / 2) / np.sqrt(2 * np.pi), -12, 12)[0]
    )


@pytest.mark.parametrize("n_columns", [1, 2, 3, 5])
def test_log_z_does_not_depend_on_columns_that_are_not_tilted(n_columns):
    density = tilted_along_the_first_column(n_columns, 1.5)
    found = AutomaticNormalizer().estimate(density, np.random.default_rng(0))
    drawn = n_columns > 2
    assert drawn == np.isfinite(found.effective_sample_size)
    # Quadrature refines to 1e-4; draws know their error.
    atol = 4 * found.error if drawn else 1e-4
    assert found.log_normalizer == pytest.approx(known(1.5), abs=atol)


def test_what_drives_the_estimate_off_is_seen_in_its_figures():
    """The steeper the tilt, the fewer draws carry it."""
    sizes = [
        ImportanceNormalizer(n_draws=4000)
        .estimate(tilted_along_the_first_column(3, height), np.random.default_rng(0))
        .effective_sample_size
        for height in (0.0, 2.0, 6.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


def test_quadrature_is_not_offered_where_it_cannot_work():
    density = tilted_along_the_first_column(3, 1.0)
    with pytest.raises(ValueError, match=r"one or two columns; got 3.*importance"):
        QuadratureNormalizer().estimate(density, np.random.default_rng(0))
