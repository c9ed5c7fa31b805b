"""Locations and functions of inputs as JAX sees them, at one row: for derivatives.

See `kexpfam.base.location`, `kexpfam.base.covariance` and `kexpfam.features.inputs` for the
formulas. Matérn's profile g(s) = (1 + √(5s) + 5s/3) exp(−√(5s)) of a squared distance s has two
derivatives at zero, which rounding would spoil; they are given in closed form,

    g′(s) = −⅚ h(s),      h(s) = (1 + √(5s)) exp(−√(5s)),      h′(s) = −(5/2) exp(−√(5s)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kexpfam.base.location import Location
from kexpfam.features.inputs import InputFunctions
from kexpfam.features.residual import BUMPS, SQUARE

__all__ = [
    "TracedFunctions",
    "TracedLocation",
    "traced_functions",
    "traced_location",
    "traced_residual_functions",
]

_WIDER = (1.0, 2.0, 4.0)


@jax.custom_jvp
def _falling(squares: Any) -> Any:
    roots = jnp.sqrt(5 * squares)
    return (1 + roots) * jnp.exp(-roots)


@_falling.defjvp
def _falling_jvp(primals: Any, tangents: Any) -> Any:
    (squares,), (change,) = primals, tangents
    slope = -2.5 * jnp.exp(-jnp.sqrt(5 * jax.lax.stop_gradient(squares)))
    return _falling(squares), slope * change


@jax.custom_jvp
def _matern(squares: Any) -> Any:
    roots = jnp.sqrt(5 * squares)
    return (1 + roots + 5 * squares / 3) * jnp.exp(-roots)


@_matern.defjvp
def _matern_jvp(primals: Any, tangents: Any) -> Any:
    (squares,), (change,) = primals, tangents
    return _matern(squares), -5 / 6 * _falling(squares) * change


def _profile(kind: str | None, squares: Any) -> Any:
    return jnp.exp(-squares / 2) if kind == "rbf" else _matern(squares)


def _squares(row: Any, points: Any, length_scale: Any) -> Any:
    return (((row - points) / length_scale) ** 2).sum(axis=1)


class TracedLocation(NamedTuple):
    """A location and its variance."""

    length_scale: Any
    smooth: Any
    plane: Any
    noise: Any
    points: Any
    coefficients: Any
    root: Any

    def predict(self, row: Any, kind: str | None) -> tuple[Any, Any]:
        """μ and v at a row."""
        squares = _squares(row, self.points, self.length_scale)
        plane = self.plane / row.shape[0]
        sections = self.smooth * _profile(kind, squares) + plane * (self.points @ row) + 1.0
        prior = self.smooth + 1.0 + self.plane * (row**2).mean()
        told = ((sections @ self.root) ** 2).sum()
        return sections @ self.coefficients, jnp.maximum(prior - told, 0.0)


def traced_location(location: Location) -> TracedLocation:
    """The arrays of a location."""
    covariance = location.covariance
    return TracedLocation(
        covariance.length_scale,
        covariance.smooth,
        covariance.plane,
        covariance.noise,
        location.points,
        location.coefficients,
        location.root,
    )


class TracedFunctions(NamedTuple):
    """ψ."""

    length_scale: Any
    points: Any
    whitening: Any
    low: Any
    high: Any

    def __call__(self, row: Any, kind: str | None) -> Any:
        squares = _squares(row, self.points, self.length_scale)
        sections = sum(_profile(kind, squares / wider**2) for wider in _WIDER) / len(_WIDER)
        near = jnp.minimum(len(_WIDER) * jnp.max(sections), 1.0)
        held = jnp.clip(row, self.low, self.high)
        return jnp.concatenate([near[None], near * held, sections @ self.whitening])


def traced_functions(functions: InputFunctions) -> TracedFunctions:
    """The arrays of functions."""
    return TracedFunctions(
        functions.length_scale,
        functions.points,
        functions.whitening,
        functions.low,
        functions.high,
    )


def traced_residual_functions(residual: Any) -> Any:
    """b at a residual within the reach."""
    centers, width = BUMPS
    line, square = jnp.tanh(residual / 2), 1 - jnp.exp(-(residual**2) / SQUARE)
    bumps = jnp.exp(-(((residual - centers) / width) ** 2) / 2)
    return jnp.concatenate([line[None], square[None], bumps])
