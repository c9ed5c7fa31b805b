"""A monotone map of the target, after which its noise is more even.

    t(y) = sign · (G(u) − shift) / scale          u = sign · (y − anchor) / unit
    G(u) = ((1 + u)^λ − 1) / λ   for 0 ≤ u ≤ top, and straight lines with the same slope beyond

A power of the distance from the edge where the targets crowd (sign says which edge it is): like a
logarithm for λ = 0, like a root for λ = ½, the identity for λ = 1. Outside the targets it goes on
straight, so that tails and extrapolations stay what they are in the units of the data. The map
costs a Jacobian,

    log p(y | x) = log p(t | x) + log t'(y),

and takes nothing from the density: cdf and quantiles go through it as they are. Which map is best
is a question of evidence (Snelson, Rasmussen and Ghahramani 2004).

| symbol | name   |
|--------|--------|
| λ      | power  |
| t      | mapped |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.standardize import center_and_scale

__all__ = ["Response", "bent_responses", "straight_response"]

# Units of the bent maps, in standard deviations of the target, and their powers.
_UNITS, _POWERS = (0.03, 0.3), (0.0, 0.5)
# Targets that are a crowd, within so many units of the edge.
_CROWD, _NEAR = 5, 2.0
# The logarithm of the steepest slope, and the numbers that there are.
_STEEPEST, _NUMBERS = 700.0, (-np.finfo(float).max, np.finfo(float).max)
# Units from the anchor.
_FURTHEST = 1e30


class Response(NamedTuple):
    """t and its inverse."""

    anchor: float
    unit: float
    sign: float
    power: float
    top: float
    shift: float
    scale: float

    def forward(self, y: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """t(y)."""
        return self.sign * (self.bent(y) - self.shift) / self.scale

    def bent(self, y: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """G(u)."""
        along, inner = self._along(y)
        return self._power(inner) + (along - inner) * (1 + inner) ** (self.power - 1)

    def inverse(self, t: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """y(t)."""
        bent = self.sign * t * self.scale + self.shift
        held = np.clip(bent, 0.0, self._power(np.array([self.top])))
        if self.power == 0:
            inner = np.expm1(held)
        else:
            inner = np.expm1(np.log1p(self.power * held) / self.power)
        along = inner + (bent - held) * (1 + inner) ** (1 - self.power)
        return self.anchor + self.sign * self.unit * along

    def log_slope(self, y: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """log t'(y)."""
        _, inner = self._along(y)
        return (self.power - 1) * np.log1p(inner) - np.log(self.unit * self.scale)

    def log_slope_derivatives(
        self, y: Float[np.ndarray, "*shape"]
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """First and second derivative of log t'(y)."""
        along, inner = self._along(y)
        first = (along == inner) * (self.power - 1) / (1 + inner)
        second = -first / (1 + inner)
        # One unit after the other: its square may not be a number.
        return self.sign * first / self.unit, second / self.unit / self.unit

    def through(
        self,
        y: Float[np.ndarray, "*shape"],
        first: Float[np.ndarray, "*shape"],
        second: Float[np.ndarray, "*shape"],
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """Derivatives in y of a log density, from those of the log density of t in t."""
        # In units of 1e-310 derivatives are not numbers any more; the largest stand for them, since
        # a difference of two infinities would be none either.
        slope = np.exp(np.minimum(self.log_slope(y), _STEEPEST))
        with np.errstate(over="ignore"):
            bend, bend_slope = (np.clip(one, *_NUMBERS) for one in self.log_slope_derivatives(y))
            along = first * slope
            return along + bend, second * slope**2 + along * bend + bend_slope

    def residual_bounds(
        self,
        bounds: tuple[float, float],
        mean: Float[np.ndarray, " n"],
        scale: Float[np.ndarray, " n"],
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The smallest and largest (t(y) − mean) / scale; infinite where there is no bound."""
        low, high = (
            (self.forward(np.array([bound])) - mean) / scale
            if np.isfinite(bound)
            else np.full(len(mean), bound)
            for bound in bounds
        )
        return low, high

    def _along(
        self, y: Float[np.ndarray, "*shape"]
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """u, and the part of it where the map bends."""
        with np.errstate(over="ignore"):
            along = self.sign * (y - self.anchor) / self.unit
        # Further out counts as that far: squares are still numbers.
        along = np.clip(along, -_FURTHEST, _FURTHEST)
        return along, np.clip(along, 0.0, self.top)

    def _power(self, inner: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        logs = np.log1p(inner)
        return logs if self.power == 0 else np.expm1(self.power * logs) / self.power


def _standardized(
    response: Response, y: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
) -> Response:
    bent = response.bent(y)
    shift = float(np.average(bent, weights=weights))
    scale = float(np.sqrt(np.average((bent - shift) ** 2, weights=weights)))
    return response._replace(shift=shift, scale=scale)


def straight_response(y: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> Response:
    """The target in units of its standard deviation."""
    (center,), (unit,) = center_and_scale(y[:, None], weights)
    return Response(float(center), float(unit), 1.0, 1.0, 0.0, 0.0, 1.0)


def bent_responses(y: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> list[Response]:
    """Maps that could make the noise even, bent on the side where the targets crowd."""
    straight = straight_response(y, weights)
    skewness = float(np.average(straight.forward(y) ** 3, weights=weights))
    sign, anchor = (1.0, float(y.min())) if skewness >= 0 else (-1.0, float(y.max()))
    # At a lone target the map would be steep for no reason, and a row that comes to lie beyond it
    # as good as impossible.
    crowd = float(np.sort(sign * (y - anchor))[min(_CROWD, len(y)) - 1])
    maps = []
    for share in _UNITS:
        unit = share * straight.unit
        if crowd > _NEAR * unit:
            continue
        top = float(np.ptp(y)) / unit
        maps += [Response(anchor, unit, sign, power, top, 0.0, 1.0) for power in _POWERS]
    return [_standardized(one, y, weights) for one in maps]
