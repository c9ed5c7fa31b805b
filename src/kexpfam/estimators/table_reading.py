"""Turns a table that is given to `fit` into kinds of columns and a source of numbers.

It makes two passes over the rows, wherever they come from (see `kexpfam.estimators.reading`). The
first tallies the columns, which determines their kinds, and the second turns values into numbers.
Rows in memory stay there. Other rows of this machine are written as numbers to a temporary file,
which is faster to read again. The rows of a cluster are computed again in every pass, on the
workers that hold them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.data.cells import library_of
from kexpfam.data.cluster import DaskRows, dask_tables, is_dask
from kexpfam.data.mixed import Coding, MixedTable, Tallying, mixed_table
from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.data.spool import StoredRows
from kexpfam.data.steady import SteadyRows, Trace
from kexpfam.data.table_chunks import BlockTables, MemoryTables
from kexpfam.data.table_files import FileTables
from kexpfam.estimators.checks import checked_weights
from kexpfam.estimators.mixed_rows import checked_table
from kexpfam.estimators.reading import file_rows, learn_columns, refuse_weights_of_iterators
from kexpfam.progress import Progress
from kexpfam.threads import in_threads

__all__ = ["read_tables"]


def read_tables(
    estimator: Any, X: Any, sample_weight: Any, given: Any, progress: Progress
) -> tuple[MixedTable, RowSource]:
    """Kinds of the columns, read or given, and the rows as numbers."""
    source: MemoryTables | BlockTables | FileTables | DaskRows
    library: Any = "numpy"
    if is_dask(X):
        source = dask_tables(X, sample_weight)
        library = "numpy" if source.names is None else "pandas"
    elif hasattr(X, "__next__"):
        refuse_weights_of_iterators(sample_weight)
        source = BlockTables(X, progress)
        library = source.library
    else:
        files = file_rows(X, sample_weight, progress)
        if files is None:
            return _in_memory(estimator, X, sample_weight, given, progress)
        source = FileTables(files)
        library = "numpy" if source.names is None else "pandas"
    learn_columns(estimator, source, 0, first=True)
    estimator._fitted_library = library
    tallying = Tallying(None if source.names is None else tuple(source.names))
    tally = source.total(tallying, tallying.combine, "columns")
    _require_rows(tally.n_rows, tally.n_counted)
    table = mixed_table(tally, tallying.names, library, given)
    coded = source.mapped(Coding(table))
    if isinstance(source, DaskRows):
        return table, SteadyRows(coded)
    chunks = progress.rows(map(coded.function, source.chunks()), tally.n_rows, "numbers")
    stored = StoredRows(chunks, progress)
    # Words that were not there in the first pass are infinite.
    SteadyRows(stored, [Trace(tally.n_rows)]).check(Trace(stored.n_rows))
    return table, stored


def _in_memory(
    estimator: Any, X: Any, sample_weight: Any, given: Any, progress: Progress
) -> tuple[MixedTable, RowSource]:
    library = library_of(X)
    X = checked_table(estimator, X, reset=True)
    estimator._fitted_library = library
    weights = checked_weights(sample_weight, np.zeros((len(X), 1)))
    names = getattr(estimator, "feature_names_in_", None)
    tallying = Tallying(None if names is None else tuple(map(str, names)))
    source = MemoryTables(X, weights, progress)
    tally = tallying.of_table(list(source.chunks()))
    table = mixed_table(tally, tallying.names, library_of(X), given)
    codes = [chunk.rows for chunk in in_threads(Coding(table), source.chunks())]
    return table, ArrayRows(np.concatenate(codes), weights, progress)


def _require_rows(n_rows: int, n_counted: int) -> None:
    if n_rows < 2:
        raise ValueError(f"X must have at least 2 rows; got {n_rows}.")
    if n_counted == 0:
        raise ValueError("sample_weight must not be zero for all rows: there is nothing to fit.")
