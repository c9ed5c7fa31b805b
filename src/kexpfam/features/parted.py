"""Products of features in two float16 parts, for processors that multiply those many times faster.

A feature f, at most one in size, is kept as a sum of two,

    f = h + l/s + r,     h = f rounded to 11 bits,   l = s(f − h) rounded to 11 bits,   s = 2¹¹,

with |r| ≤ 2⁻²³. Of the product f gᵀ = h hᵀ + (h lᵀ + l hᵀ)/s + …, what is left out is at most 2⁻²⁴.
Of the symmetric blocks, h lᵀ gives l hᵀ too: seven products of half the functions instead of eight.

Products of float16 numbers are exact in float32, but matrix units add them up in float32 and cut
off what does not fit, always toward zero: a sum of 4096 squares comes out smaller by 2·10⁻⁵ of
itself (measured; twice as much for twice the rows). Hence only this many rows are added up there,
and the sums of such groups in float64. Means of products that cancel are off by less than 10⁻⁶.

| symbol | name          | shape   |
|--------|---------------|---------|
| h      | high          | (q, n), in groups (q, g, k) |
| l      | low           | the same |
| k      | ROWS_TOGETHER | ()      |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["ROWS_TOGETHER", "Parts", "parted_products", "parted_sums", "parts_of"]

# Rows in a group. Half of them would halve the error, for a tenth more time.
ROWS_TOGETHER = 4096
_SCALE = 2.0**11
# A float32 has 13 bits more than a float16: half of the last is added, then they are cut off.
_HALF, _KEPT = 0x1000, 0xFFFFE000


class Parts(NamedTuple):
    """Lines in two parts and in groups of rows."""

    high: Float[Array, "q g k"]
    low: Float[Array, "q g k"]


def parts_of(lines: Float[Any, "q n"]) -> Parts:
    """Both parts of float32 lines of at most one in size, filled up with zeros to whole groups."""
    count, n_rows = lines.shape
    size = min(ROWS_TOGETHER, n_rows)
    grouped = jnp.pad(lines, ((0, 0), (0, -n_rows % size))).reshape(count, -1, size)
    # By bits: a compiler may leave out a rounding there and back, and the low part with it.
    bits = jax.lax.bitcast_convert_type(grouped, jnp.uint32)
    rounded = jax.lax.bitcast_convert_type((bits + _HALF) & _KEPT, jnp.float32)
    low = _SCALE * (grouped - rounded)
    return Parts(rounded.astype("float16"), low.astype("float16"))


def parted_products(one: Parts, other: Parts) -> Float[Array, "t t"]:
    """The upper half of t tᵀ for lines t = [one, other]."""
    nothing = jnp.zeros((len(other.high), len(one.high)))
    low = _summed(one.high, other.low) + _summed(one.low, other.high)
    crossed = _summed(one.high, other.high) + low / _SCALE
    return jnp.block([[_with_itself(one), crossed], [nothing, _with_itself(other)]])


def parted_sums(lines: Parts, columns: Float[Any, "n c"]) -> Float[Array, "q c"]:
    """Lines times columns of any size, which are measured by their largest numbers."""
    units = jnp.maximum(jnp.abs(columns).max(axis=0), 1e-300)
    high, low = parts_of((columns / units).T.astype("float32"))
    # Reading the lines takes longer than multiplying them: both parts of the columns at once.
    by_high, by_low = jnp.split(_summed(lines.high, jnp.concatenate([high, low])), 2, axis=1)
    return units * (by_high + (by_low + _summed(lines.low, high)) / _SCALE)


def _with_itself(parts: Parts) -> Float[Array, "q q"]:
    low = _summed(parts.high, parts.low) / _SCALE
    return _summed(parts.high, parts.high) + low + low.T


def _summed(one: Float[Array, "q g k"], other: Float[Array, "p g k"]) -> Float[Array, "q p"]:
    """Products summed within groups in float32, over groups in float64."""
    groups = jnp.einsum("igk,jgk->gij", one, other, preferred_element_type="float32")
    return groups.sum(axis=0, dtype="float64")
