"""Rows added to a fitted model and taken away again: what both estimators share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kexpfam.data.rows import RowSource
from kexpfam.estimators.reading import read_rows
from kexpfam.progress import Progress

__all__ = ["AdditiveRows"]


class AdditiveRows:
    """`partial_fit` and `forget`, for an estimator that is solved from sums over rows."""

    verbose: bool

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self: ...

    @abstractmethod
    def _with_rows(self, source: RowSource, sign: float) -> Self:
        """Solve again, from sums with the rows of a source added or taken away."""

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add the rows of X to those that the model has seen.

        The first call is `fit`: it chooses units, base density, frequencies and hyper-parameters.
        Later calls keep these, add to the sums over rows and solve again.

        Parameters
        ----------
        X, sample_weight : as in `fit`
        y : ignored
        """
        try:
            check_is_fitted(self)
        except NotFittedError:
            return self.fit(X, y, sample_weight)
        return self._add(X, sample_weight, 1.0)

    def forget(self, X: Any, sample_weight: Any = None) -> Self:
        """Take the rows of X out of the sums again, exactly (up to rounding).

        What was chosen with them in sight stays as it was: base density, frequencies and
        hyper-parameters. To forget rows altogether, fit again without them.

        Parameters
        ----------
        X, sample_weight : as in `fit`
        """
        check_is_fitted(self)
        return self._add(X, sample_weight, -1.0)

    def _add(self, X: Any, sample_weight: Any, sign: float) -> Self:
        source = read_rows(self, X, sample_weight, Progress(self.verbose), first=False)
        return self._with_rows(source, sign)
