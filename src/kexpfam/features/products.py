"""Sums of products t tᵀ over rows: the matrix product that a fit spends its time in.

The result is symmetric, and only its upper half is computed: by bands of lines, each
multiplied with the lines from its own first on,

    flops = n m (m + band)   instead of   2 n m²,

with functions in lines and rows in columns, which is the layout that XLA's CPU product is fast in
(four times faster than rows in lines). On a CPU, BLAS multiplies tiles of the upper half and they
are added to the sums in place. On an accelerator, bands would be copied before they are multiplied;
cosines and sines stay apart there, as two symmetric products and a square one,

    t = [c, s],     t tᵀ = [[c cᵀ, c sᵀ], [., s sᵀ]].

What stands below the diagonal is not meant to be read.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kexpfam.threads import in_threads

__all__ = [
    "add_upper_products",
    "from_upper_half",
    "products_of_halves",
    "upper_products",
]

_NARROWEST, _MOST_BANDS = 256, 8
_NARROWEST_TILE, _WIDEST_TILE = 128, 256
# So few functions are one symmetric product: smaller ones would not fill an accelerator.
_WHOLE = 2048


@jax.custom_vjp
def upper_products(lines: Float[Any, "t n"]) -> Float[Array, "t t"]:
    """The upper half of lines · linesᵀ."""
    count = lines.shape[0]
    band = max(_NARROWEST, count // _MOST_BANDS)
    bands = []
    for first in range(0, count, band):
        # Accelerators would multiply float32 in a shorter format unless told.
        product = jnp.matmul(lines[first : first + band], lines[first:].T, precision="highest")
        bands.append(jnp.pad(product, ((0, 0), (first, 0))))
    return jnp.concatenate(bands)


def _upper_products_forward(lines: Any) -> Any:
    return upper_products(lines), lines


def _upper_products_backward(lines: Any, slope: Any) -> Any:
    # Both factors are the same: one product instead of one for each.
    upper = jnp.triu(slope)
    return (jnp.matmul(upper + upper.T, lines, precision="highest"),)


upper_products.defvjp(_upper_products_forward, _upper_products_backward)


@jax.custom_vjp
def products_of_halves(
    first: Float[Any, "q n"], second: Float[Any, "p n"]
) -> Float[Array, "q+p q+p"]:
    """The upper half of t tᵀ for t = [first, second], by the accelerator's own routines."""
    if len(first) + len(second) <= _WHOLE:
        return _symmetric(jnp.concatenate([first, second]))
    crossed = jnp.matmul(first, second.T, precision="highest")
    nothing = jnp.zeros((len(second), len(first)), crossed.dtype)
    return jnp.block([[_symmetric(first), crossed], [nothing, _symmetric(second)]])


def _symmetric(lines: Float[Any, "q n"]) -> Float[Array, "q q"]:
    """The upper half of lines · linesᵀ; JAX gives the lower one."""
    nothing = jnp.zeros((len(lines), len(lines)), lines.dtype)
    return jax.lax.linalg.symmetric_product(lines, nothing).T


def _products_of_halves_forward(first: Any, second: Any) -> Any:
    return products_of_halves(first, second), (first, second)


def _products_of_halves_backward(halves: Any, slope: Any) -> Any:
    (slopes,) = _upper_products_backward(jnp.concatenate(halves), slope)
    return slopes[: len(halves[0])], slopes[len(halves[0]) :]


products_of_halves.defvjp(_products_of_halves_forward, _products_of_halves_backward)


def add_upper_products(
    sums: Float[np.ndarray, "t t"] | None, lines: Float[np.ndarray, "t n"]
) -> Float[np.ndarray, "t t"]:
    """Sums with lines · linesᵀ added to their upper half, in place, by BLAS.

    Tile by tile, in threads: those of BLAS wait busily for more work, and would keep the cores
    from compiled code that makes the next lines.
    """
    count = len(lines)
    if sums is None:
        sums = np.zeros((count, count))
    width = min(max(count // 4, _NARROWEST_TILE), _WIDEST_TILE)
    bands = [slice(first, first + width) for first in range(0, count, width)]

    def add(tile: tuple[slice, slice]) -> None:
        one, other = tile
        sums[one, other] += lines[one] @ lines[other].T

    # Squares on the diagonal are half the work, and come last.
    tiles = sorted(combinations_with_replacement(bands, 2), key=lambda tile: tile[0] == tile[1])
    for _ in in_threads(add, tiles):
        pass
    return sums


def from_upper_half(matrix: Float[Any, "t t"]) -> Float[Array, "t t"]:
    """The symmetric matrix whose upper half this is."""
    return jnp.triu(matrix) + jnp.triu(matrix, 1).T
