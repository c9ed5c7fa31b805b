"""Functions b(r) of a residual, in units of its scale: what a tilt can do to a bell.

    b_1(r) = tanh(r/2)                   moves the bell
    b_2(r) = 1 − exp(−r²/18)             widens or narrows it
    b_j(r) = exp(−(r − c_j)²/2w²)        bumps over ±4: skew, shoulders, second modes

All are as good as constant beyond ±8, and are taken to be: there the tails are those of the base
density, times a constant.

| symbol | name    | shape    |
|--------|---------|----------|
| c_j    | centers | (k − 2,) |
| w      | width   |          |
| ±8     | REACH   |          |
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["CENTERS", "N_RESIDUAL_FUNCTIONS", "REACH", "SQUARE", "WIDTH", "residual_functions"]

REACH = 8.0
_SPREAD, _N_BUMPS = 4.0, 16
CENTERS = np.linspace(-_SPREAD, _SPREAD, _N_BUMPS)
WIDTH = CENTERS[1] - CENTERS[0]
SQUARE = 18.0
N_RESIDUAL_FUNCTIONS = _N_BUMPS + 2


def residual_functions(
    residuals: Float[np.ndarray, "*shape"], order: int = 0
) -> Float[np.ndarray, "*shape k"]:
    """The functions, or their first or second derivatives, which are zero beyond the reach."""
    clipped = np.clip(residuals, -REACH, REACH)[..., None]
    functions = np.concatenate(
        [_line(clipped, order), _square(clipped, order), _bumps(clipped, order)], axis=-1
    )
    if order:
        functions *= (np.abs(residuals) < REACH)[..., None]
    return functions


def _line(r: Float[np.ndarray, "*shape 1"], order: int) -> Float[np.ndarray, "*shape 1"]:
    value = np.tanh(r / 2)
    if order == 0:
        return value
    return (1 - value**2) / 2 if order == 1 else -value * (1 - value**2) / 2


def _square(r: Float[np.ndarray, "*shape 1"], order: int) -> Float[np.ndarray, "*shape 1"]:
    decay = np.exp(-(r**2) / SQUARE)
    if order == 0:
        return 1 - decay
    slope = 2 / SQUARE
    return slope * r * decay if order == 1 else slope * (1 - slope * r**2) * decay


def _bumps(r: Float[np.ndarray, "*shape 1"], order: int) -> Float[np.ndarray, "*shape b"]:
    away = (r - CENTERS) / WIDTH
    value = np.exp(-(away**2) / 2)
    if order == 0:
        return value
    return -away / WIDTH * value if order == 1 else (away**2 - 1) / WIDTH**2 * value
