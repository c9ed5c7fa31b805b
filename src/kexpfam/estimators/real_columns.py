"""The columns of estimators that only take real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.data.kinds import ColumnKind
from kexpfam.types import Array, Table

__all__ = ["RealColumns"]


class RealColumns:
    """`column_kinds_` and `as_numbers`, as `KernelChain` has them for mixed tables."""

    n_features_in_: int

    @property
    def column_kinds_(self) -> dict[Any, ColumnKind]:
        """The kind of each column: a real number."""
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return dict.fromkeys(names, ColumnKind("real"))

    def as_numbers(self, X: Table) -> Array:
        """X as the rows of numbers that `density_` takes.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return np.asarray(X, float)
