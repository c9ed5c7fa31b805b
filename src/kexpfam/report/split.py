"""Which rows a model is fitted to and which it is judged by.

Every row has a key, a hash of its values and the seed (`kexpfam.data.sketch`), and the key decides.
Copies of a row therefore stand on one side, and neither the order of the rows nor the blocks they
are read in change anything. Where most rows are copies of others, as in a single column of rounded
numbers, whole values would then be missing from one side: there the row's place makes the key.

Memory does not grow with the table: at most some thousand rows are kept, in the order of their
keys, so that the first few of them are a sample of them; the others are handed on block by block.

| name     | shape  | meaning                                             |
|----------|--------|-----------------------------------------------------|
| rows     | (n, d) |                                                     |
| numbers  | (n,)   | where each of them stands in the table, from 0      |
| keys     | (n,)   | ascending                                           |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from kexpfam.data.rows import LocalRows
from kexpfam.data.sketch import row_keys, uniform_numbers
from kexpfam.data.spool import NamedBlocks
from kexpfam.data.standardize import Standardizer, column_sums
from kexpfam.estimators import KernelDiffusion
from kexpfam.estimators.reading import read_rows
from kexpfam.progress import Progress

__all__ = ["KeptRows", "RowTable", "is_judged", "is_sampled", "mostly_copies", "open_table"]

_JUDGED_SHARE = 0.25
_FOR_SPLIT, _FOR_SAMPLE = 0, 1
# With fewer distinct rows than this, copies say something about the density.
_MOSTLY_DISTINCT = 0.5


class KeptRows(NamedTuple):
    """Some rows of a table, where they stand in it, and their keys.

    Rows are as the model takes them, and in `Evidence` as numbers.
    """

    rows: Any
    numbers: Int[np.ndarray, " n"]
    keys: UInt64[np.ndarray, " n"]


def is_judged(
    keys: UInt64[np.ndarray, " n"], most: int, n_rows: int, share: float | None = None
) -> Bool[np.ndarray, " n"]:
    """Which rows are judged: a share of all, and about `most` of them at the most."""
    limit = min(_JUDGED_SHARE if share is None else share, most / n_rows)
    return uniform_numbers(keys, _FOR_SPLIT) < limit


def is_sampled(keys: UInt64[np.ndarray, " n"], most: int, n_rows: int) -> Bool[np.ndarray, " n"]:
    """Which rows are in a sample of about `most` of them."""
    return uniform_numbers(keys, _FOR_SAMPLE) < most / n_rows


def mostly_copies(keys: UInt64[np.ndarray, " n"]) -> bool:
    """Whether most rows are copies of others, by the keys of what they are."""
    return len(np.unique(keys)) / len(keys) < _MOSTLY_DISTINCT


@dataclass(frozen=True)
class Keying:
    """How rows get their keys: by what they are, or by where they stand."""

    spread: Standardizer
    seed: int
    by_place: bool

    def __call__(
        self, rows: Float[np.ndarray, "n d"], numbers: Int[np.ndarray, " n"]
    ) -> UInt64[np.ndarray, " n"]:
        hashed = numbers[:, None].astype(float) if self.by_place else self.spread.forward(rows)
        return row_keys(hashed, self.seed)


@dataclass(frozen=True)
class RowTable:
    """Rows that can be walked again and again, with the rule that splits them."""

    source: LocalRows
    names: tuple[str, ...]
    named: bool
    n_rows: int
    keying: Keying

    @property
    def copies_apart(self) -> bool:
        """Whether copies of a row may stand on both sides of the split."""
        return self.keying.by_place

    def judged(self, most: int, share: float | None = None) -> KeptRows:
        """Rows to judge by: a share of all, and about `most` of them at the most."""
        return self._kept(lambda keys: is_judged(keys, most, self.n_rows, share))

    def given(self, model: Any, most: int) -> KeptRows:
        """All rows, or about `most` of them, with columns in the order of a fitted model."""
        order = _order(self, model)
        kept = self.judged(most, share=1.0)
        return kept._replace(rows=kept.rows[:, order])

    @property
    def n_given(self) -> int:
        """How many rows there are: all of them are read."""
        return self.n_rows

    @property
    def fits_sample(self) -> bool:
        """Whether models are fitted to `training_sample`, and not to all training rows."""
        return False

    def fit(self, model: Any, most_judged: int, _most: int) -> None:
        """Fit to all rows that `judged(most_judged)` does not give."""
        names = self.names if self.named else None
        model.fit(NamedBlocks(self.training(most_judged), names))

    def training(self, most: int) -> Iterator[Float[np.ndarray, "b d"]]:
        """All rows that `judged(most)` does not give, in blocks."""
        for rows, _, keys in self._keyed():
            kept = rows[~is_judged(keys, most, self.n_rows)]
            if len(kept):
                yield kept

    def training_sample(self, most_judged: int, most: int) -> Float[np.ndarray, "t d"]:
        """At most about `most` of the training rows, whichever they are."""

        def chosen(keys: UInt64[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
            training = ~is_judged(keys, most_judged, self.n_rows)
            return training & is_sampled(keys, most, self.n_rows)

        return self._kept(chosen).rows

    def _keyed(self) -> Iterator[KeptRows]:
        first = 0
        for chunk in self.source.chunks():
            numbers = np.arange(first, first + len(chunk.rows))
            yield KeptRows(chunk.rows, numbers, self.keying(chunk.rows, numbers))
            first += len(chunk.rows)

    def _kept(
        self, chosen: Callable[[UInt64[np.ndarray, " n"]], Bool[np.ndarray, " n"]]
    ) -> KeptRows:
        pieces = [[part[chosen(piece.keys)] for part in piece] for piece in self._keyed()]
        rows, numbers, keys = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        order = np.argsort(keys, kind="stable")
        return KeptRows(rows[order], numbers[order], keys[order])


def _order(table: RowTable, model: Any) -> list[int]:
    """Where the model's columns stand in the table."""
    known, n_columns = getattr(model, "feature_names_in_", None), model.n_features_in_
    if len(table.names) != n_columns:
        raise ValueError(
            f"Expected {n_columns} columns, as the model was fitted to; got {len(table.names)}."
        )
    if known is None or not table.named:
        return list(range(n_columns))
    if set(map(str, known)) != set(table.names):
        strangers = sorted(set(table.names) - set(map(str, known)))
        raise ValueError(
            f"Expected the columns that the model was fitted to; it does not know {strangers[:5]}. "
            "Rename them, or give the rows as a plain array in the model's order."
        )
    return [table.names.index(str(name)) for name in known]


def open_table(data: Any, seed: int, progress: Progress) -> RowTable:
    """The rows of anything that `fit` takes, except of a cluster."""
    # Whose name complaints about the rows bear.
    columns = KernelDiffusion()
    local = read_rows(columns, data, None, progress).local()
    if local is None:
        raise ValueError(
            "A report reads its rows itself and cannot be given a Dask collection. Give it the "
            "files, or a part of the rows: data.sample(frac=0.01).compute()."
        )
    source, _ = local
    sums = column_sums(source.chunks())
    scale = np.sqrt(sums.squares / max(sums.weight, 1.0)) * sums.magnitude
    # A column may well be constant in the few rows that judge a fitted model.
    spread = Standardizer(sums.mean * sums.magnitude, np.where(scale > 0, scale, 1.0))
    given = getattr(columns, "feature_names_in_", None)
    names = given if given is not None else [f"x{j}" for j in range(columns.n_features_in_)]
    some = next(iter(source.chunks())).rows
    keying = Keying(spread, seed, by_place=mostly_copies(row_keys(spread.forward(some), seed)))
    return RowTable(source, tuple(map(str, names)), given is not None, sums.n_rows, keying)
