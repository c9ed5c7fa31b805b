"""Turns the arguments of `fit` into a source of rows.

| X                                           | how it is read                               |
|---------------------------------------------|----------------------------------------------|
| array, data frame                           | in memory, checked by scikit-learn           |
| path, list of paths, pyarrow dataset, table | batch by batch; weights by a column's name   |
| rows of files (`FileRows`)                  | the same, with columns and dialect chosen    |
| iterator of blocks, or (block, weights)     | once, into a temporary file                  |
| Dask array, data frame                      | by the workers                               |

With a target, y is an array if X is an array, the name of a column if X is files or a Dask data
frame, and a Dask array if X is one; an iterator gives (block, targets) or (block, targets,
weights). The target is the last column of the source.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam.choices import nearest
from kexpfam.data.cluster import dask_rows, is_dask
from kexpfam.data.files import FileRows
from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.data.spool import spooled
from kexpfam.data.steady import SteadyRows
from kexpfam.estimators.checks import checked_rows, checked_weights
from kexpfam.estimators.targets import checked_pairs
from kexpfam.progress import Progress

__all__ = [
    "file_rows",
    "learn_columns",
    "read_pairs",
    "read_rows",
    "refuse_weights_of_iterators",
]


def read_rows(
    estimator: Any, X: Any, sample_weight: Any, progress: Progress, *, first: bool = True
) -> RowSource:
    """The rows of X; the first rows define the columns of the estimator."""
    source = _stream(X, sample_weight, progress)
    if source is None:
        least = 2 if first else 1
        X = checked_rows(estimator, X, ensure_min_samples=least, reset=first)
        return ArrayRows(X, checked_weights(sample_weight, X), progress)
    learn_columns(estimator, source, 0, first)
    return SteadyRows(source)


def read_pairs(
    estimator: Any, X: Any, y: Any, sample_weight: Any, progress: Progress, *, first: bool = True
) -> RowSource:
    """Rows of inputs with their target as the last column."""
    source: Any = None
    if is_dask(X):
        source = dask_rows(X, sample_weight, y)
    elif hasattr(X, "__next__"):
        if y is not None:
            raise ValueError(
                "With an iterator, y must be None: give targets with the rows, as pairs "
                "(block, targets) or triples (block, targets, weights)."
            )
        source = _stream(_joined_blocks(X), sample_weight, progress)
    else:
        source = _stream(X, sample_weight, progress)
        if isinstance(source, FileRows):
            source = _with_target_last(source, y)
    if source is None:
        X, y = checked_pairs(estimator, X, y, reset=first)
        weights = np.broadcast_to(1.0, len(y))
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X)
        return ArrayRows(X, weights, progress, target=y)
    learn_columns(estimator, source, 1, first)
    return SteadyRows(source)


def _joined_blocks(blocks: Any) -> Iterator[tuple[Any, Any]]:
    """Blocks with their target as the last column, and their weights."""
    for number, block in enumerate(blocks):
        if not isinstance(block, tuple) or len(block) not in (2, 3):
            raise ValueError(
                f"Block {number} must be a pair (rows, targets) or a triple (rows, targets, "
                f"weights); got {type(block).__name__}."
            )
        rows, targets = np.asarray(block[0], float), np.asarray(block[1], float)
        if rows.ndim != 2 or targets.shape != (len(rows),):
            raise ValueError(
                f"Block {number} must have two dimensions and a target for each row; got the "
                f"shapes {rows.shape} and {targets.shape}."
            )
        yield np.column_stack([rows, targets]), block[2] if len(block) == 3 else None


def _with_target_last(source: FileRows, target: Any) -> FileRows:
    if not isinstance(target, str):
        raise ValueError(
            "With files, y must be the name of the column that holds the target; got "
            f"{type(target).__name__}."
        )
    names = source.names
    if names is None:
        raise ValueError(
            "A target is named, but the file is a plain array without names. Save a table as "
            "Parquet or CSV, or give arrays."
        )
    if target not in names:
        raise ValueError(
            f"There is no column {target!r} to be the target. The columns are "
            f"{', '.join(names[:10])}.{nearest(target, names)}"
        )
    return replace(source, columns=(*(name for name in names if name != target), target))


def learn_columns(estimator: Any, source: Any, n_targets: int, first: bool) -> None:
    """Learn the names and number of the inputs, or check them against those that are known."""
    names = getattr(source, "names", None)
    n_columns = source.n_columns - n_targets
    names = None if names is None else names[:n_columns]
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


def _stream(X: Any, sample_weight: Any, progress: Progress) -> Any:
    """A source for anything but an array in memory; None for an array."""
    if is_dask(X):
        return dask_rows(X, sample_weight)
    if hasattr(X, "__next__"):
        refuse_weights_of_iterators(sample_weight)
        return spooled(X, progress)
    return file_rows(X, sample_weight, progress)


def refuse_weights_of_iterators(sample_weight: Any) -> None:
    """Raise if weights are given with an iterator."""
    if sample_weight is not None:
        raise ValueError(
            "With an iterator, sample_weight must be None: give weights with the rows, as "
            "pairs (block, weights)."
        )


def file_rows(X: Any, sample_weight: Any, progress: Progress) -> FileRows | None:
    """The rows of paths, of a pyarrow dataset or table, or of `FileRows`; otherwise None."""
    if isinstance(X, FileRows):
        return replace(X, weight_column=_weight_column(sample_weight), progress=progress)
    if isinstance(X, (str, Path)):
        X = [X]
    if isinstance(X, (list, tuple)) and X and all(isinstance(one, (str, Path)) for one in X):
        return _files(tuple(X), sample_weight, progress)
    if type(X).__module__.split(".")[0] == "pyarrow":
        from pyarrow import Table, dataset

        return _files((dataset.dataset(X) if isinstance(X, Table) else X,), sample_weight, progress)
    return None


def _files(files: tuple[Any, ...], sample_weight: Any, progress: Progress) -> FileRows:
    source = FileRows(files, None, _weight_column(sample_weight), progress)
    for doubt in source.doubts:
        warnings.warn(doubt, stacklevel=6)
    return source


def _weight_column(sample_weight: Any) -> str | None:
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise ValueError(
            "With files, sample_weight must be the name of the column that holds the weights; got "
            f"{type(sample_weight).__name__}."
        )
    return sample_weight
