"""Sums of kernel sections at points, with their derivatives in the inputs that move.

With g a function of the squared distance s_p = Σ_i (x_i − P_pi)²/ℓ_i² to a point, and a matrix M,

    y_m = Σ_p g(s_p) M_pm        ∂_i y_m = (2/ℓ_i²) Σ_p g′(s_p) (x_i − P_pi) M_pm
    ∂²_i y_m = (2/ℓ_i²) Σ_p g′(s_p) M_pm + (4/ℓ_i⁴) Σ_p g″(s_p) (x_i − P_pi)² M_pm

are products of g′ and g″ with M, P_i M and P_i² M: no array has rows, points and inputs. An input
x_i is itself a function of what moves, with the derivatives f and f′.

| symbol | name   | shape  |
|--------|--------|--------|
| x      | rows   | (n, d), of which the `places` (s,) move |
| f, f′  | first, second | (s, n) |
| P, ℓ   | points, length_scale | (p, d), (d,) |
| g, g′, g″ | values, slopes, bends | (n, p) |
| M      | matrix | (p, m) |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.covariance import Kind, squared_distances
from kexpfam.base.location import Location
from kexpfam.features.inputs import WIDER, InputFunctions
from kexpfam.jets import Jet, sqrt, where

__all__ = ["Inputs", "located", "tilting"]


class Inputs(NamedTuple):
    """Rows and how some of their entries move; `second` is None without second derivatives."""

    rows: Float[np.ndarray, "n d"]
    places: Int[np.ndarray, " s"]
    first: Float[np.ndarray, "s n"]
    second: Float[np.ndarray, "s n"] | None

    def jet(
        self,
        value: Float[np.ndarray, "n m"],
        first: Float[np.ndarray, "s n m"],
        second: Float[np.ndarray, "s n m"] | float,
    ) -> Jet:
        """From derivatives in the inputs themselves."""
        moves = self.first[:, :, None]
        if self.second is None:
            return Jet(value, first * moves)
        return Jet(value, first * moves, second * moves**2 + first * self.second[:, :, None])

    def plane(self, matrix: Float[np.ndarray, "d m"]) -> Jet:
        """xM."""
        shape = (len(self.places), len(self.rows), matrix.shape[1])
        first = np.broadcast_to(matrix[self.places][:, None], shape)
        return self.jet(self.rows @ matrix, first, 0.0)

    def squares(self) -> Jet:
        """Σ_i x_i²."""
        first = 2 * self.rows.T[self.places][:, :, None]
        return self.jet((self.rows**2).sum(axis=1)[:, None], first, 2.0)[..., 0]


class _Sections(NamedTuple):
    """g of squared distances to points, an average over wider kernels if there are several."""

    inputs: Inputs
    points: Float[np.ndarray, "p d"]
    length_scale: Float[np.ndarray, " d"]
    values: Float[np.ndarray, "n p"]
    slopes: Float[np.ndarray, "n p"]
    bends: Float[np.ndarray, "n p"] | None

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        points: Float[np.ndarray, "p d"],
        kind: Kind,
        length_scale: Float[np.ndarray, " d"],
        widths: Sequence[float] = (1.0,),
    ) -> _Sections:
        squares = squared_distances(inputs.rows, points, length_scale)
        values, slopes = np.zeros_like(squares), np.zeros_like(squares)
        bends = None if inputs.second is None else np.zeros_like(squares)
        for width in widths:
            value, slope, bend = _profile(kind, squares / width**2)
            values += value / len(widths)
            slopes += slope / (width**2 * len(widths))
            if bends is not None:
                bends += bend / (width**4 * len(widths))
        return cls(inputs, points, length_scale, values, slopes, bends)

    def times(self, weights: Float[np.ndarray, "n p"]) -> _Sections:
        """With a weight for each row and point."""
        return self._replace(
            values=self.values * weights,
            slopes=self.slopes * weights,
            bends=None if self.bends is None else self.bends * weights,
        )

    @property
    def _units(self) -> Float[np.ndarray, "s 1 1"]:
        """2/ℓ²."""
        return (2 / self.length_scale[self.inputs.places] ** 2)[:, None, None]

    def summed(self, matrix: Float[np.ndarray, "p m"]) -> Jet:
        """y, a jet of shape (n, m)."""
        n_rows, places, units = len(self.inputs.rows), self.inputs.places, self._units
        own, at = self.points[:, places], self.inputs.rows.T[places][:, :, None]

        def moment(parts: Float[np.ndarray, "n p"], power: int) -> Float[np.ndarray, "s n m"]:
            """Σ_p g (P_pi)^power M_pm."""
            wide = (matrix[:, :, None] * own[:, None] ** power).reshape(len(matrix), -1)
            found = (parts @ wide).reshape(n_rows, matrix.shape[1], len(places))
            return found.transpose(2, 0, 1)

        flat = self.slopes @ matrix
        first = units * (at * flat - moment(self.slopes, 1))
        second: Float[np.ndarray, "s n m"] | float = 0.0
        if self.bends is not None:
            bent = at**2 * (self.bends @ matrix) - 2 * at * moment(self.bends, 1)
            second = units * flat + units**2 * (bent + moment(self.bends, 2))
        return self.inputs.jet(self.values @ matrix, first, second)

    def moves(self) -> Iterator[Float[np.ndarray, "n p"]]:
        """∂_i g of every section, an input at a time."""
        pairs = zip(self.inputs.places, self._units, strict=True)
        return (
            unit * self.slopes * (self.inputs.rows[:, [place]] - self.points[:, place])
            for place, unit in pairs
        )

    def largest(self) -> Jet:
        """g at the nearest point."""
        top, places = self.values.argmax(axis=1), self.inputs.places
        own = np.arange(len(top))
        away = (self.inputs.rows[:, places] - self.points[top][:, places]).T[:, :, None]
        first = self._units * away * self.slopes[own, top][:, None]
        second: Float[np.ndarray, "s n 1"] | float = 0.0
        if self.bends is not None:
            second = self._units * self.slopes[own, top][:, None]
            second = second + (self._units * away) ** 2 * self.bends[own, top][:, None]
        return self.inputs.jet(self.values[own, top][:, None], first, second)


def _profile(kind: Kind, squares: Float[np.ndarray, "n p"]) -> tuple[np.ndarray, ...]:
    """g, g′ and g″."""
    if kind == "rbf":
        value = np.exp(-squares / 2)
        return value, -value / 2, value / 4
    root = np.sqrt(5 * squares)
    decay = np.exp(-root)
    return (1 + root + 5 * squares / 3) * decay, -5 / 6 * (1 + root) * decay, 25 / 12 * decay


def located(location: Location, inputs: Inputs) -> tuple[Jet, Jet]:
    """Mean and variance of a location, jets of shape (n,)."""
    covariance, points = location.covariance, location.points
    smooth, plane = covariance.smooth, covariance.plane / inputs.rows.shape[1]
    sections = _Sections.of(inputs, points, covariance.kind, covariance.length_scale)

    def along(some: _Sections, pulls: Jet, weights: Float[np.ndarray, "p 1"]) -> Jet:
        return (some.summed(weights) * smooth + pulls * plane)[..., 0]

    weights = location.coefficients[:, None]
    mean = along(sections, inputs.plane(points.T @ weights), weights) + weights.sum()
    # What is told at a row is |kR|², whose derivatives are those of k(RRᵀk) with RRᵀk held.
    at = smooth * sections.values + plane * (inputs.rows @ points.T) + 1.0
    turned = at @ location.root
    held = turned @ location.root.T
    pulls = held @ points
    plane_moved = inputs.jet(
        (inputs.rows * pulls).sum(axis=1)[:, None], pulls.T[inputs.places][:, :, None], 0.0
    )
    half = along(sections.times(held), plane_moved, np.ones((len(points), 1)))
    second = None
    if half.second is not None:
        second = 2 * half.second
        for number, (place, moved) in enumerate(zip(inputs.places, sections.moves(), strict=True)):
            moved = (smooth * moved + plane * points[:, place]) @ location.root
            second[number] += 2 * (moved**2).sum(axis=1) * inputs.first[number] ** 2
    told = Jet((turned**2).sum(axis=1), 2 * half.first, second)
    left = inputs.squares() * plane + (smooth + 1.0) - told
    return mean, where(left.value > 0, left, left * 0.0)


def scaled(variance: Jet, location: Location, factor: float) -> Jet:
    """The scale of a bell."""
    return sqrt(variance + location.noise) * factor


def tilting(
    functions: InputFunctions, coefficients: Float[np.ndarray, "m k"], inputs: Inputs
) -> Jet:
    """Aᵀψ, a jet of shape (n, k)."""
    sections = _Sections.of(inputs, functions.points, functions.kind, functions.length_scale, WIDER)
    nearest = sections.largest() * float(len(WIDER))
    near = where(nearest.value < 1, nearest, nearest * 0.0 + 1.0)
    n_plain = 1 + len(functions.length_scale)
    inside = (inputs.rows > functions.low) & (inputs.rows < functions.high)
    inside = inside.T[inputs.places]
    held = inputs._replace(
        rows=np.clip(inputs.rows, functions.low, functions.high),
        first=inputs.first * inside,
        second=None if inputs.second is None else inputs.second * inside,
    )
    plane = held.plane(coefficients[1:n_plain]) + coefficients[0]
    return near * plane + sections.summed(functions.whitening @ coefficients[n_plain:])
