"""Symmetric matrices by their upper half, read line by line."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

__all__ = ["form_coefficients", "half_places", "upper_half"]


# Finding them takes longer than many of their uses.
_triangle = cache(np.triu_indices)


def _half(count: int) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """Rows and columns of the upper half.

    As new arrays: JAX remembers those that it has captured, in the precision that it had then.
    """
    one, other = _triangle(count)
    return one.copy(), other.copy()


def half_places(count: int) -> Int[np.ndarray, "d d"]:
    """Where each entry of a symmetric matrix stands in its upper half."""
    places = np.zeros((count, count), int)
    one, other = _half(count)
    places[one, other] = places[other, one] = np.arange(len(one))
    return places


def upper_half(matrices: Float[Any, "k d d"]) -> Float[Any, "k p"]:
    """The upper half of symmetric matrices, read line by line."""
    one, other = _half(matrices.shape[1])
    return matrices[:, one, other]


def form_coefficients(halves: Float[Any, "k p"], n_columns: int) -> Float[Any, "k p"]:
    """Coefficients of the products x_i x_j, i ≤ j, in xᵀPx: x_j x_i stands there too."""
    one, other = _half(n_columns)
    return halves * np.where(one == other, 1.0, 2.0).astype(halves.dtype)
