"""How far Fourier features can be from the exact solution, and noise from the truth.

**Theorem 1 of the paper** bounds E(f_m − f)², the distance of the solution with m random Fourier
features (random phases, independent draws) from the exact one, both with penalty λ on the same n
rows. Let ζ = Σ_a Δ|_{x_a} + ∇log q0(x_a)·∇|_{x_a}, K the Gram matrix of all ∂_i k(x_a, ·),
b_ai = ∂_i ζk(x_a) and v = (K + nλI)⁻¹b. With one feature φ = √2 cos(w·x + b) and ∂φ its gradient at
all rows, D₁ and D₂ are means over frequencies. As printed, with ε = √(8 log(m/δ)/3n),

    (2/λ²n²m²) [ m vᵀKv + m ζζk + (1 + εm)(E|∂φ|²(∂φ·v)² + E|∂φ|²(ζφ)²) ].

Its proof has slips that can make it too small: a sum of four squares takes a factor 4, not 2;
|φ|² ≤ 2, not 1; and ‖∂Φᵀ(∂Φ∂Φᵀ + nλ)⁻¹‖² ≤ 1/4nλ takes the place of (1/m + ε). (The trace and the
product in D₂ are also printed the wrong way round.) What the same four terms do prove, in
expectation and with no ε or δ, is

    (4/λ²n²m) [ 2 vᵀKv + 2 ζζk + (1/2nλ)(E|∂φ|²(∂φ·v)² + E|∂φ|²(ζφ)²) ].

**The Wasserstein bound** W(p₀, p) ≤ √E|ε|² + C √J(p₀ ∗ p_ε ‖ p ∗ p_ε) weighs what the noise costs
against what it makes easier; its constant is not known, its two terms are computed here.

| symbol | name         | shape  |
|--------|--------------|--------|
| K      | gram         | (nd, nd) |
| b      | coupling     | (nd,)  |
| v      | solution     | (n, d) |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from kexpfam.base import draw_defensively
from kexpfam.choices import checked_name, positive_number, resolve, seeded, whole
from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.features import SPECTRA, SectionBasis, Spectrum
from kexpfam.features.sections import all_functions
from kexpfam.precision import compiled

__all__ = ["FourierBound", "WassersteinTerms", "fourier_error_bound", "wasserstein_terms"]


class FourierBound(NamedTuple):
    """What `fourier_error_bound` gives.

    Attributes
    ----------
    bound : float
        On the mean squared difference to the exact solution.
    terms : ndarray of shape (4,)
        Its four terms.
    """

    bound: float
    terms: Float[np.ndarray, " four"]


class WassersteinTerms(NamedTuple):
    """What `wasserstein_terms` gives: the two terms of the bound.

    Attributes
    ----------
    noise : float
        √E|ε|².
    fisher : float
        √J.
    """

    noise: float
    fisher: float


def fourier_error_bound(
    X: Any,
    n_components: int,
    *,
    penalty: float,
    length_scale: Any = 1.0,
    kernel: Any = "rbf",
    base_gradient: Any = None,
    form: str = "proved",
    failure_probability: float = 0.05,
    n_draws: int = 4096,
    random_state: Any = None,
) -> FourierBound:
    """Theorem 1: a bound on E(f_m − f)² for m independent random-phase Fourier features.

    Parameters
    ----------
    X : array or data frame of shape (n_samples, n_features)
        The rows of the fit. An (nd, nd) system is solved: some hundreds of rows.
    n_components : int
        m.
    penalty : float
        λ.
    length_scale : float or array of shape (n_features,), default=1.0
    kernel : {"rbf", "matern", "rational_quadratic"} or object, default="rbf"
    base_gradient : array of shape (n_samples, n_features), optional
        ∇log q0 at the rows; none for a flat base density.
    form : {"proved", "paper"}, default="proved"
        With the constants that the proof yields, or as printed in the paper.
    failure_probability : float, default=0.05
        δ of the paper's form.
    n_draws : int, default=4096
        Frequencies for the means D₁ and D₂.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    FourierBound
        The bound, and the four terms that it is the sum of.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam.bounds import fourier_error_bound
    >>> X = np.random.default_rng(0).standard_normal((20, 2))
    >>> few, many = (
    ...     fourier_error_bound(X, m, penalty=0.1, random_state=0).bound for m in (100, 400)
    ... )
    >>> round(few / many, 6)
    4.0
    """
    checked_name("form", form, ("proved", "paper"))
    penalty = positive_number("penalty", penalty)
    n_components = whole("n_components", n_components)
    refuse_what_is_no_table(X)
    rows = check_array(X, dtype=np.float64, input_name="X")
    n_rows, n_columns = rows.shape
    slopes = np.zeros_like(rows) if base_gradient is None else np.asarray(base_gradient, float)
    scales = np.broadcast_to(np.asarray(length_scale, float), (n_columns,)).copy()
    spectrum: Spectrum = resolve("kernel", kernel, SPECTRA)
    gram, coupling, energy = _kernel_terms(rows, slopes, scales, spectrum)
    factor = cho_factor(gram + n_rows * penalty * np.eye(len(gram)))
    solution = cho_solve(factor, coupling)
    generator = seeded(random_state)
    first, second = _frequency_means(
        rows, slopes, scales, spectrum, solution.reshape(rows.shape), n_draws, generator
    )
    terms = np.array([solution @ gram @ solution, energy, first, second])
    if form == "paper":
        spread = np.sqrt(8 * np.log(n_components / failure_probability) / (3 * n_rows))
        factors = 2 / n_components * np.array([1, 1, *[1 / n_components + spread] * 2])
    else:
        factors = 4 / n_components * np.array([2, 2, *[1 / (2 * n_rows * penalty)] * 2])
    terms = terms * factors / (penalty * n_rows) ** 2
    return FourierBound(float(terms.sum()), terms)


@compiled
def _gram_of(basis: Any) -> Any:
    return basis.penalty_matrix(), basis.norms()


def _kernel_terms(
    rows: Float[np.ndarray, "n d"],
    slopes: Float[np.ndarray, "n d"],
    scales: Float[np.ndarray, " d"],
    spectrum: Spectrum,
) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, " k"], float]:
    """K, b and ζζk, from the Gram matrix of all first derivatives and Laplacians."""
    n_rows, n_columns = rows.shape
    functionals = ("gradient", "laplacian")
    chosen = all_functions(n_rows, functionals, n_columns)
    matrix, norms = _gram_of(SectionBasis(rows, scales, chosen, spectrum, functionals))
    full = matrix * np.outer(np.tile(norms, n_rows), np.tile(norms, n_rows))
    derivatives = np.arange(len(full)) % (n_columns + 1) < n_columns
    functional = np.column_stack([slopes, np.ones(n_rows)]).ravel()
    applied = full @ functional
    return full[np.ix_(derivatives, derivatives)], applied[derivatives], float(functional @ applied)


def _frequency_means(
    rows: Float[np.ndarray, "n d"],
    slopes: Float[np.ndarray, "n d"],
    scales: Float[np.ndarray, " d"],
    spectrum: Spectrum,
    solution: Float[np.ndarray, "n d"],
    n_draws: int,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """E|∂φ|²(∂φ·v)² and E|∂φ|²(ζφ)² by Monte-Carlo over frequencies and phases."""
    normals = generator.standard_normal((n_draws, rows.shape[1]))
    multipliers = spectrum.multipliers(generator.uniform(size=n_draws))
    frequencies = normals * multipliers[:, None] / scales
    angles = frequencies @ rows.T + generator.uniform(0, 2 * np.pi, (n_draws, 1))
    cosines, sines = np.sqrt(2) * np.cos(angles), np.sqrt(2) * np.sin(angles)
    squares = (frequencies**2).sum(axis=1)
    sizes = squares * (sines**2).sum(axis=1)
    along = (sines * (frequencies @ solution.T)).sum(axis=1)
    applied = squares * cosines.sum(axis=1) + (sines * (frequencies @ slopes.T)).sum(axis=1)
    return float((sizes * along**2).mean()), float((sizes * applied**2).mean())


def wasserstein_terms(
    model: Any,
    X: Any,
    *,
    noise_scale: float | None = None,
    n_draws: int = 4096,
    random_state: Any = None,
) -> WassersteinTerms:
    """The two terms of the bound on W(p₀, p), in standardized units, for Gaussian noise.

    √E|ε|² = σ√d, and √J between data and model, both with the noise added: their scores are
    means over the rows and over weighted draws of the base density.

    Parameters
    ----------
    model : KernelExponentialFamily
        Fitted.
    X : array or data frame of shape (n_samples, n_features)
        Rows that stand for the truth; best ones that were not fitted.
    noise_scale : float, optional
        σ, in standardized units; the model's own by default.
    n_draws : int, default=4096
        Draws of the base density, and of noisy rows.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    WassersteinTerms
        The noise's term and that of the Fisher divergence.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily
    >>> from kexpfam.bounds import wasserstein_terms
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("banana").sample(200, random_state=0)
    >>> settings = {"penalty": 1e-3, "noise_scale": 0.1, "length_scale": 1.0}
    >>> model = KernelExponentialFamily(n_components=32, random_state=0, **settings).fit(X)
    >>> round(wasserstein_terms(model, X, random_state=0).noise, 4)
    0.1414
    """
    check_is_fitted(model)
    if not hasattr(model, "noise_scale_"):
        raise TypeError(
            "model must be a fitted KernelExponentialFamily, which has one noise scale; got an "
            f"object of type {type(model).__name__}."
        )
    refuse_what_is_no_table(X)
    rows = model.density_.standardizer.forward(check_array(X, dtype=np.float64, input_name="X"))
    scale = model.noise_scale_ if noise_scale is None else noise_scale
    if not scale > 0:
        raise ValueError(
            f"The Wasserstein bound needs noise: noise_scale > 0; got {scale}. Give one, or fit "
            "with noise."
        )
    generator = seeded(random_state)
    draws = draw_defensively(model.density_.base, n_draws, generator)
    tilts = model.density_.tilt(draws.rows) + draws.log_proportions
    noisy = rows[generator.integers(len(rows), size=n_draws)]
    noisy = noisy + scale * generator.standard_normal(noisy.shape)
    difference = _smoothed_score(noisy, rows, np.zeros(len(rows)), scale)
    difference -= _smoothed_score(noisy, draws.rows, tilts, scale)
    divergence = (difference**2).sum(axis=1).mean() / 2
    return WassersteinTerms(float(scale * np.sqrt(rows.shape[1])), float(np.sqrt(divergence)))


def _smoothed_score(
    points: Float[np.ndarray, "k d"],
    centers: Float[np.ndarray, "n d"],
    log_weights: Float[np.ndarray, " n"],
    scale: float,
) -> Float[np.ndarray, "k d"]:
    """∇log of a weighted mixture of Gaussians of width `scale` at the centers."""
    pieces = []
    for piece in np.array_split(points, max(1, len(points) * len(centers) // 2**22)):
        squares = ((piece[:, None] - centers) ** 2).sum(axis=2)
        logs = log_weights - squares / (2 * scale**2)
        shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        pieces.append((shares @ centers - piece) / scale**2)
    return np.concatenate(pieces)
