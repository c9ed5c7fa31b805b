"""The exact solution against the representer theorem's own formula, and others against it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from tests.conftest import make_sketch, moment_source

from kexpfam import (
    ExactFeatures,
    FourierFeatures,
    KernelExponentialFamily,
    Matern,
    NystromFeatures,
    RationalQuadratic,
)
from kexpfam.base import BoxDensity, MixtureBase
from kexpfam.bounds import fourier_error_bound, wasserstein_terms
from kexpfam.data.standardize import Standardizer
from kexpfam.features import SectionBasis
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import TiltedDensity
from kexpfam.moments import total_moments
from kexpfam.noise import NoNoise
from kexpfam.precision import compiled
from kexpfam.solve import penalty_matrix_of, solve_ridge, system_at

SCALES, PENALTY = np.array([0.9, 1.3]), 0.01


def solved(basis, rows, weights, base, penalty=PENALTY):
    """f of a basis fitted without noise, as a function of rows."""
    source = moment_source(basis, NoNoise(), rows, weights, base)
    system = system_at(basis, total_moments(source.at(0.0).values()), NoNoise(), 0.0)
    coefficients = solve_ridge(system, penalty, penalty_matrix_of(basis))
    unit = Standardizer(np.zeros(2), np.ones(2))
    return TiltedDensity(basis, coefficients, base, unit, 0.0).tilt


def family_solved(family, rows, base, count=10, spectrum=None, seed=0, penalty=PENALTY):
    basis = family.build(
        count, make_sketch(rows), spectrum or RadialBasis(), np.random.default_rng(seed)
    )
    return solved(basis.rescaled(SCALES), rows, np.ones(len(rows)), base, penalty)


def represented(kernel, rows, weights, slopes, points):
    """f = −ξ̂/λ + Σ α_ai ∂_ik(x_a, ·), α = (K + λW⁻¹)⁻¹ ∂ξ̂ / λ with W the weights' shares.

    Everything from the kernel by autodiff; for equal weights this is the formula of
    Sriperumbudur et al. with (K + nλI).
    """
    shares = weights / weights.sum()

    def functional(function, x, slope):
        return jnp.trace(jax.hessian(function)(x)) + slope @ jax.grad(function)(x)

    def gram(x, y):
        return jax.jacfwd(jax.grad(kernel), argnums=1)(x, y)

    @compiled
    def parts(rows, slopes, points):
        def xi(y):
            each = jax.vmap(lambda x, s: functional(lambda z: kernel(z, y), x, s))(rows, slopes)
            return shares @ each

        pairs = jax.vmap(lambda x: jax.vmap(lambda y: gram(x, y))(rows))(rows)
        sections = jax.vmap(lambda y: jax.vmap(lambda x: jax.grad(kernel)(x, y))(rows))(points)
        return pairs, jax.vmap(jax.grad(xi))(rows), sections, jax.vmap(xi)(points)

    pairs, coupling, sections, means = parts(rows, slopes, points)
    matrix = pairs.transpose(0, 2, 1, 3).reshape(rows.size, rows.size)
    ridge = PENALTY * np.diag(1 / np.repeat(shares, rows.shape[1]))
    alpha = np.linalg.solve(matrix + ridge, coupling.ravel()) / PENALTY
    return sections.reshape(len(points), -1) @ alpha - means / PENALTY


def radial(x, y):
    return jnp.exp(-(((x - y) / SCALES) ** 2).sum() / 2)


def rational(x, y):
    return (1 + (((x - y) / SCALES) ** 2).sum() / 4) ** -2.0


@pytest.mark.parametrize(
    ("spectrum", "kernel"),
    [(RadialBasis(), radial), (RationalQuadratic(2.0), rational)],
    ids=["rbf", "rational"],
)
def test_the_exact_basis_gives_the_representer_theorems_solution(
    spectrum, kernel, two_clusters, generator
):
    base = MixtureBase(n_components=2).fit(make_sketch(two_clusters), generator)
    rows, weights = two_clusters[::15], generator.integers(1, 4, 20).astype(float)
    basis = ExactFeatures().build(0, make_sketch(rows), spectrum, generator).rescaled(SCALES)
    points = generator.standard_normal((30, 2))
    found = solved(basis, rows, weights, base)(points)
    expected = represented(kernel, rows, weights, base.gradient(rows), points)
    # The Gram matrix is regularized by 1e-9; functions that small change f by about its root.
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_held_out_rows_do_not_reach_into_the_exact_solution(
    base_with_affine_score, two_clusters, generator
):
    """A basis of all rows, fitted to some of them, gives those rows' own exact solution."""
    base = base_with_affine_score
    rows, points = two_clusters[::15], generator.standard_normal((30, 2))
    basis = ExactFeatures().build(0, make_sketch(rows), RadialBasis(), generator).rescaled(SCALES)
    found = solved(basis, rows[:12], np.ones(12), base)(points)
    expected = represented(radial, rows[:12], np.ones(12), base.gradient(rows[:12]), points)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_nystrom_with_all_points_components_and_the_mean_functions_is_exact(
    base_with_affine_score, two_clusters
):
    base = base_with_affine_score
    rows = two_clusters[::10]
    exact = family_solved(ExactFeatures(), rows, base)
    functionals = ("gradient", "laplacian", "value")  # one more function changes nothing
    basis = SectionBasis(rows, SCALES, np.arange(4 * len(rows)), RadialBasis(), functionals)
    both = solved(basis, rows, np.ones(len(rows)), base)
    size = np.abs(exact(rows)).max()
    np.testing.assert_allclose(both(rows), exact(rows), atol=1e-4 * size)


def test_nystrom_approaches_the_exact_solution_as_it_grows(base_with_affine_score, two_clusters):
    """Derivatives at ever more points; at all of them only ξ̂ is left out, whose part is small."""
    base = base_with_affine_score
    rows = two_clusters[::5]
    exact = family_solved(ExactFeatures(), rows, base)
    slopes = exact(rows) - exact(rows).mean()

    def error(count):
        found = family_solved(NystromFeatures(functions="derivatives"), rows, base, count)(rows)
        return np.sqrt(np.mean((found - found.mean() - slopes) ** 2)) / slopes.std()

    errors = [error(count) for count in (6, 30, 2 * len(rows))]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.02


def test_fourier_features_approach_the_exact_solution_at_the_monte_carlo_rate(
    base_with_affine_score, two_clusters
):
    base = base_with_affine_score
    rows, points = two_clusters[::10], two_clusters[1::10]
    # A penalty of one keeps both solutions in the regime where they differ by sampling alone.
    exact = family_solved(ExactFeatures(), rows, base, penalty=1.0)(points)

    def error(count):
        squares = [
            np.mean((found(points) - exact) ** 2)
            for found in (
                family_solved(
                    FourierFeatures("independent"), rows, base, count, seed=seed, penalty=1.0
                )
                for seed in range(8)
            )
        ]
        return np.sqrt(np.mean(squares))

    counts = [32, 128, 512]
    slope = np.polyfit(np.log(counts), np.log([error(count) for count in counts]), 1)[0]
    # Eight draws each: errors good to 15 %, the slope over a factor of 16 to 0.08.
    assert slope == pytest.approx(-0.5, abs=0.15)


def test_the_proved_bound_holds_and_falls_with_the_number_of_features(two_clusters, generator):
    rows, points = two_clusters[::15], generator.permutation(two_clusters)[:100]
    flat = BoxDensity(np.full(2, -99.0), np.full(2, 99.0))
    ratios = []
    for penalty in (1.0, 20.0):
        exact = family_solved(ExactFeatures(), rows, flat, penalty=penalty)(points)
        family = FourierFeatures("independent", "random")
        squares = [
            np.mean(
                (family_solved(family, rows, flat, 16, seed=seed, penalty=penalty)(points) - exact)
                ** 2
            )
            for seed in range(12)
        ]
        options = {"penalty": penalty, "length_scale": SCALES, "random_state": 0}
        few, many = (fourier_error_bound(rows, count, **options).bound for count in (16, 64))
        assert few == pytest.approx(4 * many)
        ratios.append(few / np.mean(squares))
    # The proof gives away a factor 4 to a sum of squares and 2 to |φ|² ≤ 2: all that is left
    # with a large penalty. Twelve draws know the mean to 20 %, and |φ|² is 1 only on average.
    assert 4 < ratios[1] < 16
    assert ratios[0] > ratios[1]


def test_the_bounds_kernel_terms_against_fourier_means(two_clusters):
    """K, b and ζζk are means over frequencies of the features' own products."""
    rows = two_clusters[::40]
    found = fourier_error_bound(rows, 1, penalty=1e6, n_draws=10)  # v → b/(nλ): K hardly matters
    generator = np.random.default_rng(0)
    frequencies = generator.standard_normal((200_000, 2))
    squares = (frequencies**2).sum(axis=1)
    angles = frequencies @ rows.T
    energies = squares**2 * (np.cos(angles).sum(axis=1) ** 2 + np.sin(angles).sum(axis=1) ** 2)
    energy = found.terms[1] * (1e6 * len(rows)) ** 2 / 8
    error = energies.std() / np.sqrt(len(energies))
    assert energy == pytest.approx(energies.mean(), abs=4 * error)


def test_bad_input_to_the_bounds(two_clusters):
    with pytest.raises(ValueError, match="'proved' or 'paper'"):
        fourier_error_bound(two_clusters[:5], 10, penalty=1.0, form="hoped")
    with pytest.raises(ValueError, match="penalty must be a positive number"):
        fourier_error_bound(two_clusters[:5], 10, penalty=0.0)


def test_the_papers_form_has_its_own_constants(two_clusters):
    bounds = [
        fourier_error_bound(two_clusters[::30], 50, penalty=0.1, form=form, random_state=0)
        for form in ("proved", "paper")
    ]
    assert bounds[0].terms[0] == pytest.approx(4 * bounds[1].terms[0])


def test_the_wasserstein_terms_of_a_gaussian_are_known(generator):
    """Truth N(0, I), model N(0, I·(1.5²)) with β = 0: smoothed, both have linear scores."""
    rows = generator.standard_normal((3000, 2))

    class Wide:
        def log_density(self, X):
            return -(X**2).sum(axis=1) / 4.5 - np.log(2 * np.pi * 2.25)

        def gradient(self, X):
            return -X / 2.25

        def sample(self, n, g):
            return 1.5 * g.standard_normal((n, 2))

    model = KernelExponentialFamily(
        n_components=4,
        base=Wide(),
        penalty=1e9,
        noise_scale=0.5,
        length_scale=1.0,
        standardize=False,
        gate=False,
        random_state=0,
    ).fit(rows)
    noise, fisher = wasserstein_terms(model, rows, random_state=0)
    assert noise == pytest.approx(0.5 * np.sqrt(2))
    # E|y/1.25 − y/2.5|²/2 with y ~ N(0, 1.25 I); 3000 smoothed rows are good to some per cent.
    expected = np.sqrt((1 / 1.25 - 1 / 2.5) ** 2 * 2 * 1.25 / 2)
    assert fisher == pytest.approx(expected, rel=0.1)
    with pytest.raises(ValueError, match="noise_scale > 0"):
        wasserstein_terms(model, rows, noise_scale=0.0)


@pytest.mark.parametrize("nu", [2.5, 3.5, 4.5])
def test_matern_profiles_against_bessel_functions(nu):
    distances = np.linspace(1e-3, 5, 50)
    z = np.sqrt(2 * nu) * distances
    expected = 2 ** (1 - nu) / special.gamma(nu) * z**nu * special.kv(nu, z)
    profile = compiled(Matern(nu).profile)
    np.testing.assert_allclose(profile(distances**2), expected, rtol=1e-12)
    np.testing.assert_allclose(profile(np.zeros(1)), 1.0)


@pytest.mark.parametrize("spectrum", [RadialBasis(), Matern(3.5), RationalQuadratic(2.0)], ids=str)
def test_profiles_are_the_kernels_whose_spectra_are_drawn(spectrum, generator):
    frequencies = generator.standard_normal((100_000, 2))
    frequencies *= spectrum.multipliers(generator.uniform(size=100_000))[:, None]
    lag = np.array([0.6, -0.9])
    cosines = np.cos(frequencies @ lag)
    kernel = compiled(spectrum.profile)(np.array([lag @ lag]))[0]
    assert kernel == pytest.approx(cosines.mean(), abs=4 * cosines.std() / np.sqrt(100_000))


def test_too_large_an_exact_problem_is_refused_with_what_it_would_need(generator):
    rows = generator.standard_normal((2001, 2))
    with pytest.raises(ValueError, match=r"6003 functions .* about 3\.5 GB .*up to 2000"):
        KernelExponentialFamily(basis="exact").fit(rows)
