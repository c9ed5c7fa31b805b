"""The input of a test: rows, and the gradient of the model at the rows.

| symbol          | name      | shape  |
|-----------------|-----------|--------|
| x               | rows      | (n, d) |
| s(x) = ∇log p(x)| gradients | (n, d) |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.utils import check_array

from kexpfam.data.tables import refuse_what_is_no_table

__all__ = ["LEAST_ROWS", "Observed", "observe"]

# The null distributions are limits for many rows; with fewer than this they mean nothing.
LEAST_ROWS = 10


class Observed(NamedTuple):
    """Rows and the gradient of the model's log density at each of them."""

    rows: Float[np.ndarray, "n d"]
    gradients: Float[np.ndarray, "n d"]

    def take(self, chosen: Any) -> Observed:
        """Some of the rows, by number."""
        return Observed(self.rows[chosen], self.gradients[chosen])


def observe(model: Any, X: Any) -> Observed:
    """Check the rows, evaluate the model's gradient there, and check that."""
    refuse_what_is_no_table(X)
    rows = check_array(X, dtype=np.float64, input_name="X")
    n_rows, n_columns = rows.shape
    least = max(LEAST_ROWS, n_columns + 1)
    if n_rows < least:
        raise ValueError(
            f"Expected at least {least} rows for {n_columns} columns (more rows than columns, and "
            f"no fewer than {LEAST_ROWS}); got {n_rows}. Bring more rows, or test fewer columns."
        )
    found = _evaluated(model, X, rows)
    try:
        gradients = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"Expected the model's gradient as an array of numbers; got an object of type "
            f"{type(found).__name__}."
        ) from None
    if gradients.shape != rows.shape:
        raise ValueError(
            f"Expected the model's gradient in the shape of the rows, {rows.shape}; got "
            f"{gradients.shape}. It must return ∇log p at every row, one number per column."
        )
    broken = np.flatnonzero(~np.isfinite(gradients).all(axis=1))
    if broken.size:
        raise ValueError(
            f"Expected a finite gradient at every row; at {broken.size} of {n_rows} it is not "
            f"(first at row {broken[0]}). The model must be positive and smooth where there are "
            "rows: remove rows outside its support."
        )
    return Observed(rows, gradients)


def _evaluated(model: Any, X: Any, rows: Float[np.ndarray, "n d"]) -> Any:
    if hasattr(model, "gradient") and not isinstance(model, type):
        # An estimator fitted to a frame warns when the names of the columns are missing; any
        # other model has a right to plain arrays.
        return np.asarray(model.gradient(X if hasattr(model, "feature_names_in_") else rows))
    if callable(model) and not isinstance(model, type):
        return model(rows)
    kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise ValueError(
        "model must have a method gradient(X), or be a function that maps rows (n, d) to ∇log p "
        f"(n, d); got {kind}. The order of arguments is model, X."
    )
