"""The base density of a residual: a standard normal with a few wider rows among it.

    q(r) = (1 − ε) N(r; 0, 1) + ε N(r; 0, 16),          ε = 0.02

The wide part keeps single odd rows from costing any number of nats, and it is what is left of the
model in the far tails.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

__all__ = [
    "LOGS",
    "WIDE",
    "WIDTHS",
    "bell_cdf",
    "bell_gradient",
    "bell_log_density",
    "bell_quantile",
]

WIDE, _SHARE = 4.0, 0.02
# Standard deviations of the two parts.
WIDTHS = np.array([1.0, WIDE])
LOGS = np.log([1 - _SHARE, _SHARE / WIDE]) - 0.5 * np.log(2 * np.pi)
# Halvings that bring a quantile to the last digit.
_HALVINGS = 70


def _parts(
    residuals: Float[np.ndarray, "*shape"],
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    squares = residuals**2 / 2
    return LOGS[0] - squares, LOGS[1] - squares / WIDE**2


def bell_log_density(residuals: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """log q."""
    return np.logaddexp(*_parts(residuals))


def bell_gradient(
    residuals: Float[np.ndarray, "*shape"],
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    """First and second derivative of log q."""
    narrow, wide = _parts(residuals)
    share = np.exp(wide - np.logaddexp(narrow, wide))
    precision = (1 - share) + share / WIDE**2
    spread = share * (1 - share) * (1 - WIDE**-2) ** 2
    return -residuals * precision, spread * residuals**2 - precision


def bell_cdf(residuals: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The mass below."""
    return (1 - _SHARE) * ndtr(residuals) + _SHARE * ndtr(residuals / WIDE)


def bell_quantile(levels: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The residual with so much mass below; by halving between the two parts' own quantiles."""
    ends = np.stack([ndtri(levels), WIDE * ndtri(levels)])
    low, high = ends.min(axis=0), ends.max(axis=0)
    for _ in range(_HALVINGS):
        with np.errstate(invalid="ignore"):
            middle = (low + high) / 2
            below = bell_cdf(middle) < levels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(np.isfinite(high), high, ndtri(levels))
