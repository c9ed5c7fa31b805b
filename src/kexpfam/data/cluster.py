"""Rows on a cluster: Dask arrays and data frames.

Every partition is summed on the worker that holds it, and the sums are combined in a tree, so that
m × m numbers are sent instead of rows. If a worker dies, its partial results are lost. Dask
computes them again elsewhere, and since a sum depends only on its rows, the total is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from kexpfam.data.files import refuse_unusable
from kexpfam.data.rows import CHUNK_ROWS, ArrayRows, Chunk, RowSource
from kexpfam.data.table_chunks import MemoryTables, TableChunk, block_weights
from kexpfam.progress import Progress

__all__ = ["DaskRows", "dask_rows", "dask_tables", "is_dask"]

T = TypeVar("T")
_BRANCHES = 4


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class DaskRows(RowSource):
    """Partitions as delayed pairs of rows and weights."""

    partitions: tuple[Any, ...]
    n_columns: int
    names: list[str] | None
    # How a partition becomes chunks, on a worker.
    chunks_of: Callable[..., Iterable[Any]]

    def total(
        self, summary: Callable[[Iterable[Chunk]], T], combine: Callable[[T, T], T], label: str
    ) -> T:
        from dask import compute, delayed

        summarize, join = delayed(_summary_of), delayed(_combined)
        # One name for all partitions: what is summed travels once, not with every task.
        shared = delayed(summary)
        parts = [
            summarize(shared, self.chunks_of, number, *one, self.n_columns, self.names)
            for number, one in enumerate(self.partitions)
        ]
        while len(parts) > 1:
            parts = [
                join(combine, parts[start : start + _BRANCHES])
                for start in range(0, len(parts), _BRANCHES)
            ]
        try:
            (result,) = compute(parts[0])
        except Exception as error:
            # Known by its name: `distributed` need not be installed.
            if type(error).__name__ != "KilledWorker":
                raise
            raise MemoryError(
                "Several workers of the cluster died over the same partition, most likely "
                "because they ran out of memory. Use smaller partitions, with X.rechunk or "
                "X.repartition, or workers with more memory; their logs say what happened."
            ) from error
        if result is None:
            raise ValueError("The Dask collection has no rows.")
        return result


def _summary_of(
    summary: Callable[[Iterable[Chunk]], T],
    chunks_of: Callable[..., Iterable[Any]],
    number: int,
    rows: Any,
    weights: Any,
    n_columns: int,
    names: list[str] | None,
) -> T | None:
    if not len(rows):
        return None
    if np.ndim(rows) != 2 or rows.shape[1] != n_columns:
        raise ValueError(
            f"Partition {number} has the shape {rows.shape}; expected {n_columns} columns."
        )
    return summary(chunks_of(rows, weights, number, names))


def _number_chunks(
    rows: Any, weights: Any, number: int, names: list[str] | None
) -> Iterable[Chunk]:
    """Chunks of numbers."""
    if np.iscomplexobj(rows):
        raise ValueError(f"Partition {number} holds complex numbers; expected real ones.")
    rows = np.asarray(rows, float)
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights, float).reshape(-1)
    if len(weights) != len(rows):
        raise ValueError(f"Partition {number} has {len(rows)} rows, but {len(weights)} weights.")
    refuse_unusable(rows, weights, f"Partition {number}", 0, names)
    return ArrayRows(rows, weights, chunk_rows=CHUNK_ROWS).chunks()


def _table_chunks(
    rows: Any, weights: Any, number: int, _names: list[str] | None
) -> Iterable[TableChunk]:
    """Chunks of a table of any columns."""
    label = f"Partition {number}"
    weights = None if weights is None else np.asarray(weights, float).reshape(-1)
    weights = block_weights(weights, len(rows), label, 0)
    for chunk in MemoryTables(rows, weights, Progress()).chunks():
        yield chunk._replace(label=label)


def _combined(combine: Callable[[T, T], T], parts: list[T | None]) -> T | None:
    total: T | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else combine(total, part)
    return total


def _require_column(name: Any, columns: list[Any], role: str) -> None:
    if not isinstance(name, str) or name not in columns:
        raise ValueError(
            f"The data frame has no {role} column {name!r:.80}. Give one of its columns' names."
        )


def _joined(X: Any, target: Any) -> Any:
    """A target beside its rows, as one array."""
    if not is_dask(target) or getattr(target, "ndim", 0) != 1:
        raise ValueError(
            "With a Dask array, y must be a Dask array of one dimension; got "
            f"{type(target).__name__}."
        )
    from dask.array import concatenate

    return concatenate([X, target.rechunk((X.chunks[0],))[:, None]], axis=1)


def dask_tables(X: Any, sample_weight: Any) -> DaskRows:
    """The same for tables of any columns, whose chunks are frames or arrays."""
    return replace(dask_rows(X, sample_weight), chunks_of=_table_chunks)


def dask_rows(X: Any, sample_weight: Any, target: Any = None) -> DaskRows:
    """The partitions of a Dask array or data frame and of its weights.

    With a target, the name of a column or another array, that is the last column.
    """
    names = None
    if hasattr(X, "columns"):
        columns = list(X.columns)
        if isinstance(sample_weight, str):
            _require_column(sample_weight, columns, "weight")
            columns.remove(sample_weight)
            sample_weight = X[sample_weight]
        if target is not None:
            _require_column(target, columns, "target")
            columns.remove(target)
            columns.append(target)
        X = X[columns]
        n_columns, names = len(columns), [str(name) for name in columns]
        delayed = X.to_delayed()
    else:
        if X.ndim != 2:
            raise ValueError(f"Expected a Dask array of two dimensions; got {X.ndim}.")
        if target is not None:
            X = _joined(X, target)
        n_columns = X.shape[1]
        delayed = X.rechunk({1: n_columns}).to_delayed().ravel().tolist()
    if sample_weight is None:
        weights: list[Any] = [None] * len(delayed)
    elif is_dask(sample_weight):
        weights = list(np.asarray(sample_weight.to_delayed(), dtype=object).ravel())
    else:
        raise ValueError(
            "With a Dask collection, sample_weight must be one too (or a column's name of a data "
            f"frame), with the same partitions; got {type(sample_weight).__name__}."
        )
    if len(weights) != len(delayed):
        raise ValueError(
            f"X has {len(delayed)} partitions and sample_weight {len(weights)}. Repartition one "
            "like the other."
        )
    partitions = tuple(zip(delayed, weights, strict=True))
    return DaskRows(partitions, n_columns, names, _number_chunks)
