"""What enters a test: the rows, and the model's gradient there.

| symbol          | name      | shape  |
|-----------------|-----------|--------|
| x               | rows      | (n, d) |
| s(x) = ∇log p(x)| gradients | (n, d) |
"""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.utils import check_array, check_random_state

__all__ = ["LEAST_ROWS", "Observed", "checked_count", "make_generator", "observe"]

# The null laws are limits for many rows; with fewer than this they mean nothing.
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
    rows = check_array(X, dtype=np.float64, input_name="X")
    n_rows, n_columns = rows.shape
    least = max(LEAST_ROWS, n_columns + 1)
    if n_rows < least:
        raise ValueError(
            f"Expected at least {least} rows for {n_columns} columns (more rows than columns, and "
            f"no fewer than {LEAST_ROWS}); got {n_rows}. Bring more rows, or test fewer columns."
        )
    gradients = np.asarray(_evaluated(model, X, rows), dtype=np.float64)
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
    if hasattr(model, "gradient"):
        # An estimator fitted to a frame warns when the names of the columns are missing; any
        # other model has a right to plain arrays.
        return model.gradient(X if hasattr(model, "feature_names_in_") else rows)
    if callable(model):
        return model(rows)
    raise ValueError(
        "model must have a method gradient(X), or be a function that maps rows (n, d) to ∇log p "
        f"(n, d); got {type(model).__name__}."
    )


def make_generator(random_state: Any) -> np.random.Generator:
    """A generator from anything that scikit-learn takes for a random state, or from itself."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


def checked_count(parameter: str, value: Any, least: int = 1) -> int:
    """A whole number, at least `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not (whole and value >= least):
        raise ValueError(f"{parameter} must be a whole number ≥ {least}; got {value!r}.")
    return int(value)
