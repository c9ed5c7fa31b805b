"""`KernelAnomalyDetector`: which rows of a table are unusual, and why."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kexpfam.choices import entropy
from kexpfam.choices import share as checked_share
from kexpfam.estimators.explanations import Explanation, explained
from kexpfam.estimators.file_checks import detector_fits
from kexpfam.estimators.mixed_rows import checked_table
from kexpfam.estimators.saving import Saved
from kexpfam.exceptions import CalibrationWarning, ModelFileError
from kexpfam.pipeline.anomalies import (
    AnomalyFit,
    expected_without_folds,
    fit_anomalies,
    read_for_anomalies,
)
from kexpfam.progress import Progress
from kexpfam.types import Array, Column, Seed, Table

__all__ = ["KernelAnomalyDetector"]


class KernelAnomalyDetector(Saved, BaseEstimator):
    """Finds unusual rows in a table of numbers and categories, at a stated false-alarm rate.

    A row is unusual if the density of the table is low there. The density pools the Gaussian
    mixtures of `KernelChain` and a nearest-neighbor density. Noise is added to every column, so
    that columns with few different values do not dominate the score. Every training row is scored
    by densities that were fitted without it (five folds), which gives the distribution of the
    scores of ordinary rows. A new row is an anomaly if its p-value, the share of training rows that
    are at least as unusual, is at most `false_alarms`.

    The interface is that of PyOD's detectors: a larger `decision_function` is more abnormal, and
    labels are 1 for anomalies and 0 for ordinary rows. This is the opposite of scikit-learn's
    `IsolationForest`, where abnormal rows have negative decision values and the label −1.
    `score_samples` is as in scikit-learn: larger is more ordinary.

    Parameters
    ----------
    false_alarms : float, default=0.01
        The share of ordinary rows that may be flagged.
    columns : None, str or mapping, default=None
        The kinds of columns for which dtype and values suggest a wrong one; see `KernelChain`.
        Numbers of all kinds are treated as real numbers.
    random_state : int, RandomState, Generator or None, default=None
        Seed of folds and starts.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    decision_scores_ : ndarray of shape (n_samples,)
        The anomaly score of each training row, from densities that were fitted without it.
    p_values_ : ndarray of shape (n_samples,)
        The share of training rows that are at least as abnormal.
    threshold_ : float
        Scores above it have a p-value of at most `false_alarms`.
    labels_ : ndarray of shape (n_samples,)
        1 for training rows above the threshold, 0 for others.
    column_kinds_ : dict
        The kind of each column.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    If the training rows are known to be ordinary, an ordinary new row is flagged with a probability
    of about `false_alarms` (conformal p-values by cross-fitting). If they contain anomalies
    themselves, `false_alarms` is the share of training rows that are flagged, which PyOD calls
    `contamination`.

    Missing values are left out and make a row neither more nor less unusual. A category that was
    never seen counts as one that occurs once in all rows. At most 50 000 distinct rows are used.
    Neighbors are searched among 4000 of them, which a file written by `save` contains in robust
    units.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam import KernelAnomalyDetector
    >>> generator = np.random.default_rng(0)
    >>> size = generator.normal(10, 2, 300)
    >>> X = np.column_stack([size, 3 * size, -size]) + generator.normal(0, 1, (300, 3))
    >>> detector = KernelAnomalyDetector(false_alarms=0.01, random_state=0).fit(X)
    >>> detector.predict([[12.0, 36.0, -12.0], [12.0, 24.0, -12.0]])
    array([0, 1])
    >>> print(detector.explain([[12.0, 24.0, -12.0]]).in_words()[0])  # doctest: +ELLIPSIS
    column 1 is 24, expected 3... to 3... given the other values
    """

    _state_kind: ClassVar[type] = AnomalyFit

    def __init__(
        self,
        *,
        false_alarms: float = 0.01,
        columns: Any = None,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.false_alarms = false_alarms
        self.columns = columns
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: object = None) -> KernelAnomalyDetector:
        """Fit the densities, and score every row by those that were fitted without it.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
            Rows that are all or mostly ordinary, with NaN or None for missing values.
        y : ignored

        Returns
        -------
        self
        """
        rate = checked_share("false_alarms", self.false_alarms)
        X = checked_table(self, X, reset=True)
        names = list(getattr(self, "feature_names_in_", [])) or None
        table, codes = read_for_anomalies(X, names, self.columns)
        seed = entropy(self.random_state)[0]
        self._restore(fit_anomalies(table, codes, seed, Progress(self.verbose)))
        if self.threshold_ == np.inf:
            n_rows = len(codes)
            warnings.warn(
                f"With {n_rows} training rows no p-value is below 1/{n_rows + 1}: no row can be an "
                f"anomaly at false_alarms={rate:g}. Give more rows, or a higher rate.",
                CalibrationWarning,
                stacklevel=2,
            )
        return self

    def _state(self, sums: bool) -> AnomalyFit:
        return self.fitted_

    def _restore(self, state: AnomalyFit) -> None:
        rate, n_rows = float(self.false_alarms), len(state.scores)
        if not detector_fits(state, self.n_features_in_):
            raise ModelFileError("the columns, densities and scores do not match")
        self.fitted_, self.decision_scores_, self.folds_ = state, state.scores, state.folds
        self._sorted = np.sort(state.scores)
        # A new row is an anomaly if at most this many training rows are as abnormal.
        allowed = int(np.floor(rate * (n_rows + 1) + 1e-9)) - 1
        self.threshold_ = float(self._sorted[n_rows - 1 - allowed]) if allowed >= 0 else np.inf
        below = np.searchsorted(self._sorted, state.scores, side="left")
        self.p_values_ = (n_rows - below) / n_rows
        self.labels_ = (self.p_values_ <= rate).astype(int)

    @property
    def contamination(self) -> float:
        """PyOD's name for `false_alarms`."""
        return self.false_alarms

    @property
    def column_kinds_(self) -> dict[Any, Any]:
        """The kind of each column."""
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return dict(zip(names, self.fitted_.table.kinds, strict=True))

    def _codes(self, X: Any) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self)
        return self.fitted_.table.codes(checked_table(self, X, reset=False))

    def decision_function(self, X: Table) -> Array:
        """The anomaly score of each row: −log density, averaged over the densities of the folds.

        For training rows use `decision_scores_`, because the densities here were fitted to them.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Larger is more abnormal.
        """
        codes = self._codes(X)
        return self.fitted_.density.abnormality(self.fitted_.numbers(codes)).mean(axis=1)

    def score_samples(self, X: Table) -> Array:
        """Minus `decision_function`: lower is more abnormal, as in scikit-learn.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return -self.decision_function(X)

    def p_values(self, X: Table) -> Array:
        """Conformal p-values: (1 + training rows at least as abnormal) / (1 + training rows).

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.p_values_of(self.decision_function(X))

    def p_values_of(self, scores: Column) -> Array:
        """Conformal p-values of scores that `decision_function` gave.

        Parameters
        ----------
        scores : array of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        n_rows = len(self._sorted)
        below = np.searchsorted(self._sorted, np.asarray(scores), side="left")
        return np.asarray((1 + n_rows - below) / (n_rows + 1))

    def predict(self, X: Table) -> Array:
        """1 for anomalies, 0 for ordinary rows (scikit-learn's detectors say −1 and 1).

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return (self.p_values(X) <= float(self.false_alarms)).astype(int)

    def fit_predict(self, X: Table, y: object = None) -> Array:
        """Fit, and return the labels of the training rows, from densities fitted without them.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.fit(X).labels_

    def explain(self, X: Table, coverage: float = 0.9) -> Explanation:
        """The column that makes each row unusual, and the values that were expected there.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
        coverage : float, default=0.9
            The probability of the expected range, given the other values of the row.

        Returns
        -------
        Explanation
            With ``columns``, ``values``, ``low``, ``high``, ``surprise`` and ``in_words()``.
        """
        codes = self._codes(X)
        return self._explained(codes, np.zeros(len(codes), int), coverage)

    def explain_training_rows(self, X: Table, places: Any, coverage: float = 0.9) -> Explanation:
        """The same for some of the training rows, by densities that were fitted without them.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
            The rows of `fit`.
        places : array of int
            Which of them.
        coverage : float, default=0.9

        Returns
        -------
        Explanation
        """
        codes, places = self._codes(X), np.asarray(places, int)
        if len(codes) != len(self.folds_):
            raise ValueError(
                f"X must hold the {len(self.folds_)} rows of fit; got {len(codes)}. For other rows "
                "take explain."
            )
        return self._explained(codes[places], self.folds_[places], coverage)

    def _explained(
        self, codes: Float[np.ndarray, "n d"], folds: Int[np.ndarray, " n"], coverage: float
    ) -> Explanation:
        """Explanations of rows, each by the densities fitted without its fold."""
        fit, coverage = self.fitted_, checked_share("coverage", coverage)
        found = expected_without_folds(fit, codes, folds, coverage)

        def in_units(number: float, column: int) -> float:
            if fit.table.kinds[column].is_category:
                return number
            whole = np.full((1, len(fit.tails.scale)), number)
            return float(fit.tails.backward(whole)[0, column])

        return explained(fit.table, codes, found, in_units)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
