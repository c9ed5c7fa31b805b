"""The width of the kernel: given, or the median distance between two rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import pdist

from kexpfam.choices import positive_number

__all__ = ["median_distance", "resolve_width"]

# Half a million pairs tell the median to a fraction of a percent.
_SAMPLE = 1000


def resolve_width(
    width: Any, rows: Float[np.ndarray, "n d"], generator: np.random.Generator
) -> float:
    """A positive number: `width` itself, or the median distance for "median"."""
    if isinstance(width, str) and width == "median":
        return median_distance(rows, generator)
    return positive_number("width", width, otherwise="'median'")


def median_distance(rows: Float[np.ndarray, "n d"], generator: np.random.Generator) -> float:
    """The median distance between two rows, over at most 1000 rows drawn at random."""
    if len(rows) > _SAMPLE:
        rows = rows[generator.choice(len(rows), _SAMPLE, replace=False)]
    # Distances between rows of 1e200 would overflow when squared.
    magnitude = float(np.abs(rows).max())
    median = float(np.median(pdist(rows / magnitude))) * magnitude if magnitude else 0.0
    if not median > 0:
        raise ValueError(
            "width='median' expects rows that differ, but the median distance between two rows is "
            "zero: at least half of the pairs are copies. Remove the copies, or give the width as "
            "a number."
        )
    return median
