"""Symmetric matrices by their upper half, read line by line."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

__all__ = ["half_places"]


def half_places(count: int) -> Int[np.ndarray, "d d"]:
    """Where each entry of a symmetric matrix stands in its upper half."""
    places = np.zeros((count, count), int)
    one, other = np.triu_indices(count)
    places[one, other] = places[other, one] = np.arange(len(one))
    return places
