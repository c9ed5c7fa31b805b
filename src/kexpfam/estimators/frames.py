"""Tables in the library of the rows, or in the one that `set_output` names.

A method that returns a table for rows X returns a frame with the index of X if X is a frame. Draws
are returned as the kind of table that the model was fitted to. One number per row is always an
array, as are the predictions of scikit-learn's estimators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float
from sklearn import get_config

from kexpfam.choices import checked_name
from kexpfam.data.cells import library_of

__all__ = ["FramesOut", "Library", "framed"]

Library = Literal["numpy", "pandas", "polars"]
_CONTAINERS = ("default", "pandas", "polars")


def framed(
    values: Float[np.ndarray, "n k"], names: Sequence[Any], library: Library, index: Any = None
) -> Any:
    """A frame of the library with these columns, or the array itself."""
    if library == "pandas":
        import pandas as pd

        return pd.DataFrame(values, index=index, columns=list(names))
    if library == "polars":
        import polars as pl

        return pl.DataFrame(values, schema=[str(name) for name in names])
    return values


class FramesOut:
    """`set_output`, and frames as results of an estimator's methods."""

    n_features_in_: int
    # What `fit` was given.
    _fitted_library: Library = "numpy"

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of the tables that methods return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            "pandas" and "polars" always return frames. "default" returns the kind of table that was
            given: a data frame for a data frame, an array for an array. None changes nothing. (The
            name is scikit-learn's; `sklearn.set_config` sets all estimators at once.)

        Returns
        -------
        self
        """
        if transform is not None:
            checked_name("transform", transform, _CONTAINERS)
            # Where scikit-learn keeps it, so that clones have it, too.
            self._sklearn_output_config = {"transform": transform}
        return self

    def _library(self, given: Library) -> Library:
        """The library of the result for a table of the given library."""
        config = getattr(self, "_sklearn_output_config", {})
        chosen = config.get("transform", get_config()["transform_output"])
        return given if chosen == "default" else chosen

    def _framed(
        self, X: Any, values: Float[np.ndarray, "n k"], names: Sequence[Any] | None = None
    ) -> Any:
        """A table for the rows of X, with the columns of X unless others are named."""
        if names is None:
            names = list(X.columns) if library_of(X) != "numpy" else self._column_names()
        return framed(values, names, self._library(library_of(X)), getattr(X, "index", None))

    def _drawn(self, values: Float[np.ndarray, "n d"]) -> Any:
        """Rows of the model, as the table that it was fitted to."""
        return framed(values, self._column_names(), self._library(self._fitted_library))

    def _column_names(self) -> list[Any]:
        known = getattr(self, "feature_names_in_", None)
        if known is not None:
            return list(known)
        if self._fitted_library == "pandas":
            # Columns that are numbered, of which scikit-learn keeps no names.
            return list(range(self.n_features_in_))
        return [f"x{place}" for place in range(self.n_features_in_)]
