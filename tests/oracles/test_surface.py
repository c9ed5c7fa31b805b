"""The cross-validated surface against refits fold by fold, and the choice made on it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import make_sketch, moment_source

from kexpfam import FourierFeatures, NystromFeatures, QuadratureNormalizer
from kexpfam.base import MixtureBase, draw_defensively
from kexpfam.data.sketch import split_folds
from kexpfam.data.standardize import Standardizer
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import TiltedDensity
from kexpfam.noise import GaussianNoise
from kexpfam.progress import Progress
from kexpfam.solve import penalty_matrix_of, solve_ridge, system_at
from kexpfam.tuning import HeldOutRows, LossSurface, choose, loss_surface

NOISE_SCALES, PENALTIES = np.array([0.0, 0.3]), np.array([1e-3, 1e-1])


@pytest.mark.parametrize(
    "family", [FourierFeatures(), NystromFeatures()], ids=["fourier", "nystrom"]
)
def test_every_figure_is_that_of_a_refit_without_the_fold(family, two_clusters, generator):
    sketch, noise = make_sketch(two_clusters), GaussianNoise()
    base = MixtureBase(n_components=2).fit(sketch, generator)
    basis = family.build(12, sketch, RadialBasis(), generator)
    folds = split_folds(sketch.keys, 3).numbers(sketch.keys)
    source = moment_source(basis, noise, sketch.rows, sketch.weights, base, folds)
    draws = draw_defensively(base, 40_000, generator)
    held_out = HeldOutRows(sketch.rows, sketch.weights, folds, draws)
    surface = loss_surface(basis, source, noise, NOISE_SCALES, PENALTIES, held_out, Progress())
    identity = Standardizer(np.zeros(2), np.ones(2))
    for k in range(3):
        kept, left = sketch.rows[folds != k], sketch.rows[folds == k]
        for s, noise_scale in enumerate(NOISE_SCALES):
            refit = moment_source(basis, noise, kept, np.ones(len(kept)), base)
            system = system_at(basis, refit.at(noise_scale)[0], noise, noise_scale)
            for p, penalty in enumerate(PENALTIES):
                beta = solve_ridge(system, penalty, penalty_matrix_of(basis))
                model = TiltedDensity(basis, beta, base, identity, 0.0)
                flat = TiltedDensity(basis, np.zeros(12), base, identity, 0.0)
                loss = model.score_matching_losses(left) - flat.score_matching_losses(left)
                # The path's reduction and the Cholesky factor differ by rounding over 1e-3.
                assert surface.fold_losses[k, s, p] == pytest.approx(
                    loss.mean(), rel=1e-6, abs=1e-8
                )
                exact = QuadratureNormalizer().estimate(model, generator).log_normalizer
                gain = model.tilt(left).mean() - exact
                # The mean error over folds stands for each fold's own: five of them.
                error = 5 * surface.gain_errors[s, p] + 1e-6
                assert abs(surface.fold_gains[k, s, p] - gain) < error
    shares = np.bincount(folds) / len(folds)
    np.testing.assert_allclose(surface.losses, np.tensordot(shares, surface.fold_losses, 1))


def surface_of(losses, gains, spread=0.001):
    """A surface of one noise scale and three folds that agree up to `spread`."""
    losses, gains = np.array([losses]), np.array([gains])
    wiggle = spread * np.array([-1.0, 0.0, 1.0])[:, None, None] * np.arange(gains.size)
    return LossSurface(
        noise_scales=np.array([0.1]),
        penalties=10.0 ** -np.arange(gains.size),
        losses=losses,
        gains=gains,
        gain_errors=np.full_like(gains, 0.002),
        fold_losses=np.stack([losses] * 3),
        fold_gains=gains + wiggle,
    )


@pytest.mark.parametrize(
    ("losses", "gains", "criterion", "penalty"),
    [
        # Likelihood's veto: the lowest loss belongs to a setting far below the base.
        ([-1.0, -2.0, -50.0], [0.10, 0.30, -700.0], "score_matching", 0.1),
        # Settings within the paired error of the best, 0.001/√3 here, are left to the criterion.
        ([-1.0, -2.0, -3.0], [0.10, 0.30, 0.2996], "score_matching", 0.01),
        ([-1.0, -2.0, -3.0], [0.10, 0.30, 0.2996], "likelihood", 0.1),
        ([-1.0, -2.0, -3.0], [0.10, 0.30, 0.2990], "score_matching", 0.1),
        # The base itself, where either figure prefers it.
        ([0.5, 0.1, 0.2], [0.1, 0.2, 0.3], "score_matching", np.inf),
        ([-1.0, -2.0, -3.0], [-0.1, -0.2, -0.3], "likelihood", np.inf),
        # Below the base, within the error of log Z and beyond it.
        ([-1.0, 1.0, 1.0], [-0.001, -0.2, -0.3], "score_matching", 1.0),
        ([-1.0, 1.0, 1.0], [-0.003, -0.2, -0.3], "score_matching", np.inf),
    ],
)
def test_the_choice(losses, gains, criterion, penalty):
    assert choose(surface_of(losses, gains), criterion).penalty == penalty
