"""Checks of the target and its bounds."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import column_or_1d, validate_data

from kexpfam.choices import as_number, nearest, shown
from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.data.weights import refuse_lone_weight
from kexpfam.exceptions import DegenerateTableError, DegenerateTableWarning

__all__ = [
    "checked_bounds",
    "checked_lattice",
    "checked_pairs",
    "refuse_degenerate",
    "refuse_outside",
]

# Fewer distinct rows than this cannot be split into folds.
_FEWEST_ROWS = 5
# With so few rows repeated targets say little; more targets than this share repeat on a lattice.
_FEWEST_FOR_LATTICE, _LATTICE_SHARE = 40, 0.25


def checked_pairs(
    estimator: Any, X: Any, y: Any, *, reset: bool
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Inputs and targets, a number for each row."""
    refuse_what_is_no_table(X)
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: give "
            "a target for each row of X. For the density of X alone take KernelExponentialFamily."
        )
    X, y = validate_data(
        estimator, X, y, dtype=np.float64, y_numeric=True, multi_output=False, reset=reset
    )
    return X, column_or_1d(y).astype(np.float64, copy=False)


def refuse_degenerate(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    names: list[str] | None,
    *,
    on_lattice: bool,
) -> None:
    """Raise if there is nothing to learn, and warn if a density is not suitable."""
    X, y, weights = (part[weights > 0] for part in (X, y, weights))
    if len(y) < _FEWEST_ROWS:
        raise ValueError(
            f"ConditionalKernelExponentialFamily needs at least {_FEWEST_ROWS} rows, since some "
            f"are held out; got n_samples = {len(y)}. Give more rows."
        )
    refuse_lone_weight(float((weights / weights.max()).sum()))
    if np.ptp(y) == 0:
        raise DegenerateTableError(
            f"y must vary; got {y[0]:g} in all {len(y)} rows. A constant has no density."
        )
    constant = np.flatnonzero(np.ptp(X, axis=0) == 0)
    if len(constant) == X.shape[1]:
        raise DegenerateTableError(
            "X must vary; all rows are equal, so that y cannot depend on them. For the density of "
            "y alone take KernelExponentialFamily().fit(y.reshape(-1, 1))."
        )
    if len(constant):
        listed = ", ".join(repr(names[j]) if names else str(j) for j in constant[:5])
        warnings.warn(
            f"Columns of X that are constant tell nothing about y and are not used: {listed}.",
            DegenerateTableWarning,
            stacklevel=4,
        )
    if not on_lattice:
        _warn_of_lattice(y)


def refuse_outside(low: float, high: float, bounds: tuple[float, float] | Literal["auto"]) -> None:
    """Raise if the smallest or largest target is outside the bounds."""
    if bounds == "auto":
        return
    for value, outside in ((low, low < bounds[0]), (high, high > bounds[1])):
        if outside:
            raise ValueError(
                f"y must lie within bounds={bounds}; there are values outside, such as {value:g}. "
                "Give wider bounds, or drop these rows."
            )


def _warn_of_lattice(y: Float[np.ndarray, " n"]) -> None:
    count = len(np.unique(y))
    if len(y) >= _FEWEST_FOR_LATTICE and count < _LATTICE_SHARE * len(y):
        warnings.warn(
            f"y has only {count} distinct values in {len(y)} rows. A density between the points "
            "of a lattice is a choice, not a measurement: use lattice='auto' for the probability "
            "of each point, or a classifier for a few grades.",
            DegenerateTableWarning,
            stacklevel=5,
        )


def checked_lattice(value: Any, solution: str) -> float | Literal["auto"] | None:
    """The step of the lattice, "auto", or None."""
    if value is None:
        return None
    if solution == "closed_form":
        raise ValueError(
            "lattice is for solution='likelihood': the closed form matches derivatives, and the "
            f"probabilities of points have none. Got lattice={shown(value)} with 'closed_form'."
        )
    if isinstance(value, str) and value == "auto":
        return "auto"
    step = as_number(value)
    if not 0 < step < np.inf:
        raise ValueError(
            "lattice must be None, 'auto' or the distance between neighboring targets, a positive "
            f"number; got {shown(value)}.{nearest(value, ['auto'])}"
        )
    return float(step)


def checked_bounds(value: Any) -> tuple[float, float] | Literal["auto"]:
    """The smallest and largest possible target; infinite for None; "auto" to find them."""
    if value is None:
        return -np.inf, np.inf
    if isinstance(value, str) and value == "auto":
        return "auto"
    try:
        low, high = value
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    low = -np.inf if low is None else as_number(low)
    high = np.inf if high is None else as_number(high)
    if not low < high:
        swapped = f" Did you mean ({high:g}, {low:g})?" if high < low else ""
        raise ValueError(
            "bounds must be None, 'auto' or a pair (low, high) with low < high, where None stands "
            f"for no bound; got {shown(value)}.{swapped}"
        )
    return float(low), float(high)
