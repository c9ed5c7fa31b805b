"""One contract for every system: basis and noise behind the same small interfaces."""

from __future__ import annotations

import warnings
from dataclasses import replace

import jax
import numpy as np
import pytest
from tests.conftest import make_sketch, moment_source

from kexpfam import (
    ArcCosineFeatures,
    ExactFeatures,
    FourierFeatures,
    GridFeatures,
    KernelExponentialFamily,
    Matern,
    MonteCarloNoise,
    NormalizerWarning,
    NystromFeatures,
    RationalQuadratic,
    TaylorNoise,
    Tuning,
)
from kexpfam.base import MixtureBase
from kexpfam.data.blocks import make_block
from kexpfam.features import FEATURES, Basis
from kexpfam.features.at_rows import features_at
from kexpfam.features.spectra import RadialBasis
from kexpfam.moments import add_moments, block_moments, total_moments
from kexpfam.noise import AutomaticNoise, GaussianNoise, NoNoise
from kexpfam.precision import compiled
from kexpfam.solve import penalty_matrix_of, system_at

FAMILIES = {
    "fourier": (FourierFeatures(), RadialBasis()),
    "fourier, random phases": (FourierFeatures(phases="random"), RadialBasis()),
    "nystrom": (NystromFeatures(), RadialBasis()),
    "nystrom, matern": (NystromFeatures(), Matern(2.5)),
    "nystrom derivatives": (NystromFeatures(functions="derivatives"), RadialBasis()),
    "nystrom derivatives, matern": (NystromFeatures(functions="derivatives"), Matern(3.5)),
    "nystrom derivatives, some": (
        NystromFeatures("kmeans++", "derivatives", components_per_point=1),
        RationalQuadratic(2.0),
    ),
    "exact": (ExactFeatures(), RadialBasis()),
    "exact, matern": (ExactFeatures(), Matern(2.5)),
    "grid": (GridFeatures(), RadialBasis()),
    "arc-cosine": (ArcCosineFeatures(), RadialBasis()),
    "arc-cosine, paper": (ArcCosineFeatures(bias=0.0, smoothing="paper"), RadialBasis()),
    "arc-cosine, cubes": (ArcCosineFeatures(degree=3), RadialBasis()),
}
NOISE = GaussianNoise(np.array([1.0, 0.5]))
SCALES = np.array([0.9, 1.2])


@pytest.fixture(params=FAMILIES)
def unit_basis(request, two_clusters, generator):
    family, spectrum = FAMILIES[request.param]
    return family.build(8, make_sketch(two_clusters[::30]), spectrum, generator)


@pytest.fixture
def noise(unit_basis):
    return NOISE if unit_basis.averages(NOISE) else NoNoise()


@pytest.fixture
def mixture(two_clusters, generator):
    return MixtureBase(n_components=2).fit(make_sketch(two_clusters), generator)


METRIC = np.array([1.0, 2.0])


@compiled
def evaluated(basis, coefficients, rows):
    """Values, gradients and Laplacians: one program for all tests of a family."""
    return (
        basis.values(coefficients, rows),
        basis.gradient(coefficients, rows),
        basis.laplacian(coefficients, rows, METRIC),
    )


def test_every_name_stands_for_a_family_under_contract():
    assert {type(family) for family in FEATURES.values()} == {
        type(family) for family, _ in FAMILIES.values()
    }


def test_it_has_every_method(unit_basis, two_clusters):
    assert isinstance(unit_basis, Basis)
    features = features_at(unit_basis, two_clusters[:10])
    assert features.shape == (10, unit_basis.n_features)
    found = evaluated(unit_basis, np.eye(unit_basis.n_features)[-1], two_clusters[:10])[0]
    np.testing.assert_allclose(found, features[:, -1], atol=1e-12)
    assert unit_basis.n_derivatives >= 2


def test_gradient_and_laplacian_are_derivatives_of_the_values(unit_basis, two_clusters, generator):
    """By central differences; `tests/oracles` does it by differentiation."""
    basis, rows, step = unit_basis.rescaled(SCALES), two_clusters[1:11], 1e-4
    weights = generator.standard_normal(basis.n_features)
    _, gradient, laplacian = evaluated(basis, weights, rows)
    second = 0.0
    for column, (axis, share) in enumerate(zip(np.eye(2), METRIC, strict=True)):
        ahead, behind = (evaluated(basis, weights, rows + move * axis) for move in (step, -step))
        # The step's square times third derivatives; all are of size one to ten.
        np.testing.assert_allclose(
            gradient[:, column], (ahead[0] - behind[0]) / (2 * step), atol=1e-6
        )
        second = second + share * (ahead[1] - behind[1])[:, column] / (2 * step)
    np.testing.assert_allclose(laplacian, second, atol=1e-5)


def test_length_scales_stretch_the_rows(unit_basis, two_clusters, generator):
    """f of rows and centers stretched by the length-scales is f of unit length-scales."""
    weights = generator.standard_normal(unit_basis.n_features)
    # Δ of a stretched function is the stretched Δ only if all columns stretch alike.
    alike = "laplacian" in getattr(unit_basis, "functionals", ())
    scales = np.array([1.2, 1.2]) if alike else SCALES
    stretched = unit_basis.rescaled(scales)
    if hasattr(unit_basis, "points"):
        stretched = replace(stretched, points=unit_basis.points * scales)
    if hasattr(unit_basis, "spacing"):  # the lattice follows the rows' box
        stretched = replace(stretched, spacing=unit_basis.spacing / scales)
    rows = two_clusters[1:11]
    found = evaluated(stretched, weights, rows * scales)[0]
    np.testing.assert_allclose(found, evaluated(unit_basis, weights, rows)[0], atol=1e-11)


def test_sums_add_and_the_system_is_sound(unit_basis, noise, mixture, two_clusters):
    basis, covariance = unit_basis.rescaled(SCALES), noise.covariance_shape(2)
    halves = [
        make_block(rows, np.ones(len(rows)), mixture, covariance, 512)
        for rows in (two_clusters[:150], two_clusters[150:])
    ]
    whole = make_block(two_clusters, np.ones(300), mixture, covariance, 512)
    added = add_moments(*(block_moments(basis, half, noise, 0.3) for half in halves))
    together = block_moments(basis, whole, noise, 0.3)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), added, together)
    system = system_at(basis, together, noise, 0.3)
    np.testing.assert_allclose(system.quadratic, system.quadratic.T, atol=1e-13)
    assert np.linalg.eigvalsh(system.quadratic).min() > -1e-12


def test_a_source_gives_moments_for_every_noise_scale(unit_basis, noise, mixture, two_clusters):
    source = moment_source(unit_basis, noise, two_clusters, np.ones(300), mixture)
    direct = make_block(two_clusters, np.ones(300), mixture, noise.covariance_shape(2), 512)
    for scale in (0.0, 0.4):
        found = system_at(unit_basis, total_moments(source.at(scale).values()), noise, scale)
        moments = block_moments(unit_basis, direct, noise, scale)
        expected = system_at(unit_basis, moments, noise, scale)
        np.testing.assert_allclose(found.quadratic, expected.quadratic, atol=1e-12)


def test_the_penalty_is_positive_definite(unit_basis):
    matrix = penalty_matrix_of(unit_basis)
    assert matrix is None or np.linalg.eigvalsh(matrix).min() > 0


KERNEL_FAMILIES = [name for name in FAMILIES if name.startswith(("nystrom", "exact"))]


@pytest.mark.parametrize("name", KERNEL_FAMILIES)
def test_kernel_functions_are_penalized_by_their_gram_matrix(name, two_clusters, generator):
    """⟨D k(z, ·), f⟩ = Df(z): the Gram matrix by differences of the functions at the points.

    Each function is D k(z, ·) over its norm, so that line i of the matrix is D_i of all functions
    over D_i of the i-th.
    """
    family, spectrum = FAMILIES[name]
    unit_basis = family.build(8, make_sketch(two_clusters[::30]), spectrum, generator)
    basis = unit_basis.rescaled(SCALES)
    matrix, points = np.asarray(penalty_matrix_of(basis)), np.asarray(basis.points)
    step = 1e-3

    def functions(rows):
        values = [evaluated(basis, one, rows)[0] for one in np.eye(basis.n_features)]
        return np.transpose(values)

    kinds = {"value": [], "gradient": [], "laplacian": []}
    kinds["value"].append(functions(points))
    second = 0.0
    for axis in np.eye(2):
        ahead, behind = functions(points + step * axis), functions(points - step * axis)
        kinds["gradient"].append((ahead - behind) / (2 * step))
        second = second + (ahead + behind - 2 * kinds["value"][0]) / step**2
    kinds["laplacian"].append(second)
    chosen = getattr(basis, "functionals", ("value",))
    stacked = np.stack([part for kind in chosen for part in kinds[kind]], axis=1)
    lines = stacked.reshape(-1, basis.n_features)
    lines = lines[np.asarray(getattr(basis, "selected", np.arange(len(lines))))]
    expected = lines / np.diag(lines)[:, None]
    # Differences of a step of 1e-3: its square, and for Matérn kernels their kink.
    tolerance = 1e-5 if isinstance(spectrum, RadialBasis) else 5e-3
    np.testing.assert_allclose(matrix, expected, atol=tolerance)


def test_independent_functions_are_penalized_alike(unit_basis):
    matrix = penalty_matrix_of(unit_basis)
    assert (matrix is None) == (not hasattr(unit_basis, "points"))


def test_automatic_noise_is_one_the_basis_can_average(unit_basis):
    chosen = AutomaticNoise().checked_for(unit_basis)
    assert unit_basis.averages(chosen)
    assert isinstance(chosen, NoNoise) != unit_basis.averages(GaussianNoise())


# These compile much: of variants that differ by a kernel or a constant, one will do.
PLAIN = [name for name in FAMILIES if "," not in name]


@pytest.mark.parametrize("treatment", [MonteCarloNoise(NOISE, n_draws=3), TaylorNoise(NOISE)])
@pytest.mark.parametrize("unit_basis", PLAIN, indirect=True)
def test_noise_can_be_drawn_or_expanded_with_every_basis(
    treatment, unit_basis, mixture, two_clusters
):
    if isinstance(treatment, TaylorNoise) and unit_basis.n_derivatives < 4:
        with pytest.raises(ValueError, match="four derivatives"):
            treatment.checked_for(unit_basis)
        return
    assert treatment.checked_for(unit_basis) is treatment
    source = moment_source(unit_basis, treatment, two_clusters, np.ones(300), mixture)
    plain = moment_source(unit_basis, NoNoise(), two_clusters, np.ones(300), mixture)
    systems = [
        system_at(unit_basis, total_moments(source.at(scale).values()), treatment, scale)
        for scale in (0.0, 0.1)
    ]
    expected = system_at(unit_basis, total_moments(plain.at(0.0).values()), NoNoise(), 0.0)
    # Without noise both are plain score matching, to rounding on numbers of size one to a hundred.
    np.testing.assert_allclose(systems[0].quadratic, expected.quadratic, atol=1e-10)
    np.testing.assert_allclose(systems[0].linear, expected.linear, atol=1e-10)
    assert np.abs(systems[1].linear - expected.linear).max() > 1e-6
    assert np.isfinite(systems[1].quadratic).all()


@pytest.mark.parametrize("name", PLAIN)
def test_a_fit_is_tuned_and_has_a_lower_loss_than_its_base_density(name, two_clusters):
    family, kernel = FAMILIES[name]
    model = KernelExponentialFamily(
        basis=family,
        kernel=kernel,
        n_components=24,
        base="gaussian",
        penalty=1e-2,
        noise_scale=0.05,
        tuning=Tuning(n_steps=3, n_folds=0),
        gate=False,
        random_state=0,
    )
    rows = two_clusters[::3]
    with warnings.catch_warnings():
        # Cubes of a row outgrow any Gaussian tail; their score matching loss is still sound.
        warnings.simplefilter("ignore", NormalizerWarning)
        model.fit(rows)
    base = model.base_
    traces = np.trace(np.broadcast_to(base.hessian(rows), (len(rows), 2, 2)), axis1=1, axis2=2)
    untilted = (traces + (base.gradient(rows) ** 2).sum(axis=1) / 2).mean()
    assert model.score_matching_loss(rows) < untilted - 0.05
    assert len({record["length_scale"][0] for record in model.tuning_history_}) == 3
