"""Which values make a row unusual, for estimators of tables of numbers."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from kexpfam.choices import as_number, shown
from kexpfam.estimators.frames import FramesOut
from kexpfam.model import RealDensity
from kexpfam.types import Table

__all__ = ["SurprisingValues"]

# Rows whose grids are in memory at the same time.
_ROWS = 64


class SurprisingValues(FramesOut):
    """`surprise` and `expected_range`, for an estimator with a fitted density."""

    @property
    @abstractmethod
    def density_(self) -> RealDensity: ...

    def surprise(self, X: Table) -> Table:
        """How surprising each value is, given the other values of its row.

        The surprise of a value is −log of the probability, given the other values of the row, of a
        value that is no likelier. It is zero for the likeliest value, 3 for one in twenty, 4.6 for
        one in a hundred and 6.9 for one in a thousand. If a row is unusual, look at the column with
        the largest surprise first. If the model maps columns to nearly normal ones
        (`KernelDiffusion.marginals_`), densities are compared after that map.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        surprise : ndarray or data frame of shape (n_samples, n_features)

        Examples
        --------
        >>> import numpy as np
        >>> from kexpfam import KernelDiffusion
        >>> X = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 500)
        >>> model = KernelDiffusion(random_state=0).fit(X)
        >>> surprise = model.surprise([[1.0, 1.0], [1.5, -1.5]])
        >>> bool(surprise[0].max() < 1 < 5 < surprise[1].min())
        True
        """
        rows = self._checked_rows(X)  # type: ignore[attr-defined]
        pieces = [
            self.density_.column_grids(rows[start : start + _ROWS]).surprise()
            for start in range(0, len(rows), _ROWS)
        ]
        return self._framed(X, np.concatenate(pieces))

    def expected_range(self, X: Table, coverage: float = 0.9) -> tuple[Table, Table]:
        """The range in which each value was expected, given the other values of its row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        coverage : float, default=0.9
            The probability of the range given the other values; the probabilities below and above
            are equal.

        Returns
        -------
        low, high : ndarrays or data frames of shape (n_samples, n_features)
        """
        if not 0 < as_number(coverage) < 1:
            raise ValueError(f"coverage must be a number between 0 and 1; got {shown(coverage)}.")
        rows = self._checked_rows(X)  # type: ignore[attr-defined]
        lows: list[np.ndarray] = []
        highs: list[np.ndarray] = []
        for start in range(0, len(rows), _ROWS):
            grids = self.density_.column_grids(rows[start : start + _ROWS])
            for found, ends in zip(grids.interval(float(coverage)), (lows, highs), strict=True):
                ends.append(self.density_.from_columns(found))
        return self._framed(X, np.concatenate(lows)), self._framed(X, np.concatenate(highs))
