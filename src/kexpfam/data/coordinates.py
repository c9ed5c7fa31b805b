"""Coordinates in which a table looks most like a standard normal: marginals, then whitening.

Each column is standardised, u = (x − center)/scale, put through a Yeo–Johnson power transform
T(u) with its own exponent λ (λ = 1 changes nothing), and the result is whitened:
T − shift = A z with AAᵀ the covariance. Isotropic noise in z is noise shaped like the data.

    T(u) = ((1+u)^λ − 1)/λ            u ≥ 0        T'(u) = (1+|u|)^{(λ−1) sign u}
    T(u) = −((1−u)^{2−λ} − 1)/(2−λ)   u < 0

(logarithms in the limits). Exponents are kept between 0 and 2, where T maps the line onto the line:
outside, a draw of z can fall where no x is.

| symbol | name     | shape  |
|--------|----------|--------|
| λ      | exponents | (d,)  |
| A      | root     | (d, d) |
| A⁻¹    | inverse_root | (d, d) |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from kexpfam.data.standardize import Standardizer

__all__ = ["Coordinates", "fit_coordinates"]

# Directions in which the rows vary less than this, relative to the widest, are treated as noise of
# that size: they would otherwise be blown up without limit.
_THINNEST = 1e-6


@dataclass(frozen=True)
class Coordinates:
    """The map between the user's rows and whitened ones."""

    standardizer: Standardizer
    exponents: Float[np.ndarray, " d"]
    shift: Float[np.ndarray, " d"]
    root: Float[np.ndarray, "d d"]

    @cached_property
    def inverse_root(self) -> Float[np.ndarray, "d d"]:
        return np.linalg.inv(self.root)

    def forward(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """z of x."""
        return self.powered(rows) @ self.inverse_root.T

    def powered(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Az: columns after their power transforms, about their means."""
        return power_transform(self.standardizer.forward(rows), self.exponents) - self.shift

    def backward(self, whitened: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """x of z."""
        powered = whitened @ self.root.T + self.shift
        return self.standardizer.backward(inverse_power_transform(powered, self.exponents))

    def log_jacobian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """log |dz/dx| at rows of x."""
        units = self.standardizer.forward(rows)
        marginal = ((self.exponents - 1) * np.sign(units) * np.log1p(np.abs(units))).sum(axis=1)
        constant = np.linalg.slogdet(self.inverse_root)[1] - self.standardizer.log_volume
        return marginal + constant

    def slopes(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
        """dT/dx of every column, and the derivative of its logarithm."""
        units, scale = self.standardizer.forward(rows), self.standardizer.scale
        base = 1 + np.abs(units)
        slope = base ** ((self.exponents - 1) * np.sign(units)) / scale
        return slope, (self.exponents - 1) / base / scale

    def pulled_back(
        self, rows: Float[np.ndarray, "n d"], score: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        """∇_x of log p(z(x)) + log |dz/dx|, from the score in z."""
        slope, log_slope = self.slopes(rows)
        return slope * (score @ self.inverse_root) + log_slope

    def pulled_back_laplacian(
        self,
        rows: Float[np.ndarray, "n d"],
        score: Float[np.ndarray, "n d"],
        curvature: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, " n"]:
        """Δ_x of the same, from the score in z and Σ_j T'_j² of ∇² along the columns of A⁻¹."""
        slope, log_slope = self.slopes(rows)
        units = self.standardizer.forward(rows)
        bend = -log_slope * np.sign(units) / (1 + np.abs(units)) / self.standardizer.scale
        turned = score @ self.inverse_root
        return curvature + (slope * log_slope * turned + bend).sum(axis=1)


def power_transform(
    units: Float[np.ndarray, "n d"], exponents: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n d"]:
    """Yeo–Johnson, column by column."""
    above = _box_cox(np.maximum(units, 0), exponents)
    below = _box_cox(np.maximum(-units, 0), 2 - exponents)
    return above - below


def inverse_power_transform(
    powered: Float[np.ndarray, "n d"], exponents: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n d"]:
    """The inverse of `power_transform`."""
    above = _inverse_box_cox(np.maximum(powered, 0), exponents)
    below = _inverse_box_cox(np.maximum(-powered, 0), 2 - exponents)
    return above - below


def _box_cox(values: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """((1+v)^λ − 1)/λ, accurately for small λ and v."""
    logs = np.log1p(values)
    safe = np.where(exponents == 0, 1.0, exponents)
    return np.where(exponents == 0, logs, np.expm1(safe * logs) / safe)


def _inverse_box_cox(values: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    safe = np.where(exponents == 0, 1.0, exponents)
    return np.expm1(np.where(exponents == 0, values, np.log1p(safe * values) / safe))


def fit_coordinates(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    standardizer: Standardizer,
    powers: bool,
) -> Coordinates:
    """Exponents by maximum likelihood of a normal marginal, then the covariance's root."""
    units, shares = standardizer.forward(rows), weights / weights.sum()
    exponents = np.ones(rows.shape[1])
    if powers:
        exponents = np.array([_best_exponent(column, shares) for column in units.T])
    powered = power_transform(units, exponents)
    shift = shares @ powered
    centered = powered - shift
    variances, axes = np.linalg.eigh((centered * shares[:, None]).T @ centered)
    variances = np.maximum(variances, _THINNEST**2 * variances.max())
    return Coordinates(standardizer, exponents, shift, axes * np.sqrt(variances))


def _best_exponent(units: Float[np.ndarray, " n"], shares: Float[np.ndarray, " n"]) -> float:
    """The exponent that makes a column most like a normal one."""
    logs = shares @ (np.sign(units) * np.log1p(np.abs(units)))

    def loss(exponent: float) -> float:
        powered = power_transform(units[:, None], np.array([exponent]))[:, 0]
        variance = shares @ (powered - shares @ powered) ** 2
        return float(np.log(variance) / 2 - (exponent - 1) * logs)

    return float(minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded").x)
