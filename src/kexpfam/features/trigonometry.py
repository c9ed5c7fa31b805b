"""Cosine and sine together, in arithmetic that every processor does several numbers at a time.

XLA's own float64 cosine on a CPU calls the mathematics library number by number, and takes longer
than the matrix product it feeds. Here the angle is reduced by a multiple of π/2 kept in three parts
(Cody and Waite 1980),

    r = θ − k (p₁ + p₂ + p₃),   k = round(2θ/π),   |r| ≤ π/4,

and both functions are Taylor polynomials in r², of degree 15 and 16: the first terms left out are
below half a unit in the last place. For |θ| < 10⁶ the result is that of the library up to one unit
in the last place; far beyond, where a float64 no longer knows its own angle, it stays between −1
and 1.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["cosine_and_sine"]

# π/2 in parts whose products with a number of turns are exact, and the terms of both series.
_DOUBLE_PARTS = tuple(
    float.fromhex(text)
    for text in ("0x1.921fb54400000p+0", "0x1.0b4611a600000p-34", "0x1.3198a2e037073p-69")
)
_SINGLE_PARTS = (1.5703125, 4.837512969970703e-4, 7.549789948768648e-8)
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 8)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(2, 9)]
_SINGLE_TERMS = 4


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def cosine_and_sine(
    angles: Float[Any, "*shape"], single: bool = False
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """cos θ and sin θ; as float32 where `single` says so, of an angle that is reduced as it is."""
    angles = jnp.asarray(angles)
    parts = _DOUBLE_PARTS if angles.dtype == np.float64 else _SINGLE_PARTS
    turns = jnp.round(angles * (2 / math.pi))
    rest = angles
    for part in parts:
        rest = rest - turns * part
    rest = jnp.clip(rest, -0.79, 0.79)
    # The quadrant, as a float: an integer would overflow.
    quadrant = turns - 4 * jnp.floor(turns / 4)
    if single:
        rest, quadrant = rest.astype("float32"), quadrant.astype("float32")
    terms = slice(None) if rest.dtype == np.float64 else slice(_SINGLE_TERMS)
    square = rest * rest
    sine = rest + rest * square * _polynomial(_SINE[terms], square)
    cosine = 1 - square / 2 + square * square * _polynomial(_COSINE[terms], square)
    odd = (quadrant == 1) | (quadrant == 3)
    first, second = jnp.where(odd, sine, cosine), jnp.where(odd, cosine, sine)
    first = jnp.where((quadrant == 1) | (quadrant == 2), -first, first)
    return first, jnp.where(quadrant >= 2, -second, second)


@cosine_and_sine.defjvp
def _derivatives(single: bool, primals: Any, tangents: Any) -> Any:
    cosine, sine = cosine_and_sine(*primals, single)
    change = tangents[0].astype(cosine.dtype)
    return (cosine, sine), (-sine * change, cosine * change)


def _polynomial(coefficients: list[float], square: Array) -> Array:
    """Σ_k c_k square^k, by Horner's rule."""
    value = jnp.full_like(square, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * square + coefficient
    return value
