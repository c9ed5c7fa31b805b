"""Checks of the arguments that users give."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import _check_sample_weight, validate_data

from kexpfam.choices import nearest
from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.data.weights import refuse_unusable_weights

__all__ = [
    "checked_flag",
    "checked_length_scales",
    "checked_number",
    "checked_rows",
    "checked_weights",
]


def checked_rows(estimator: Any, X: Any, **options: Any) -> Float[np.ndarray, "n d"]:
    """The rows of X, checked by scikit-learn after other input has been refused."""
    refuse_what_is_no_table(X)
    return validate_data(estimator, X, dtype=np.float64, **options)


def checked_flag(parameter: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{parameter} must be True or False; got {value!r}.")
    return bool(value)


def checked_number(parameter: str, value: Any, least: float) -> float | None:
    """A given number, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        number = float("nan")
    if not (np.isfinite(number) and number >= least):
        raise ValueError(
            f"{parameter} must be 'auto' or a number ≥ {least:g}; got {value!r}."
            f"{nearest(value, ['auto'])}"
        )
    return number


def checked_length_scales(value: Any, n_columns: int) -> Float[np.ndarray, " d"] | None:
    """Given length-scales, one per column, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    try:
        scales = np.asarray(value, float)
    except (TypeError, ValueError):
        scales = np.array(np.nan)
    if scales.shape not in {(), (1,), (n_columns,)} or not (
        np.isfinite(scales).all() and (scales > 0).all()
    ):
        raise ValueError(
            f"length_scale must be 'auto', a positive number, or {n_columns} positive numbers, "
            f"one per column; got {value!r}.{nearest(value, ['auto'])}"
        )
    return np.broadcast_to(scales, (n_columns,)).copy()


def checked_weights(sample_weight: Any, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Non-negative weights of the rows, not all zero; ones for None."""
    if isinstance(sample_weight, str):
        raise ValueError(
            "sample_weight must be the weights themselves, a number for each row; got "
            f"{sample_weight!r}. (The name of a column is for rows that are read from files.)"
        )
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    refuse_unusable_weights(weights, "sample_weight")
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all rows: there is nothing to fit.")
    return weights
