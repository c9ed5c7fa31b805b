"""A table of mixed columns, split by the keys of its rows, for models that take tables as they are.

The same rule as for rows of numbers (`kexpfam.report.split`), with what is missing and levels as
numbers. The table is in memory; of files with very many rows a random sample is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from kexpfam.data.cells import library_of, rows_at
from kexpfam.data.cluster import is_dask
from kexpfam.data.frame_columns import frame_of_arrow
from kexpfam.data.frames import ReadTable, read_table
from kexpfam.data.mixed import read_mixed
from kexpfam.data.sketch import row_keys
from kexpfam.report.split import KeptRows, is_judged, is_sampled, mostly_copies

__all__ = ["FrameTable", "open_frame"]

# What stands for a missing value, and for an unknown level, in a key.
_HOLE, _UNKNOWN = 12345.678, 54321.987


@dataclass(frozen=True)
class FrameTable:
    """A data frame or array, and the keys of its rows."""

    frame: Any
    names: tuple[str, ...]
    n_rows: int
    keys: UInt64[np.ndarray, " n"]
    copies_apart: bool
    n_given: int
    places: Int[np.ndarray, " n"] | None = None

    def judged(self, most: int, share: float | None = None) -> KeptRows:
        """Rows to judge by: a share of all, and about `most` of them at the most."""
        return self._kept(is_judged(self.keys, most, self.n_rows, share))

    def given(self, _model: Any, most: int) -> KeptRows:
        """All rows, or about `most` of them; columns are in the model's order already."""
        return self.judged(most, share=1.0)

    @property
    def fits_sample(self) -> bool:
        """Whether models are fitted to `training_sample`, and not to all training rows."""
        return True

    def fit(self, model: Any, most_judged: int, most: int) -> None:
        """Fit to the rows of `training_sample(most_judged, most)`, in the table's order."""
        model.fit(rows_at(self.frame, np.flatnonzero(self._training(most_judged, most))))

    def training_sample(self, most_judged: int, most: int) -> Any:
        """At most about `most` of the rows that `judged(most_judged)` does not give."""
        return self._kept(self._training(most_judged, most)).rows

    def _training(self, most_judged: int, most: int) -> Bool[np.ndarray, " n"]:
        others = ~is_judged(self.keys, most_judged, self.n_rows)
        return others & is_sampled(self.keys, most, max(1, int(others.sum())))

    def _kept(self, chosen: Bool[np.ndarray, " n"]) -> KeptRows:
        places = np.flatnonzero(chosen)
        places = places[np.argsort(self.keys[places], kind="stable")]
        numbers = places if self.places is None else self.places[places]
        return KeptRows(rows_at(self.frame, places), numbers, self.keys[places])


def open_frame(data: Any, model: Any, seed: int, *, fitted: bool) -> FrameTable:
    """A frame, an array or files, with columns in the order of a fitted model."""
    read = _read(data, model if fitted else None, seed)
    frame, names = read.frame, _names(read.frame)
    if fitted:
        frame = _ordered(frame, names, model)
        numbers = model.as_numbers(frame)
        names = [str(name) for name in getattr(model, "feature_names_in_", names)]
    else:
        given = None if isinstance(frame, np.ndarray) else names
        _, numbers = read_mixed(frame, given, np.ones(len(frame)), model.columns)
    spread = _standardized(numbers)
    keys = row_keys(spread, seed)
    copies_apart = mostly_copies(keys)
    if copies_apart:
        keys = row_keys(np.arange(len(frame), dtype=float)[:, None], seed)
    return FrameTable(frame, tuple(names), len(frame), keys, copies_apart, read.n_rows, read.places)


def _read(data: Any, model: Any, seed: int) -> ReadTable:
    """A table in memory, whatever was given."""
    if isinstance(data, ReadTable):
        return data
    if is_dask(data) or hasattr(data, "__next__"):
        raise ValueError(
            f"A report on a table of mixed columns needs it in memory; got a {type(data).__name__}."
            " Give it the files, or a part of the rows as a data frame."
        )
    if type(data).__module__.split(".")[0] == "pyarrow":
        return _whole(frame_of_arrow(data.to_table() if hasattr(data, "to_table") else data))
    files = [data] if isinstance(data, (str, Path)) else data
    if isinstance(files, (list, tuple)) and files and isinstance(files[0], (str, Path)):
        kinds = None
        if model is not None and hasattr(model, "feature_names_in_"):
            kinds = {str(name): kind for name, kind in model.column_kinds_.items()}
        columns = None if kinds is None else list(kinds)
        paths = [Path(file) for file in files]
        return read_table(paths, columns, seed=seed, kinds=kinds)
    return _whole(data if library_of(data) != "numpy" else np.asarray(data))


def _whole(frame: Any) -> ReadTable:
    return ReadTable(frame, None, len(frame))


def _names(frame: Any) -> list[str]:
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2:
            raise ValueError(f"Expected a table with rows and columns; got shape {frame.shape}.")
        return [f"x{place}" for place in range(frame.shape[1])]
    return [str(name) for name in frame.columns]


def _ordered(frame: Any, names: list[str], model: Any) -> Any:
    """The columns of a fitted model, in its order."""
    known = getattr(model, "feature_names_in_", None)
    if len(names) != model.n_features_in_:
        raise ValueError(
            f"Expected {model.n_features_in_} columns, as the model was fitted to; got "
            f"{len(names)}."
        )
    if known is None:
        return frame if isinstance(frame, np.ndarray) else np.array(frame, object)
    if isinstance(frame, np.ndarray):
        import pandas as pd

        return pd.DataFrame(frame, columns=known)
    strangers = sorted(set(names) - set(map(str, known)))
    if strangers:
        raise ValueError(
            f"Expected the columns that the model was fitted to; it does not know {strangers[:5]}. "
            "Rename them, or give the rows as a plain array in the model's order."
        )
    return frame[list(known)]


def _standardized(numbers: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    whole = np.where(np.isnan(numbers), _HOLE, numbers)
    whole = np.where(np.isinf(whole), _UNKNOWN, whole)
    whole = whole / np.maximum(np.abs(whole).max(axis=0, initial=0.0), 1e-300)
    scale = whole.std(axis=0)
    return (whole - whole.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
