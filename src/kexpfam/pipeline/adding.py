"""What may go wrong when rows are added to a fit or taken away from it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

__all__ = ["NOT_SEEN", "require_rows_left", "require_rows_seen"]

NOT_SEEN = "`forget` takes rows that the model has seen, once each; were these among them?"
# Products of functions, summed over rows, have no negative eigenvalue. Rounding of sums that were
# taken away again is below this share of the largest; rows that were never there are above it.
_ROUNDING = 1e-9


def require_rows_left(weight: float, before: float) -> None:
    """Raise if more was taken away than there was."""
    if not weight > 1e-9 * abs(before):
        raise ValueError(
            "No rows would be left. `forget` takes rows that the model has seen, once each."
        )


def require_rows_seen(products: Iterable[Float[np.ndarray, "m m"]]) -> None:
    """Raise if upper halves of sums of products cannot be what is left of rows that were there."""
    for each in products:
        eigenvalues = np.linalg.eigvalsh(each, UPLO="U")
        if eigenvalues[0] < -_ROUNDING * max(abs(eigenvalues[-1]), abs(eigenvalues[0])):
            raise ValueError(f"{NOT_SEEN} The sums over what is left are not those of any rows.")
