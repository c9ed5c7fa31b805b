"""Numbers with their first and second derivatives along several directions (forward mode).

    u + v      uv: u″v + 2u′v′ + uv″      f(u): f′u′,  f″u′² + f′u″

For functions that are evaluated at a few rows now and then, where compiling would take a thousand
times as long as computing. Directions come first: a value of shape S has derivatives of a shape
that broadcasts to (directions, *S), whose first axis may be one long for all directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

__all__ = ["Jet", "exp", "log", "logaddexp", "logsumexp", "ndtr", "ndtri", "sqrt", "where"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class Jet:
    """A value and its derivatives; without second ones, nothing is computed for them."""

    __slots__ = ("first", "second", "value")
    # NumPy leaves operators between its arrays and jets to jets.
    __array_ufunc__ = None

    def __init__(self, value: Any, first: Any, second: Any = None) -> None:
        self.value = value
        self.first, self.second = (
            part
            if part is None or part.shape[1:] == value.shape
            else np.broadcast_to(part, (part.shape[0], *value.shape))
            for part in (first, second)
        )

    def through(self, value: Any, slope: Any, bend: Any) -> Jet:
        """f of it, from f, f′ and f″ at its value."""
        second = None if self.second is None else bend * self.first**2 + slope * self.second
        return Jet(value, slope * self.first, second)

    def _each(self, change: Callable[[Any], Any]) -> Jet:
        """Something linear of the value and of its derivatives."""
        second = None if self.second is None else change(self.second)
        return Jet(change(self.value), change(self.first), second)

    def __add__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return Jet(self.value + other, self.first, self.second)
        second = None if self.second is None else self.second + other.second
        return Jet(self.value + other.value, self.first + other.first, second)

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return self * -1.0

    def __sub__(self, other: Any) -> Jet:
        return self + (-other)

    def __rsub__(self, other: Any) -> Jet:
        return -self + other

    def __mul__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return self._each(lambda part: part * other)
        second = None
        if self.second is not None:
            second = self.second * other.value + 2 * self.first * other.first
            second = second + self.value * other.second
        first = self.first * other.value + self.value * other.first
        return Jet(self.value * other.value, first, second)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Jet:
        if isinstance(other, Jet):
            inverse = 1 / other.value
            return self * other.through(inverse, -(inverse**2), 2 * inverse**3)
        return self * (1 / other)

    def square(self) -> Jet:
        """Its square."""
        return self.through(self.value**2, 2 * self.value, 2.0)

    def __getitem__(self, place: Any) -> Jet:
        """Select along trailing axes, by an index that begins with an ellipsis."""
        return self._each(lambda part: part[place])

    def sum(self, axis: int) -> Jet:
        """Over one of the last axes."""
        return self._each(lambda part: part.sum(axis=axis))


def exp(x: Jet) -> Jet:
    """eˣ."""
    value = np.exp(x.value)
    return x.through(value, value, value)


def log(x: Jet) -> Jet:
    """The natural logarithm."""
    inverse = 1 / x.value
    return x.through(np.log(x.value), inverse, -(inverse**2))


def sqrt(x: Jet) -> Jet:
    """The square root."""
    root = np.sqrt(x.value)
    return x.through(root, 0.5 / root, -0.25 / root**3)


def logsumexp(x: Jet) -> Jet:
    """Over the last axis."""
    top = x.value.max(axis=-1, keepdims=True)
    return log(exp(x - top).sum(axis=-1)) + top[..., 0]


def logaddexp(one: Jet, other: Jet) -> Jet:
    """log(eˣ + eʸ), where one of them may be minus infinity."""
    top = np.maximum(one.value, other.value)
    return log(exp(one - top) + exp(other - top)) + top


def ndtr(x: Jet) -> Jet:
    """The distribution function of a standard normal."""
    density = np.exp(-(x.value**2) / 2 - _HALF_LOG_TWO_PI)
    return x.through(special.ndtr(x.value), density, -x.value * density)


def ndtri(share: Jet) -> Jet:
    """Its inverse."""
    x = special.ndtri(share.value)
    slope = np.exp(x**2 / 2 + _HALF_LOG_TWO_PI)
    return share.through(x, slope, x * slope**2)


def where(condition: Any, one: Jet, other: Jet) -> Jet:
    """One or the other."""
    second = None if one.second is None else np.where(condition, one.second, other.second)
    return Jet(
        np.where(condition, one.value, other.value),
        np.where(condition, one.first, other.first),
        second,
    )
