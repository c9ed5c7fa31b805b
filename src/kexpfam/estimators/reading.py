"""What users hand to `fit`, turned into a source of rows.

| X                                           | how it is read                               |
|---------------------------------------------|----------------------------------------------|
| array, data frame                           | in memory, checked by scikit-learn           |
| path, list of paths, pyarrow dataset, table | batch by batch; weights by a column's name   |
| iterator of blocks, or (block, weights)     | once, into a temporary file                  |
| Dask array, data frame                      | by the workers                               |
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kexpfam.data.cluster import dask_rows, is_dask
from kexpfam.data.files import FileRows
from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.data.spool import spooled
from kexpfam.data.steady import SteadyRows
from kexpfam.estimators.checks import checked_rows, checked_weights
from kexpfam.progress import Progress

__all__ = ["read_rows"]


def read_rows(
    estimator: Any, X: Any, sample_weight: Any, progress: Progress, *, first: bool = True
) -> RowSource:
    """The rows of X; the estimator learns its columns from them if they are the first it sees."""
    source = _stream(X, sample_weight, progress)
    if source is None:
        least = 2 if first else 1
        X = checked_rows(estimator, X, ensure_min_samples=least, reset=first)
        return ArrayRows(X, checked_weights(sample_weight, X), progress)
    names = getattr(source, "names", None)
    n_columns = source.rows.shape[1] if isinstance(source, ArrayRows) else source.n_columns
    if first:
        estimator.n_features_in_ = n_columns
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_columns} columns, but {type(estimator).__name__} is fitted to "
            f"{estimator.n_features_in_}. Give the columns that it was fitted to, in their order."
        )
    return SteadyRows(source)


def _stream(X: Any, sample_weight: Any, progress: Progress) -> Any:
    """A source for what is not an array in memory; None for what is."""
    if is_dask(X):
        return dask_rows(X, sample_weight)
    if isinstance(X, (str, Path)):
        X = [X]
    if isinstance(X, (list, tuple)) and X and all(isinstance(one, (str, Path)) for one in X):
        return _files(tuple(X), sample_weight, progress)
    if type(X).__module__.split(".")[0] == "pyarrow":
        from pyarrow import Table, dataset

        return _files((dataset.dataset(X) if isinstance(X, Table) else X,), sample_weight, progress)
    if hasattr(X, "__next__"):
        if sample_weight is not None:
            raise ValueError(
                "With an iterator, sample_weight must be None: give weights with the rows, as "
                "pairs (block, weights)."
            )
        return spooled(X, progress)
    return None


def _files(files: tuple[Any, ...], sample_weight: Any, progress: Progress) -> FileRows:
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise ValueError(
            "With files, sample_weight must be the name of the column that holds the weights; got "
            f"{type(sample_weight).__name__}."
        )
    return FileRows(files, None, sample_weight, progress)
