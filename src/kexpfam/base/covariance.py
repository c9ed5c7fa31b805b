"""The covariance of a Gaussian process over inputs, and the evidence of its parameters.

    k(x, x′) = a² g(|x − x′|²_ℓ) + 1 + c² x·x′ / d          |v|²_ℓ = Σ_j v_j² / ℓ_j²

A smooth part with a length-scale for each input, a constant and a straight plane. Inputs and
targets are standardized, so that the constant needs no parameter. With K = k(X, X) + diag(noise),
the evidence (log marginal likelihood) and its derivative in any parameter θ are

    L = −½ yᵀK⁻¹y − ½ log|K|          ∂L/∂θ = ½ tr((ααᵀ − K⁻¹) ∂K/∂θ),   α = K⁻¹y

(Rasmussen and Williams 2006, chapter 5). Derivatives in all length-scales at once are matrix
products: Σ_ik V_ik (x_ij − x_kj)² = Σ_i (V_i· + V_·i) x_ij² − 2 x_jᵀV x_j, for K⁻¹ with one half
alone.

| symbol | name         | shape  |
|--------|--------------|--------|
| ℓ      | length_scale | (d,)   |
| a²     | smooth       |        |
| c²     | plane        |        |
| σ²     | noise        |        |
| ν      | relative     | (n,), the noise of each row in units of σ² |
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from kexpfam.unlocked import add_products, factored, invert_factored, solve_lower

__all__ = ["Covariance", "Kind", "evidence", "squared_distances", "tune_covariance"]

Kind = Literal["rbf", "matern"]

# Log parameters stay in here; standardized inputs and targets need no more.
_LENGTH_LIMITS, _VARIANCE_LIMITS, _NOISE_LIMITS = (-3.0, 6.0), (-9.0, 6.0), (-14.0, 2.0)
# A weak pull of log length-scales toward log √d keeps those that the rows say nothing about.
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
        return _values(self.kind, squared_distances(one, other, self.length_scale))

    def with_noise(self, least: float) -> Covariance:
        """With at least so much noise."""
        return self._replace(noise=max(self.noise, least))

    def prior_variance(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """k(x, x)."""
        return self.smooth + 1.0 + self.plane * (rows**2).mean(axis=1)


def squared_distances(
    one: Float[np.ndarray, "n d"],
    other: Float[np.ndarray, "m d"],
    length_scale: Float[np.ndarray, " d"],
) -> Float[np.ndarray, "n m"]:
    """|u − v|²_ℓ of all pairs: |u|² + |v|² − 2u·v, as one product of rows with two more columns."""
    one, other = one / length_scale, other / length_scale
    # Both row by row in memory, whatever came in, so that sums are always rounded alike.
    left, right = (np.ones((len(rows), rows.shape[1] + 2)) for rows in (one, other))
    np.multiply(one, -2.0, out=left[:, :-2])
    left[:, -2] = (one**2).sum(axis=1)
    right[:, :-2] = other
    right[:, -1] = (other**2).sum(axis=1)
    squares = left @ right.T
    return np.maximum(squares, 0.0, out=squares)


def _profile(
    kind: Kind, squares: Float[np.ndarray, "n m"]
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """g of squared distances, and −2g'; the distances are written over."""
    if kind == "rbf":
        profile = _values(kind, squares)
        return profile, profile
    squares *= 5.0
    roots = np.sqrt(squares)
    decay = np.exp(-roots)
    roots += 1.0
    squares *= 1 / 3
    squares += roots
    squares *= decay
    roots *= decay
    roots *= 5 / 3
    return squares, roots


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
    *,
    single: bool = False,
) -> tuple[float, Float[np.ndarray, " p"]]:
    """L and its derivative in the logarithms of (ℓ, a², c², σ²); −∞ where K is singular.

    The derivative may be found in single precision, which halves the time of its products: K⁻¹
    comes from the factor of K, whose condition is only the root of that of K.
    """
    found = from_logs(kind, logs)
    n_rows, n_columns = rows.shape
    profile, slope = _profile(kind, squared_distances(rows, rows, found.length_scale))
    # Only the lower triangle is summed, factored and inverted; profile and slope are symmetric.
    planes = np.column_stack([np.sqrt(found.plane / n_columns) * rows, np.ones(n_rows)])
    half = profile.copy().T
    add_products(half, planes, found.smooth)
    half[np.diag_indices(n_rows)] += found.noise * relative
    if not factored(half):
        return -np.inf, np.zeros(len(logs))
    coefficients = targets[:, None].copy()
    solve_lower(half, coefficients)
    solve_lower(half, coefficients, turned=True)
    coefficients = coefficients[:, 0]
    value = -0.5 * targets @ coefficients - np.log(np.diag(half)).sum()
    kind_of_number = np.float32 if single else np.float64
    profile, slope, half, coefficients, rows = (
        part.astype(kind_of_number, copy=False)
        for part in (profile, slope, half, coefficients, rows)
    )
    return float(value), _derivative(found, profile, slope, half, coefficients, rows, relative)


def _derivative(
    found: Covariance,
    profile: Float[np.ndarray, "n n"],
    slope: Float[np.ndarray, "n n"],
    factor: Float[np.ndarray, "n n"],
    coefficients: Float[np.ndarray, " n"],
    rows: Float[np.ndarray, "n d"],
    relative: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " p"]:
    """From g, −2g', the factor of K in a lower half, α and the inputs; the factor is lost."""
    invert_factored(factor)
    # Of the inverse one half; read line by line, as the others are, it is the upper one.
    half = factor.T
    half *= _upper_ones(len(half), half.dtype.char)
    variances = np.diag(half).copy()
    smooth = coefficients @ profile @ coefficients - 2 * np.vdot(half, profile) + variances.sum()
    plane = ((coefficients @ rows) ** 2).sum() - 2 * np.vdot(rows, half @ rows)
    plane += variances @ (rows**2).sum(axis=1)
    noise = (coefficients**2 - variances) @ relative
    scaled = rows / found.length_scale.astype(rows.dtype)
    half *= slope
    turned = coefficients[:, None] * scaled
    sums = coefficients * (slope @ coefficients) - half.sum(axis=1) - half.sum(axis=0)
    pulls = turned * (slope @ turned) - 2 * scaled * (half @ scaled)
    lengths = sums @ scaled**2 - pulls.sum(axis=0)
    variance_parts = [
        found.smooth * smooth,
        found.plane / rows.shape[1] * plane,
        found.noise * noise,
    ]
    return np.concatenate([found.smooth * lengths, 0.5 * np.array(variance_parts)]).astype(float)


@lru_cache(maxsize=4)
def _upper_ones(count: int, kind: str) -> Float[np.ndarray, "n n"]:
    """Ones in the upper half, zeros below: few sizes come up again and again."""
    return np.triu(np.ones((count, count), kind))


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
    least_gain: float = 1e-9,
    *,
    single: bool = False,
) -> tuple[Covariance, float]:
    """The parameters with the highest evidence, by L-BFGS; and the evidence per row.

    A step that gains less than this number of nats a row is the last. Derivatives in single
    precision are enough unless that is very little.
    """
    n_rows, n_columns = rows.shape
    center = 0.5 * np.log(n_columns)
    if start is None:
        logs = np.concatenate([np.full(n_columns, center), np.log([1.0, 0.1, 0.1])])
    else:
        logs = to_logs(start)
    limits = [*([_LENGTH_LIMITS] * n_columns), _VARIANCE_LIMITS, _VARIANCE_LIMITS, _NOISE_LIMITS]

    def loss(logs: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        value, derivative = evidence(kind, logs, rows, targets, relative, single=single)
        if not np.isfinite(value):
            return 1e10, np.zeros(len(logs))
        away = np.append(logs[:-3] - center, [0.0, 0.0, 0.0])
        value -= 0.5 * _PULL * float(away @ away)
        return -value / n_rows, (_PULL * away - derivative) / n_rows

    found = minimize(
        loss,
        logs,
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": n_steps, "ftol": least_gain},
    )
    return from_logs(kind, found.x), -float(found.fun)
