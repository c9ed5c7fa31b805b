"""Robust units of columns, with long tails drawn in.

    u = (x − median)/scale,      t = u                               |u| ≤ c
                                 t = sign(u) (c + log(1 + |u| − c))  |u| > c

A few gross values would otherwise decide the mean and the standard deviation of a column, and with
them what is near and far in it. The map is monotone and has an inverse, so nothing is lost: a value
that is farther out stays farther out. The scale is that of the middle half of the values, or where
many of them are equal, the standard deviation between the first and the last percentile.

| symbol | name   | shape |
|--------|--------|-------|
|        | center | (d,)  |
|        | scale  | (d,)  |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["Tails", "robust_tails"]

# Where tails begin, in robust standard deviations.
_BEGIN = 3.0
# The middle half of a normal distribution, in standard deviations.
_MIDDLE_HALF = 1.349
# A middle half that is narrower than this, beside the rest of the column, says nothing of it.
_NARROWEST = 0.05
_ROUNDING = 1e-9
# Beyond this, the inverse is not a number any more.
_LONGEST = 700.0


class Tails(NamedTuple):
    """The monotone map of every column; NaN and infinite values stay what they are."""

    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    def forward(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """t of x."""
        units = (rows - self.center) / self.scale
        size = np.abs(units)
        with np.errstate(invalid="ignore"):
            tails = np.sign(units) * (_BEGIN + np.log1p(np.maximum(size - _BEGIN, 0.0)))
        return np.where(size <= _BEGIN, units, tails)

    def backward(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """x of t."""
        size = np.abs(values)
        beyond = np.expm1(np.clip(size - _BEGIN, 0.0, _LONGEST))
        units = np.where(size <= _BEGIN, values, np.sign(values) * (_BEGIN + beyond))
        return units * self.scale + self.center


def robust_tails(
    rows: Float[np.ndarray, "n d"], is_number: Float[np.ndarray, " d"] | np.ndarray
) -> Tails:
    """Units of the columns that are numbers; the others stay what they are but for their tails."""
    center, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    for place in np.flatnonzero(is_number):
        values = rows[np.isfinite(rows[:, place]), place]
        if len(values) == 0 or values.min() == values.max():
            center[place] = values[0] if len(values) else 0.0
            continue
        first, low, middle, high, last = np.quantile(values, [0.01, 0.25, 0.5, 0.75, 0.99])
        unit = max(float(np.abs(values).max()), 1e-300)
        trimmed = unit * float(np.std(np.clip(values, first, last) / unit))
        half = (high - low) / _MIDDLE_HALF
        whole = unit * float(np.std(values / unit))
        # Of equal values, what rounding leaves: a column with a few other ones has no such unit.
        trimmed = trimmed if trimmed > _ROUNDING * whole else 0.0
        found = half if half > _NARROWEST * trimmed else trimmed
        center[place], scale[place] = middle, found or whole
    return Tails(center, scale)
