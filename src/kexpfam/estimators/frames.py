"""Columns of numbers as the kind of data frame that the rows came in."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

__all__ = ["framed"]


def framed(X: Any, values: Float[np.ndarray, "n k"], names: list[str]) -> Any:
    """A pandas or polars frame where X is one, with the index of X; else the array."""
    library = type(X).__module__.split(".")[0]
    if library == "pandas":
        return type(X)(values, index=X.index, columns=names)
    if library == "polars":
        return type(X)(values, schema=names)
    return values
