"""The covariance of a Gaussian process over inputs.

    k(x, x′) = a² g(|x − x′|²_ℓ) + 1 + c² x·x′ / d          |v|²_ℓ = Σ_j v_j² / ℓ_j²

A smooth part with a length-scale for each input, a constant and a straight plane. Inputs and
targets are standardized, so that the constant needs no parameter. `kexpfam.base.evidence` finds the
parameters.

| symbol | name         | shape  |
|--------|--------------|--------|
| ℓ      | length_scale | (d,)   |
| a²     | smooth       |        |
| c²     | plane        |        |
| σ²     | noise        |        |
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = [
    "Covariance",
    "Kind",
    "bordered",
    "from_logs",
    "profile_of",
    "squared_distances",
    "to_logs",
]

Kind = Literal["rbf", "matern"]


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
    """|u − v|²_ℓ of all pairs."""
    left, right = bordered(one, other, length_scale)
    squares = left @ right.T
    return np.maximum(squares, 0.0, out=squares)


def bordered(
    one: Float[np.ndarray, "n d"],
    other: Float[np.ndarray, "m d"],
    length_scale: Float[np.ndarray, " d"],
) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "m e"]]:
    """Rows with two more columns, whose products are |u|² + |v|² − 2u·v in units of ℓ."""
    one, other = one / length_scale, other / length_scale
    # Both row by row in memory, whatever came in, so that sums are always rounded alike.
    left, right = (np.ones((len(rows), rows.shape[1] + 2)) for rows in (one, other))
    np.multiply(one, -2.0, out=left[:, :-2])
    left[:, -2] = (one**2).sum(axis=1)
    right[:, :-2] = other
    right[:, -1] = (other**2).sum(axis=1)
    return left, right


def profile_of(
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


def from_logs(kind: Kind, logs: Float[np.ndarray, " p"]) -> Covariance:
    """The covariance with these log parameters."""
    smooth, plane, noise = np.exp(logs[-3:])
    return Covariance(kind, np.exp(logs[:-3]), float(smooth), float(plane), float(noise))


def to_logs(covariance: Covariance) -> Float[np.ndarray, " p"]:
    """The log parameters of a covariance."""
    variances = [covariance.smooth, covariance.plane, covariance.noise]
    return np.concatenate([np.log(covariance.length_scale), np.log(variances)])
