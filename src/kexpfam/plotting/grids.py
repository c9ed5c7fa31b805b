"""Windows around rows, grids in them, and regions of highest density.

The region of highest density with mass m is {x : p(x) ≥ t} with the threshold t for which
∫_{p ≥ t} p dx = m: the smallest region that holds m. On a grid of cells with volume v the integral
is a sum over cells in the order of their density.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from kexpfam.choices import whole
from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.exceptions import FlowWarning

__all__ = [
    "Window",
    "cell_middles",
    "checked_window",
    "density_thresholds",
    "evaluate",
    "fitted_attribute",
    "grid_rows",
    "log_densities",
    "rows_for",
]

# Rows drawn from a model to see where it lives.
_N_DRAWS = 500
_MARGIN = 0.15


class Window(NamedTuple):
    """A box."""

    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]

    @property
    def widths(self) -> Float[np.ndarray, " d"]:
        return self.high - self.low


def evaluate(function: Any, rows: Any, *arguments: Any) -> np.ndarray:
    """What a model's method gives, without warnings that concern a grid and not the user.

    The corners of a grid lie far from the data, and its columns have no names.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowWarning)
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(function(rows, *arguments))


def log_densities(model: Any, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """log p of an estimator, or of a density with `log_density`."""
    function = getattr(model, "score_samples", None) or getattr(model, "log_density", None)
    if function is None:
        raise TypeError(
            "model must have score_samples(X) or log_density(X); got an object of type "
            f"{type(model).__name__}."
        )
    return evaluate(function, rows)


def fitted_attribute(model: Any, name: str) -> Any:
    """What a fitted model has under this name; None where its kind of model has no such thing."""
    if hasattr(model, "get_params"):
        check_is_fitted(model)
    return getattr(model, name, None)


def rows_for(model: Any, X: Any) -> Float[np.ndarray, "n d"]:
    """The rows of X, checked against the columns that the model was fitted to."""
    refuse_what_is_no_table(X)
    if hasattr(model, "n_features_in_"):
        rows = evaluate(lambda X: validate_data(model, X, reset=False, dtype=np.float64), X)
    else:
        rows = check_array(X, dtype=np.float64, input_name="X")
    return rows


def checked_window(model: Any, X: Any, limits: Any) -> Window:
    """`limits`, else a box around the rows of X, else around draws of the model."""
    if limits is not None:
        return _given_window(limits, getattr(model, "n_features_in_", None))
    if not any(hasattr(model, name) for name in ("score_samples", "log_density", "gradient")):
        raise TypeError(
            "model must be a fitted estimator (with score_samples(X) and gradient(X)) or a density "
            "(with log_density(X) and gradient(X)); got an object of type "
            f"{type(model).__name__}. The order of arguments is model, X."
        )
    rows = rows_for(model, model.sample(_N_DRAWS, random_state=0) if X is None else X)
    low, high = rows.min(axis=0), rows.max(axis=0)
    widths = np.where(high > low, high - low, 1.0)
    return Window(low - _MARGIN * widths, high + _MARGIN * widths)


def _given_window(limits: Any, n_columns: int | None) -> Window:
    try:
        pairs = np.asarray(limits, dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.array(np.nan)
    shapes = {(pairs.size // 2 if n_columns is None else n_columns, 2)}
    if (
        pairs.shape not in shapes
        or not np.isfinite(pairs).all()
        or not (pairs[:, 0] < pairs[:, 1]).all()
    ):
        count = "" if n_columns is None else f", {n_columns} in all"
        raise ValueError(
            f"limits must be a pair of finite numbers (low, high) with low < high for each column"
            f"{count}; got {limits!r}. Try limits=[(-1, 1), (0, 5)]."
        )
    return Window(pairs[:, 0], pairs[:, 1])


def cell_middles(window: Window, side: int) -> list[Float[np.ndarray, " side"]]:
    """Middles of `side` cells along each column."""
    side = whole("n_points", side, least=2)
    steps = (np.arange(side) + 0.5) / side
    return [low + steps * width for low, width in zip(window.low, window.widths, strict=True)]


def grid_rows(axes: Sequence[Float[np.ndarray, " _"]]) -> Float[np.ndarray, "n d"]:
    """All points of a grid as rows; the first column runs fastest."""
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes))


def density_thresholds(
    densities: Float[np.ndarray, "*shape"], volume: float, masses: Sequence[float]
) -> Float[np.ndarray, " k"]:
    """Thresholds of the highest-density regions with the given masses.

    Zero where the cells hold less than the mass asked for. Where they hold more than one (a
    coarse grid on a narrow peak), masses are shares of what they hold.
    """
    shares = np.asarray(masses, dtype=np.float64)
    falling = np.sort(densities.ravel())[::-1]
    held = np.cumsum(falling) * volume
    held /= max(held[-1], 1.0)
    return np.append(falling, 0.0)[np.searchsorted(held, shares)]
