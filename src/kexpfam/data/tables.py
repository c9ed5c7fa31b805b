"""What can be no table of numbers, and what to do about it.

scikit-learn checks arrays, and does so for us. Before that stands what it would take for something
else (dates for numbers, masked values for values) or refuse without naming the column.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["refuse_what_is_no_table"]

_MOST_SHOWN = 5
# NumPy's letters for kinds of values.
_TIMES, _NUMBERS = tuple("mM"), tuple("biufc")


def refuse_what_is_no_table(X: Any, name: str = "X") -> None:
    """Raise if X holds no rows in memory, or a column of something other than numbers."""
    if not (hasattr(X, "__array__") or hasattr(X, "shape") or isinstance(X, (list, tuple, range))):
        raise TypeError(
            f"{name} must be an array or data frame of numbers, a row for each sample; got "
            f"{_described(X)}. {_advice(X, name)}".rstrip()
        )
    if isinstance(X, (list, tuple)) and any(getattr(one, "ndim", 0) == 2 for one in X):
        raise ValueError(
            f"{name} must be one table; got a {type(X).__name__} of {len(X)}. Put them together "
            f"with numpy.concatenate({name}), or give fit an iterator over them: iter({name})."
        )
    if np.ma.isMaskedArray(X) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} must hold no masked values; got {int(np.ma.getmaskarray(X).sum())}. Drop "
            f"their rows, numpy.ma.compress_rows({name}), or put NaN in their place where missing "
            f"values are welcome, as in KernelDiffusion.impute: {name}.filled(numpy.nan)."
        )
    if getattr(getattr(X, "dtype", None), "kind", None) in _TIMES:
        raise ValueError(
            f"{name} must hold numbers; got dates or times ({X.dtype}). Turn them into numbers, "
            "such as days since the first."
        )
    strangers = list(_columns_without_numbers(X))
    if strangers:
        more = ", …" if len(strangers) > _MOST_SHOWN else ""
        raise ValueError(
            f"{name} must hold numbers in all of its {len(X.dtypes)} columns; got "
            f"{', '.join(strangers[:_MOST_SHOWN])}{more}. Drop such columns, or turn them into "
            "numbers: dates into days since the first, categories into zeros and ones."
        )


def _described(X: Any) -> str:
    if X is None:
        return "None"
    if isinstance(X, (str, bytes, os.PathLike)):
        return f"the text {os.fspath(X)!r}"
    return (
        f"the class {X.__name__}"
        if isinstance(X, type)
        else f"an object of type {type(X).__name__}"
    )


def _advice(X: Any, name: str) -> str:
    if isinstance(X, (str, bytes, os.PathLike)):
        return (
            "Read a file first, for instance with pandas.read_csv. (fit, partial_fit, forget and "
            "reports read files themselves.)"
        )
    if isinstance(X, Mapping):
        return f"Try pandas.DataFrame({name})."
    if hasattr(X, "collect"):
        return f"Try {name}.collect()."
    if hasattr(X, "__next__"):
        return f"Try numpy.concatenate(list({name}))."
    if hasattr(X, "get_params") or hasattr(X, "gradient"):
        return "A model is not a table: are the arguments in the right order?"
    return ""


def _columns_without_numbers(X: Any) -> Iterator[str]:
    """Columns of a data frame, pandas' or polars', with what they hold."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return
    cells = getattr(X, "iloc", X)
    for place, (name, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        letter = getattr(kind, "kind", None)
        if letter in _TIMES or getattr(kind, "is_temporal", bool)():
            yield f"{name!r} ({kind})"
        elif letter not in _NUMBERS and not getattr(kind, "is_numeric", bool)():
            try:
                np.asarray(cells[:, place], dtype=np.float64)
            except (TypeError, ValueError):
                yield f"{name!r} ({_example(cells[:, place])})"


def _example(column: Any) -> str:
    """A value of a column that is not a number."""
    for value in column:
        try:
            float(value)
        except (TypeError, ValueError):
            return f"it holds {str(value)[:40]!r}"
    return "it holds no numbers"
