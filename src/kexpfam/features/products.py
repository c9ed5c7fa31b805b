"""Sums of products t tᵀ over rows: the matrix product that a fit spends its time in.

The result is symmetric, and only its upper half is computed: by bands of lines, each
multiplied with the lines from its own first on,

    flops = n m (m + band)   instead of   2 n m²,

with functions in lines and rows in columns, which is the layout that XLA's CPU product is fast in
(four times faster than rows in lines). On a CPU, BLAS has a routine for just this, which is faster
again by half and adds to the sums in place. What stands below the diagonal is not meant to be read.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg.blas import dsyrk, ssyrk

__all__ = ["add_upper_products", "from_upper_half", "upper_products"]

_NARROWEST, _MOST_BANDS = 256, 8


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


def add_upper_products(
    sums: Float[np.ndarray, "t t"] | None, lines: Float[np.ndarray, "t n"]
) -> Float[np.ndarray, "t t"]:
    """Sums with lines · linesᵀ added to their upper half, in place, by BLAS."""
    if sums is None:
        sums = np.zeros((len(lines), len(lines)), order="F")
    if lines.dtype == np.float32:
        sums += ssyrk(1.0, lines.T, trans=1)
        return sums
    return dsyrk(1.0, lines.T, beta=1.0, c=sums, trans=1, overwrite_c=1)


def from_upper_half(matrix: Float[Any, "t t"]) -> Float[Array, "t t"]:
    """The symmetric matrix whose upper half this is."""
    return jnp.triu(matrix) + jnp.triu(matrix, 1).T
