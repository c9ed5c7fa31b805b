"""Adding rows to fitted models, removing them, and merging models: for all estimators."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

import jax
import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kexpfam.data.rows import RowSource
from kexpfam.estimators.reading import read_rows
from kexpfam.exceptions import SingularSystemError
from kexpfam.pipeline.adding import NOT_SEEN
from kexpfam.progress import Progress
from kexpfam.types import Table, Weights

__all__ = ["SUMS_LEFT_OUT", "AdditiveRows", "AdditiveSums"]


class AdditiveSums:
    """`merge` and `emptied`, for estimators that are solved from sums over rows."""

    verbose: bool

    @abstractmethod
    def _with_rows(self, source: RowSource, sign: float) -> Self:
        """Solve again from the sums, after adding or removing the rows of a source."""

    @abstractmethod
    def _with_sums_of(self, other: Self) -> Self:
        """Solve again, after adding the sums of another model."""

    @abstractmethod
    def _choices(self) -> Any:
        """What sums over rows depend on, as a tree of arrays."""

    @abstractmethod
    def _empty(self) -> None:
        """Remove all rows and keep the settings that were chosen."""

    def _can_take_rows(self) -> bool:
        """Whether rows can be added; if not, an AttributeError says why."""
        return True

    def _without_rows(self, source: RowSource) -> Self:
        """Remove rows. Sums that no rows can have mean that some rows were never added."""
        try:
            return self._with_rows(source, -1.0)
        except SingularSystemError as error:
            raise SingularSystemError(f"{NOT_SEEN} What was left gave: {error}") from error

    def merge(self, other: Self) -> Self:
        """Add the rows that another model has seen.

        Parameters
        ----------
        other : fitted model
            A model with the same units, base density, frequencies and noise: a copy of this model,
            or of `emptied()`, that was fitted to other rows.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if type(other) is not type(self):
            raise TypeError(
                f"other must be a fitted {type(self).__name__}, like this one; got an object of "
                f"type {type(other).__name__}."
            )
        check_is_fitted(other)
        leaves = [jax.tree.leaves(model._choices()) for model in (self, other)]
        if len(leaves[0]) != len(leaves[1]) or not all(map(np.array_equal, *leaves)):
            raise ValueError(
                "Models can be merged that share units, base density, frequencies and noise scale; "
                "these differ. Start both from one fitted model: copy.deepcopy(model.emptied())."
            )
        return self._with_sums_of(other)

    def emptied(self) -> Self:
        """A copy with all chosen settings and without rows, to start `partial_fit` elsewhere.

        Returns
        -------
        estimator
            An estimator of the same class with the same chosen settings.
        """
        check_is_fitted(self)
        empty = copy.copy(self)
        empty._empty()
        return empty


class AdditiveRows(AdditiveSums):
    """`partial_fit` and `forget`, for densities of rows."""

    @abstractmethod
    def fit(self, X: Table, y: object = None, sample_weight: Weights = None) -> Self: ...

    def _fit_first(self, X: Table, sample_weight: Weights) -> Self:
        """Fit to the first rows, to which others will be added."""
        return self.fit(X, None, sample_weight)

    @available_if(lambda model: model._can_take_rows())
    def partial_fit(self, X: Table, y: object = None, sample_weight: Weights = None) -> Self:
        """Add the rows of X to those that the model was fitted to.

        The first call is `fit`: it chooses units, base density, frequencies and hyperparameters.
        Later calls keep these, add to the sums over rows and solve again.

        Parameters
        ----------
        X, sample_weight : as in `fit`
        y : ignored

        Returns
        -------
        self
        """
        try:
            check_is_fitted(self)
        except NotFittedError:
            return self._fit_first(X, sample_weight)
        return self._with_rows(self._further(X, sample_weight), 1.0)

    def forget(self, X: Table, sample_weight: Weights = None) -> Self:
        """Remove the rows of X from the sums, exactly (up to rounding).

        The base density, the frequencies and the hyperparameters, which were chosen with these
        rows, stay the same. To remove their influence altogether, fit again without them.

        Parameters
        ----------
        X, sample_weight : as in `fit`

        Returns
        -------
        self
        """
        check_is_fitted(self)
        return self._without_rows(self._further(X, sample_weight))

    def _further(self, X: Any, sample_weight: Any) -> RowSource:
        return read_rows(self, X, sample_weight, Progress(self.verbose), first=False)


SUMS_LEFT_OUT = (
    "This model was saved without its sums over rows: it can predict, but rows cannot be added or "
    "removed. Save it with sums=True, or fit again."
)
