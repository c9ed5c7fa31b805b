"""Where a target can be at all: bounds and lattices, given or found from the rows.

A bound is found at a natural place (zero; one or a hundred for shares) if all targets keep to one
side of it where a Gaussian of the same location and scale would not: were there no bound, the
number of rows beyond would have the mean

    Σ_i Φ((bound − μ_i) / s_i),

and seven or more would all stay inside with a probability of at most exp(−7), one in a thousand.
Locations μ_i and scales s_i are those of rows that were left out, in the units of the target.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from kexpfam.data.response import Response
from kexpfam.model.lattice import Lattice
from kexpfam.tuning.held_out import Residuals

__all__ = ["found_bounds", "found_step", "spanned_lattice"]

_EXPECTED_OUTSIDE = 7.0
_NATURAL_LOW, _NATURAL_HIGH = 0.0, (1.0, 100.0)
# Steps that a target may be off; points of a lattice; and those beyond the targets on each side, as
# a share of their range.
_OFF, _MOST_POINTS, _BEYOND = 1e-6, 2000, 0.5


def found_bounds(
    residuals: Residuals, factor: float, response: Response, low: float, high: float
) -> tuple[float, float]:
    """Bounds that the targets, from `low` to `high`, keep to; infinite where there are none."""
    center = response.inverse(residuals.mean)
    scale = factor * residuals.scale * np.exp(-response.log_slope(center))

    def is_bound(place: float, sign: float) -> bool:
        outside = ndtr(sign * (place - center) / scale)
        return float(outside.sum()) >= _EXPECTED_OUTSIDE

    bottom, top = -np.inf, np.inf
    if low >= _NATURAL_LOW and is_bound(_NATURAL_LOW, 1.0):
        bottom = _NATURAL_LOW
    for place in _NATURAL_HIGH:
        # A share is no share of anything if it is below zero.
        if low >= _NATURAL_LOW and high <= place and is_bound(place, -1.0):
            top = place
            break
    return bottom, top


def found_step(y: Float[np.ndarray, " n"], wanted: float | str | None) -> float | None:
    """The step of the lattice that targets are on; None where none is asked for or found."""
    if wanted is None:
        return None
    values = np.unique(y)
    step = float(np.diff(values).min()) if wanted == "auto" else float(wanted)
    steps = (values - values[0]) / step
    off = np.abs(steps - np.rint(steps)) > _OFF
    if not off.any():
        if steps[-1] < _MOST_POINTS / 2:
            return step
        if wanted == "auto":
            return None
        raise ValueError(
            f"lattice={step:g} has {steps[-1]:.0f} points between the smallest and largest target; "
            f"expected at most {_MOST_POINTS // 2}. With so many, use lattice=None: a density."
        )
    if wanted == "auto":
        return None
    raise ValueError(
        f"With lattice={step:g}, targets must be whole steps apart; got {values[0]:g} and "
        f"{values[off][0]:g}. Give the lattice's step, 'auto' to find it, or None for a density."
    )


def spanned_lattice(
    step: float | None, low: float, high: float, bounds: tuple[float, float]
) -> Lattice | None:
    """The points from `low` to `high`, and some beyond where bounds allow it."""
    if step is None:
        return None
    beyond = np.ceil(_BEYOND * (high - low) / step) + 1
    below, above = (
        int(min(beyond, np.floor((room + _OFF * step) / step)))
        for room in (low - bounds[0], bounds[1] - high)
    )
    count = int(np.rint((high - low) / step)) + 1 + below + above
    return Lattice(low - below * step, step, count)
