"""The covariance of a Gaussian process over inputs, and the evidence of its parameters.

    k(x, x′) = a² g(|x − x′|²_ℓ) + 1 + c² x·x′ / d          |v|²_ℓ = Σ_j v_j² / ℓ_j²

A smooth part with a length-scale for each input, a constant and a straight plane. Inputs and
targets are standardized, so that the constant needs no parameter. With K = k(X, X) + diag(noise),
the evidence (log marginal likelihood) and its derivative in any parameter θ are

    L = −½ yᵀK⁻¹y − ½ log|K|          ∂L/∂θ = ½ tr((ααᵀ − K⁻¹) ∂K/∂θ),   α = K⁻¹y

(Rasmussen and Williams 2006, chapter 5). Derivatives in all length-scales at once are matrix
products: Σ_ik V_ik (x_ij − x_kj)² = 2 Σ_i V_i· x_ij² − 2 x_jᵀV x_j for symmetric V.

| symbol | name         | shape  |
|--------|--------------|--------|
| ℓ      | length_scale | (d,)   |
| a²     | smooth       |        |
| c²     | plane        |        |
| σ²     | noise        |        |
| ν      | relative     | (n,), the noise of each row in units of σ² |
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack
from scipy.optimize import minimize

__all__ = ["Covariance", "Kind", "evidence", "tune_covariance"]

Kind = Literal["rbf", "matern"]

# Log parameters stay in here; standardized inputs and targets need no more.
_LENGTH_LIMITS, _VARIANCE_LIMITS, _NOISE_LIMITS = (-3.0, 6.0), (-9.0, 6.0), (-14.0, 2.0)
# A weak pull of log length-scales towards log √d keeps those that the rows say nothing about.
_PULL = 1.0 / 8.0


class Covariance(NamedTuple):
    """k, and the variance of the noise."""

    kind: Kind
    length_scale: Float[np.ndarray, " d"]
    smooth: float
    plane: float
    noise: float

    def between(
        self, one: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"]
    ) -> Float[np.ndarray, "n m"]:
        """k at all pairs."""
        values = self.smooth_between(one, other)
        values *= self.smooth
        values += one @ (self.plane / one.shape[1] * other.T)
        values += 1.0
        return values

    def smooth_between(
        self, one: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"]
    ) -> Float[np.ndarray, "n m"]:
        """g at all pairs: the smooth part alone, with unit variance."""
        return _values(self.kind, _squares(one, other, self.length_scale))

    def with_noise(self, least: float) -> Covariance:
        """With at least so much noise."""
        return self._replace(noise=max(self.noise, least))

    def prior_variance(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """k(x, x)."""
        return self.smooth + 1.0 + self.plane * (rows**2).mean(axis=1)


def _squares(
    one: Float[np.ndarray, "n d"],
    other: Float[np.ndarray, "m d"],
    length_scale: Float[np.ndarray, " d"],
) -> Float[np.ndarray, "n m"]:
    one, other = one / length_scale, other / length_scale
    squares = one @ (-2.0 * other.T)
    squares += (one**2).sum(axis=1)[:, None]
    squares += (other**2).sum(axis=1)
    return np.maximum(squares, 0.0, out=squares)


def _profile(
    kind: Kind, squares: Float[np.ndarray, "n m"]
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """g of squared distances, and −2g'."""
    if kind == "rbf":
        profile = _values(kind, squares)
        return profile, profile
    roots = np.sqrt(5 * squares)
    slope = np.exp(-roots)
    roots += 1.0
    slope *= roots
    slope *= 5 / 3
    return _values(kind, squares), slope


def _values(kind: Kind, squares: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """g, in the place of the squared distances: memory is what takes the time here."""
    if kind == "rbf":
        squares *= -0.5
        return np.exp(squares, out=squares)
    squares *= 5.0
    roots = np.sqrt(squares)
    squares *= 1 / 3
    squares += roots
    squares += 1.0
    np.negative(roots, out=roots)
    squares *= np.exp(roots, out=roots)
    return squares


def evidence(
    kind: Kind,
    logs: Float[np.ndarray, " p"],
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    relative: Float[np.ndarray, " n"],
) -> tuple[float, Float[np.ndarray, " p"]]:
    """L and its derivative in the logarithms of (ℓ, a², c², σ²); −∞ where K is singular."""
    found = from_logs(kind, logs)
    n_rows, n_columns = rows.shape
    profile, slope = _profile(kind, _squares(rows, rows, found.length_scale))
    plane = found.plane / n_columns * (rows @ rows.T)
    matrix = found.smooth * profile
    matrix += plane
    matrix += 1.0
    matrix[np.diag_indices(n_rows)] += found.noise * relative
    factor, failed = lapack.dpotrf(matrix.T, lower=True, overwrite_a=True)
    if failed:
        return -np.inf, np.zeros(len(logs))
    log_roots = np.log(np.diag(factor)).sum()
    inverse, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
    # LAPACK leaves the other triangle as it was: zeros.
    weights = -(inverse + inverse.T)
    weights[np.diag_indices(n_rows)] /= 2
    coefficients = -(weights @ targets)
    value = -0.5 * targets @ coefficients - log_roots
    weights += np.outer(coefficients, coefficients)
    pulls = found.smooth * weights
    pulls *= slope
    scaled = rows / found.length_scale
    lengths = pulls.sum(axis=1) @ scaled**2 - ((pulls @ scaled) * scaled).sum(axis=0)
    derivative = np.concatenate(
        [
            lengths,
            [
                0.5 * found.smooth * np.vdot(weights, profile),
                0.5 * np.vdot(weights, plane),
                0.5 * found.noise * np.diag(weights) @ relative,
            ],
        ]
    )
    return float(value), derivative


def from_logs(kind: Kind, logs: Float[np.ndarray, " p"]) -> Covariance:
    """The covariance with these log parameters."""
    smooth, plane, noise = np.exp(logs[-3:])
    return Covariance(kind, np.exp(logs[:-3]), float(smooth), float(plane), float(noise))


def to_logs(covariance: Covariance) -> Float[np.ndarray, " p"]:
    """The log parameters of a covariance."""
    variances = [covariance.smooth, covariance.plane, covariance.noise]
    return np.concatenate([np.log(covariance.length_scale), np.log(variances)])


def tune_covariance(
    kind: Kind,
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    relative: Float[np.ndarray, " n"],
    start: Covariance | None = None,
    n_steps: int = 60,
) -> tuple[Covariance, float]:
    """The parameters with the highest evidence, by L-BFGS; and the evidence per row."""
    n_rows, n_columns = rows.shape
    center = 0.5 * np.log(n_columns)
    if start is None:
        logs = np.concatenate([np.full(n_columns, center), np.log([1.0, 0.1, 0.1])])
    else:
        logs = to_logs(start)
    limits = [*([_LENGTH_LIMITS] * n_columns), _VARIANCE_LIMITS, _VARIANCE_LIMITS, _NOISE_LIMITS]

    def loss(logs: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        value, derivative = evidence(kind, logs, rows, targets, relative)
        if not np.isfinite(value):
            return 1e10, np.zeros(len(logs))
        away = np.append(logs[:-3] - center, [0.0, 0.0, 0.0])
        value -= 0.5 * _PULL * float(away @ away)
        return -value / n_rows, (_PULL * away - derivative) / n_rows

    found = minimize(
        loss, logs, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": n_steps}
    )
    return from_logs(kind, found.x), -float(found.fun)
