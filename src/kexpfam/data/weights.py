"""Which weights can be used: finite ones that are not negative, and whose sums are numbers.

Only the proportions of weights matter, so that no one needs 1e300; sums over many rows of such
weights, or quotients of the largest and the smallest, would overflow.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kexpfam.exceptions import DegenerateTableError

__all__ = ["refuse_lone_weight", "refuse_unusable_weights"]

_SMALLEST, _LARGEST = 1e-250, 1e250
# What must be left of the weight without the heaviest row: with less, the others' places, in units
# of the spread, are so far out that their squares are lost.
_LEAST_SHARED = 1e-12


def refuse_unusable_weights(weights: Float[np.ndarray, " n"], label: str, first: int = 0) -> None:
    """Raise if a weight cannot be used; rows count from `first`."""
    usable = (weights == 0) | ((weights >= _SMALLEST) & (weights <= _LARGEST))
    if usable.all():
        return
    row = int(np.argmin(usable))
    raise ValueError(
        f"{label}: row {first + row + 1} has the weight {weights[row]}. Expected weights that are "
        f"finite and not negative, either zero or between {_SMALLEST:g} and {_LARGEST:g}. (Only "
        "their proportions matter.)"
    )


def refuse_lone_weight(total: float) -> None:
    """Raise where one row has all the weight; the total is in units of the largest weight."""
    if total - 1 < _LEAST_SHARED:
        raise DegenerateTableError(
            "Expected several rows that count, but one row has all of the weight but "
            f"{total - 1:.1g}. A single row has no density. Give weights of similar size."
        )
