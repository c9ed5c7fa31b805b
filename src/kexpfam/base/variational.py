"""A variational Bayesian mixture of Gaussians, with its iterations as matrix products.

The updates are those of scikit-learn's `BayesianGaussianMixture` with a Dirichlet process prior
(Blei and Jordan 2006; Bishop 2006, chapter 10), from the same clusters of k-means on. With
responsibilities r, N_k = Σ r_k, weighted means x̄_k and covariances S_k,

    a_k = 1 + N_k      b_k = 1/K + Σ_{j>k} N_j      κ_k = 1 + N_k      ν_k = d + N_k
    μ_k = (x̄ + N_k x̄_k) / κ_k
    Σ_k = [Σ + N_k S_k + N_k/κ_k (x̄_k − x̄)(x̄_k − x̄)ᵀ] / ν_k

where x̄ and Σ are mean and covariance of all rows. What each iteration needs of a row are its
monomials 1, x_i, x_i x_j: log responsibilities are one product with them, and sums over rows
another.

| symbol | name         | shape     |
|--------|--------------|-----------|
| r_k    | shares       | (n, k)    |
| N_k    | counts       | (k,)      |
| a, b   | heads, tails | (k,)      |
| μ_k    | means        | (k, d)    |
| Σ_k    | covariances  | (k, d, d) |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaln, digamma, gammaln

from kexpfam.base.mixture import GaussianMixtureDensity, Polynomials
from kexpfam.symmetric import form_coefficients, half_places
from kexpfam.threads import one_blas_thread

__all__ = ["fit_variational"]

_MOST_ITERATIONS, _TOLERANCE = 500, 1e-3
# Rows whose monomials are made together; of no more rows they are made once for all.
_BLOCK = 2048


class _Sums(NamedTuple):
    """Sums of shares times monomials, and of −r log r."""

    monomials: Float[np.ndarray, "k p"]
    entropy: float


class _State(NamedTuple):
    """What an iteration finds."""

    heads: Float[np.ndarray, " k"]
    tails: Float[np.ndarray, " k"]
    precisions_of_means: Float[np.ndarray, " k"]
    degrees: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    covariances: Float[np.ndarray, "k d d"]
    log_determinants: Float[np.ndarray, " k"]


class _Prior(NamedTuple):
    """In coordinates around the mean of all rows."""

    covariance: Float[np.ndarray, "d d"]
    regularization: float


def fit_variational(
    rows: Float[np.ndarray, "n d"],
    labels: Int[np.ndarray, " n"],
    n_components: int,
    covariance: Float[np.ndarray, "d d"],
    regularization: float,
) -> GaussianMixtureDensity:
    """A mixture that begins with clusters of rows; components it empties have hardly any weight.

    `covariance` is the prior's; `regularization` is added to the variances within components. It
    raises a ValueError if a component collapses.
    """
    center = rows.mean(axis=0)
    prior, n_columns = _Prior(covariance, regularization), rows.shape[1]
    blocks = _blocks(rows - center)
    # Products of few columns: threads of BLAS wait for each other, many times as long where
    # other processes want the cores, too.
    with one_blas_thread():
        clusters = np.eye(n_components)[labels]
        starts = range(0, len(rows), _BLOCK)
        pieces = [clusters[start : start + _BLOCK] for start in starts]
        monomials = sum(piece.T @ block for piece, block in zip(pieces, blocks(), strict=True))
        state, bound = _maximized(np.asarray(monomials), n_columns, prior), -np.inf
        for _ in range(_MOST_ITERATIONS):
            sums = _expected(state, blocks())
            state, before = _maximized(sums.monomials, n_columns, prior), bound
            bound = sums.entropy + _bound(state)
            if abs(bound - before) < _TOLERANCE:
                break
    return GaussianMixtureDensity(_weights(state), state.means + center, state.covariances)


def _blocks(
    rows: Float[np.ndarray, "n d"],
) -> Callable[[], Iterable[Float[np.ndarray, "b p"]]]:
    """Makes 1, x_i and x_i x_j (i ≤ j) of some rows after the other."""

    def monomials(start: int) -> np.ndarray:
        some = rows[start : start + _BLOCK]
        columns = [some[:, i : i + 1] * some[:, i:] for i in range(some.shape[1])]
        return np.concatenate([np.ones((len(some), 1)), some, *columns], axis=1)

    starts = range(0, len(rows), _BLOCK)
    if len(starts) == 1:
        kept = [monomials(0)]
        return lambda: kept
    return lambda: map(monomials, starts)


def _expected(state: _State, blocks: Iterable[np.ndarray]) -> _Sums:
    """Shares of the components in all rows, summed up."""
    n_columns = state.means.shape[1]
    parts = Polynomials.of(
        _log_weights(state) + _expected_log_determinants(state) / 2,
        state.means,
        np.linalg.inv(state.covariances),
        state.log_determinants,
    )
    forms = form_coefficients(parts.halves, n_columns)
    table = np.concatenate([parts.constants[:, None], parts.pulls, -forms / 2], axis=1)
    sums, entropy = np.zeros(table.shape), 0.0
    for monomials in blocks:
        # A line for each component: few numbers are added up faster across lines than along them.
        logs = table @ monomials.T
        logs -= logs.max(axis=0)
        shares = np.exp(logs)
        totals = shares.sum(axis=0)
        shares /= totals
        sums += shares @ monomials
        # Shares of nothing have a logarithm of −∞ at the worst, and add nothing.
        entropy += float(np.log(totals).sum() - np.vdot(shares, np.maximum(logs, -1e300)))
    return _Sums(sums, entropy)


def _expected_log_determinants(state: _State) -> Float[np.ndarray, " k"]:
    """E log |P_k| − log |Σ_k⁻¹| − d/κ_k under the posterior."""
    n_columns = state.means.shape[1]
    halves = (state.degrees - np.arange(n_columns)[:, None]) / 2
    spread = n_columns * np.log(2 / state.degrees) + digamma(halves).sum(axis=0)
    return spread - n_columns / state.precisions_of_means


def _log_weights(state: _State) -> Float[np.ndarray, " k"]:
    """E log π_k of a stick that is broken again and again."""
    whole = digamma(state.heads + state.tails)
    rest = np.cumsum(digamma(state.tails) - whole)[:-1]
    return digamma(state.heads) - whole + np.concatenate([[0.0], rest])


def _weights(state: _State) -> Float[np.ndarray, " k"]:
    taken = state.heads / (state.heads + state.tails)
    left = np.cumprod(1 - taken)[:-1]
    weights = taken * np.concatenate([[1.0], left])
    return weights / weights.sum()


def _maximized(sums: Float[np.ndarray, "k p"], n_columns: int, prior: _Prior) -> _State:
    """The posterior, from sums of shares times monomials."""
    counts = sums[:, 0] + 10 * np.finfo(float).eps
    own = sums[:, 1 : n_columns + 1] / counts[:, None]
    seconds = (sums[:, n_columns + 1 :] / counts[:, None])[:, half_places(n_columns)]
    outer = own[:, :, None] * own[:, None, :]
    within = seconds - outer + prior.regularization * np.eye(n_columns)
    stiffness, degrees = 1 + counts, n_columns + counts
    scatter = counts[:, None, None] * (within + outer / stiffness[:, None, None])
    covariances = (prior.covariance + scatter) / degrees[:, None, None]
    try:
        roots = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        raise ValueError("A component has collapsed.") from error
    after = np.append(np.cumsum(counts[::-1])[-2::-1], 0.0)
    return _State(
        1 + counts,
        1 / len(counts) + after,
        stiffness,
        degrees,
        counts[:, None] * own / stiffness[:, None],
        covariances,
        -2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1),
    )


def _bound(state: _State) -> float:
    """The evidence's lower bound without the entropy of the shares, up to a constant."""
    n_columns = state.means.shape[1]
    degrees = state.degrees
    halves = (degrees - np.arange(n_columns)[:, None]) / 2
    log_roots = (state.log_determinants - n_columns * np.log(degrees)) / 2
    wishart = degrees * (log_roots + n_columns * np.log(2.0) / 2) + gammaln(halves).sum(axis=0)
    sticks = betaln(state.heads, state.tails)
    return float((wishart + sticks - n_columns / 2 * np.log(state.precisions_of_means)).sum())
