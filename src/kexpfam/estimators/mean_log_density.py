"""The mean log density of rows, by which estimators are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from kexpfam.estimators.checks import checked_rows, checked_weights
from kexpfam.types import Table, Weights

__all__ = ["MeanLogDensity"]


class MeanLogDensity:
    """`score`, for an estimator with `score_samples`."""

    def score(self, X: Table, y: object = None, sample_weight: Weights = None) -> float:
        """Mean normalized log density of the rows of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights of the rows.

        Returns
        -------
        float
        """
        logs = self.score_samples(X)  # type: ignore[attr-defined]
        return float(np.average(logs, weights=checked_weights(sample_weight, logs[:, None])))

    def _checked_rows(self, X: Any) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self)
        return checked_rows(self, X, reset=False)
