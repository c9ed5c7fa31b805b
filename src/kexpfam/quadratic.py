"""The quadratic objective hᵀβ + ½ βᵀHβ, and derivatives of functions of rows along directions.

| symbol | name      | shape  |
|--------|-----------|--------|
| H      | quadratic | (m, m) |
| h      | linear    | (m,)   |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["QuadraticSystem", "along", "twice_along"]


class QuadraticSystem(NamedTuple):
    """The objective's quadratic and linear parts, per unit of weight."""

    quadratic: Float[Array, "m m"]
    linear: Float[Array, " m"]


def along(
    function: Callable[[Array], Any], rows: Float[Any, "n d"], direction: Float[Any, " d"]
) -> tuple[Any, Any]:
    """A function of rows and its derivative along one direction, row by row."""
    return jax.jvp(function, (rows,), (jnp.broadcast_to(direction, rows.shape),))


def twice_along(
    function: Callable[[Array], Any], rows: Float[Any, "n d"], direction: Float[Any, " d"]
) -> tuple[Any, Any, Any]:
    """A function of rows with its first and second derivative along one direction."""
    (value, first), (_, second) = along(lambda x: along(function, x, direction), rows, direction)
    return value, first, second
