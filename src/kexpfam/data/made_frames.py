"""Data frames of columns that a model gives, every column with the dtype that it was fitted to.

A dtype has one name in pandas and NumPy ("int64", "object") and another in polars ("Int64",
"String"); where a frame of another library is wanted than the one that was fitted to, it is
translated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from kexpfam.data.kinds import ColumnKind

__all__ = ["frame_of"]

_TO_POLARS = {"object": "String", "str": "String", "bool": "Boolean", "category": "Categorical"}
_TO_PANDAS = {"String": "object", "Boolean": "boolean", "Categorical": "category"}


def frame_of(
    library: Literal["pandas", "polars"],
    names: Sequence[Any],
    kinds: Sequence[ColumnKind],
    columns: Sequence[np.ndarray],
    index: Any = None,
) -> Any:
    """Columns as a frame; None or NaN where a value is missing."""
    if library == "pandas":
        return _pandas_frame(names, kinds, columns, index)
    return _polars_frame(names, kinds, columns)


def _pandas_frame(
    names: Sequence[Any], kinds: Sequence[ColumnKind], columns: Sequence[np.ndarray], index: Any
) -> Any:
    import pandas as pd

    series = []
    for kind, column in zip(kinds, columns, strict=True):
        dtype = _pandas_dtype(kind.dtype)
        if dtype == "category":
            levels = sorted({*kind.levels, *kind.pooled}, key=str)
            if kind.kind == "grade":
                levels = list(kind.levels)
            made: Any = pd.Categorical(column, categories=levels, ordered=kind.kind == "grade")
            series.append(pd.Series(made, index=index))
            continue
        made = pd.Series(column, index=index)
        holes = bool(made.isna().any())
        # Of these dtypes, none has a place for what is missing.
        if not (holes and (dtype.startswith(("int", "uint")) or dtype == "bool")):
            made = made.astype(dtype)
        elif dtype != "bool":
            made = made.astype(float)
        series.append(made)
    frame = pd.concat(series, axis=1)
    frame.columns = pd.Index(names)
    return frame


def _pandas_dtype(dtype: str) -> str:
    """The name that pandas has for a dtype of polars'; its own as they are."""
    if dtype.startswith("Enum"):
        return "category"
    if dtype.split("(")[0] in _TO_PANDAS:
        return _TO_PANDAS[dtype.split("(")[0]]
    return "object" if dtype.startswith(("U", "<U")) and not dtype.startswith("UInt") else dtype


def _polars_frame(
    names: Sequence[Any], kinds: Sequence[ColumnKind], columns: Sequence[np.ndarray]
) -> Any:
    import polars as pl

    series = []
    for name, kind, column in zip(names, kinds, columns, strict=True):
        values = [None if one is None or one != one else one for one in column.tolist()]
        made = pl.Series(str(name), values, strict=False)
        dtype: Any = getattr(pl, _polars_dtype(kind.dtype), None)
        if kind.dtype.startswith("Enum") or (kind.dtype == "category" and kind.kind == "grade"):
            dtype = pl.Enum(list(kind.levels))
        series.append(made if dtype is None else made.cast(dtype))
    return pl.DataFrame(series)


def _polars_dtype(dtype: str) -> str:
    """The name that polars has for a dtype of pandas'; its own as they are."""
    name = dtype.split("(")[0]
    if name in _TO_POLARS:
        return _TO_POLARS[name]
    if name.startswith("uint"):
        return f"UInt{name[4:]}"
    return name[:1].upper() + name[1:]
