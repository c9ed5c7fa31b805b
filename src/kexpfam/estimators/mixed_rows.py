"""Checks of tables with columns of any kind, by scikit-learn as far as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from kexpfam.data.cells import library_of

__all__ = ["checked_table", "takes_tables"]


def takes_tables(estimator: Any) -> bool:
    """Whether an estimator takes words and missing values, or numbers only."""
    return bool(get_tags(estimator).input_tags.string)


def checked_table(estimator: Any, X: Any, *, reset: bool) -> Any:
    """A frame as it is, anything else as an array of numbers or objects."""
    least = 2 if reset else 1
    if library_of(X) == "numpy":
        if isinstance(X, (list, tuple)):
            # Numbers beside words would become words.
            made = np.asarray(X)
            X = np.array(X, object) if made.dtype.kind in "US" else made
        return validate_data(
            estimator,
            X,
            dtype=None,
            ensure_all_finite="allow-nan",
            ensure_min_samples=least,
            reset=reset,
        )
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    if len(X) < least:
        raise ValueError(f"X must have at least {least} rows; got {len(X)}.")
    return X
