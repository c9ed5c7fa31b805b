"""Sums over rows from which the tilt of p(y | x) is solved in closed form.

Score matching in the residual r alone, with Gaussian noise of scale σ on it: for the functions
φ(r, x) = b(r) ⊗ ψ(x) the loss hᵀβ + ½βᵀHβ has

    H = Σ_i w_i E[b'(r_i + σξ) b'(r_i + σξ)ᵀ] ⊗ ψ(x_i)ψ(x_i)ᵀ
    h = Σ_i w_i E[b''(r_i + σξ) + b'(r_i + σξ) (log q)'(r_i + σξ)] ⊗ ψ(x_i)

with expectations over ξ ~ N(0, 1) by Gauss–Hermite nodes: in one dimension they are as good as
closed form. Both are sums over rows, so blocks, streams and machines can be added up. H is summed
as products of pairs, Σ_i (w_i ψ_a ψ_b)(b'_c b'_d), which is one matrix product for a block.

With bounds there is no noise, which would carry rows across them, and a function g of the residual
that vanishes at the bounds takes the place of the boundary term in the integration by parts
(Hyvärinen 2007; Liu, Kanamori and Williams 2022):

    H = Σ_i w_i g b'b'ᵀ ⊗ ψψᵀ          h = Σ_i w_i (g b'' + g'b' + g b' (log q)') ⊗ ψ
    g(r) = tanh(2(r − low)) tanh(2(high − r))

| symbol | name      | shape          |
|--------|-----------|----------------|
| H      | quadratic | (m, m, k, k) as pairs (m(m+1)/2, k(k+1)/2) |
| h      | linear    | (m, k)         |
|        | weight    | the sum of w   |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.bell import bell_gradient
from kexpfam.base.covariance import Covariance
from kexpfam.base.location import LocationSums, PointsLocation, add_to_location
from kexpfam.data.response import Response
from kexpfam.features.inputs import InputFunctions
from kexpfam.features.residual import N_RESIDUAL_FUNCTIONS, residual_functions
from kexpfam.moments.arithmetic import add_moments
from kexpfam.moments.fold import Summation

__all__ = [
    "ConditionalSums",
    "LocationSummation",
    "TiltSummation",
    "conditional_sums",
]

_HERMITE_NODES = 7
# Few enough rows that their products of pairs stay in the processor's cache.
_BLOCK, _SUMMED_AT_ONCE = 256, 4096
# How fast g rises to one, per unit of the residual.
_STEEPNESS = 2.0


class ConditionalSums(NamedTuple):
    """H by pairs of functions, h, and the rows' weight."""

    quadratic: Float[Any, "mm kk"]
    linear: Float[Any, "m k"]
    weight: Float[Any, ""]

    def system(self) -> tuple[Float[np.ndarray, "b b"], Float[np.ndarray, " b"]]:
        """H and h per unit of weight, for the coefficients one row of A after the other."""
        m, k = self.linear.shape
        quadratic = np.zeros((m, m, k, k))
        rows, columns = np.triu_indices(m)
        firsts, seconds = np.triu_indices(k)
        for one, two in ((rows, columns), (columns, rows)):
            quadratic[one[:, None], two[:, None], firsts, seconds] = self.quadratic
            quadratic[one[:, None], two[:, None], seconds, firsts] = self.quadratic
        matrix = quadratic.transpose(0, 2, 1, 3).reshape(m * k, m * k)
        return matrix / self.weight, self.linear.ravel() / self.weight


def conditional_sums(
    inputs: Float[np.ndarray, "n m"],
    residuals: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    noise_scale: float,
    bounds: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]] | None = None,
) -> ConditionalSums:
    """The sums of some rows; `bounds` are those of each row's residual, where there are any."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(_HERMITE_NODES)
    shares = shares / shares.sum()
    if bounds is not None:
        nodes, shares = np.zeros(1), np.ones(1)
    m, k = inputs.shape[1], N_RESIDUAL_FUNCTIONS
    pairs, functions = np.triu_indices(m), np.triu_indices(k)
    quadratic, linear = np.zeros((len(pairs[0]), len(functions[0]))), np.zeros((m, k))
    for first in range(0, len(residuals), _BLOCK):
        part = slice(first, first + _BLOCK)
        noisy = residuals[part, None] + noise_scale * nodes
        slopes, bends = (residual_functions(noisy, order) for order in (1, 2))
        pulls = bends + slopes * bell_gradient(noisy)[0][..., None]
        if bounds is not None:
            inside, change = (
                one[..., None] for one in _away(noisy, *(end[part, None] for end in bounds))
            )
            pulls = inside * pulls + change * slopes
            slopes = np.sqrt(inside) * slopes
        products = np.einsum("nhk,nhl,h->nkl", slopes, slopes, shares)[:, *functions]
        weighed = inputs[part] * weights[part, None]
        linear += weighed.T @ np.einsum("nhk,h->nk", pulls, shares)
        quadratic += (weighed[:, pairs[0]] * inputs[part][:, pairs[1]]).T @ products
    return ConditionalSums(quadratic, linear, np.asarray(weights.sum()))


def _away(
    residuals: Float[np.ndarray, "n h"],
    low: Float[np.ndarray, "n 1"],
    high: Float[np.ndarray, "n 1"],
) -> tuple[Float[np.ndarray, "n h"], Float[np.ndarray, "n h"]]:
    """g and its derivative."""
    above, below = (
        np.tanh(_STEEPNESS * np.maximum(gap, 0.0)) for gap in (residuals - low, high - residuals)
    )
    change = _STEEPNESS * ((1 - above**2) * below - above * (1 - below**2))
    return above * below, change


@dataclass(frozen=True)
class LocationSummation(Summation):
    """Sums of a location with points; rows are inputs in units, and the target."""

    covariance: Covariance
    points: Float[np.ndarray, "p d"]
    response: Response
    block_size: int = _SUMMED_AT_ONCE

    def content(self) -> list[Any]:
        return [*self.covariance, self.points, *self.response, "location"]

    def added(
        self, sums: Any, rows: Float[np.ndarray, "n e"], weights: Float[np.ndarray, " n"], size: int
    ) -> LocationSums:
        targets = self.response.forward(rows[:, -1])
        return add_to_location(sums, self.covariance, self.points, rows[:, :-1], targets, weights)


@dataclass(frozen=True)
class TiltSummation(Summation):
    """Sums of a tilt. Residuals are those of a location that stays as it is, each row left out.

    A row is left out with the weight of one unit, however heavy it is: two copies have the same
    sums as one row of twice the weight.
    """

    reference: PointsLocation
    response: Response
    factor: float
    functions: InputFunctions
    bounds: tuple[float, float]
    noise_scale: float
    block_size: int = _SUMMED_AT_ONCE

    def content(self) -> list[Any]:
        location = self.reference.location
        parts = [*location.covariance, *location[1:], self.reference.told]
        return [*parts, *self.response, self.factor, *self.functions, *self.bounds, "tilt"]

    def added(
        self, sums: Any, rows: Float[np.ndarray, "n e"], weights: Float[np.ndarray, " n"], size: int
    ) -> ConditionalSums:
        inputs, targets = rows[:, :-1], self.response.forward(rows[:, -1])
        location = self.reference.location
        noises = np.full(len(inputs), location.covariance.noise)
        left_out = self.reference.left_out(inputs, targets, noises)
        scale = self.factor * np.sqrt(left_out.variance + location.noise)
        ends = self.response.residual_bounds(self.bounds, left_out.mean, scale)
        found = conditional_sums(
            self.functions(inputs),
            (targets - left_out.mean) / scale,
            weights,
            self.noise_scale,
            ends if np.isfinite(self.bounds).any() else None,
        )
        return found if sums is None else add_moments(sums, found)
