"""Standardized coordinates: z = (x − center) / scale, column by column.

The model is fitted on z. A density changes by the Jacobian of the map,
log p(x) = log p(z) − Σ_j log scale_j, and ∂/∂x_j = (1/scale_j) ∂/∂z_j.

Means and standard deviations come from sums over chunks that are centered one by one and combined
as Chan, Golub and LeVeque (1983) do, so that no digits are lost to a large mean.

| symbol | name      | shape |                                             |
|--------|-----------|-------|---------------------------------------------|
| μ      | center    | (d,)  |                                             |
| s      | scale     | (d,)  |                                             |
|        | magnitude | (d,)  | largest absolute value: the unit of the sums |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Float

from kexpfam.arrays import namespace
from kexpfam.data.columns import called, dropping
from kexpfam.data.rows import Chunk, RowSource, make_chunk
from kexpfam.data.weights import refuse_lone_weight
from kexpfam.exceptions import DegenerateTableError

__all__ = [
    "ColumnSums",
    "Standardizer",
    "center_and_scale",
    "column_sums",
    "combine_columns",
    "fit_standardizer",
    "standardizer_from",
    "sum_columns",
]

_CONSTANT = 16 * np.finfo(float).eps
# Standard deviations from the center; rows further out count as that far. Powers and squares of it
# are still numbers.
_FURTHEST = 1e30
_MOST_NAMED = 5


@register_dataclass
@dataclass(frozen=True)
class Standardizer:
    """The affine map from the user's units to standardized ones, also inside compiled code."""

    center: Float[Any, " d"]
    scale: Float[Any, " d"]

    def forward(self, rows: Float[Any, "*n d"]) -> Float[Any, "*n d"]:
        with np.errstate(over="ignore"):
            units = (rows - self.center) / self.scale
        return namespace(units).clip(units, -_FURTHEST, _FURTHEST)

    def backward(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return rows * self.scale + self.center

    @property
    def log_volume(self) -> float:
        """Σ log scale: what a log density in z loses when it is read in x."""
        return float(np.log(self.scale).sum())


class ColumnSums(NamedTuple):
    """Of every column, in units of its magnitude: the mean and the squares about it.

    `first` is the weight that weights are measured in: huge ones would overflow.
    """

    n_rows: int
    first: float
    weight: float
    magnitude: Float[np.ndarray, " d"]
    mean: Float[np.ndarray, " d"]
    squares: Float[np.ndarray, " d"]


def _chunk_sums(chunk: Chunk) -> ColumnSums:
    """Each column is divided by its own largest magnitude before squaring, so that a column scaled
    by 1e200 neither overflows nor disturbs its neighbors.
    """
    kept = chunk.weights > 0
    n_columns = chunk.rows.shape[1]
    if not kept.any():
        return ColumnSums(0, 0.0, 0.0, *np.zeros((3, n_columns)))
    rows, weights = chunk.rows, chunk.weights
    if not kept.all():
        rows, weights = rows[kept], weights[kept]
    magnitude = np.maximum(rows.max(axis=0), -rows.min(axis=0))
    unit = rows / np.where(magnitude > 0, magnitude, 1.0)
    first = float(weights.max())
    shares = weights / first
    total = float(shares.sum())
    mean = (shares / total) @ unit
    return ColumnSums(len(rows), first, total, magnitude, mean, shares @ (unit - mean) ** 2)


def combine_columns(one: ColumnSums, other: ColumnSums) -> ColumnSums:
    """Sums over both sets of rows."""
    if one.n_rows == 0 or other.n_rows == 0:
        return one if one.n_rows else other
    first = max(one.first, other.first)
    magnitude = np.maximum(one.magnitude, other.magnitude)
    unit = np.where(magnitude > 0, magnitude, 1.0)
    weights = [part.weight * (part.first / first) for part in (one, other)]
    means = [part.mean * (part.magnitude / unit) for part in (one, other)]
    squares = [
        part.squares * (part.first / first) * (part.magnitude / unit) ** 2 for part in (one, other)
    ]
    total = sum(weights)
    change = means[1] - means[0]
    return ColumnSums(
        one.n_rows + other.n_rows,
        first,
        total,
        magnitude,
        means[0] + change * (weights[1] / total),
        squares[0] + squares[1] + change**2 * (weights[0] * weights[1] / total),
    )


def center_and_scale(
    rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Mean and standard deviation of each column, however large or small its numbers are."""
    sums = _chunk_sums(make_chunk(rows, weights))
    return sums.mean * sums.magnitude, np.sqrt(sums.squares / sums.weight) * sums.magnitude


def column_sums(chunks: Iterable[Chunk]) -> ColumnSums:
    """Sums over all chunks."""
    return reduce(combine_columns, map(_chunk_sums, chunks))


def sum_columns(source: RowSource) -> ColumnSums:
    """Sums over all rows of a source."""
    return source.total(column_sums, combine_columns, "columns")


def fit_standardizer(source: RowSource, names: Sequence[str] | None = None) -> Standardizer:
    """Weighted mean and standard deviation of every column; refuses constant columns."""
    return standardizer_from(sum_columns(source), names)


def standardizer_from(sums: ColumnSums, names: Sequence[str] | None = None) -> Standardizer:
    """What `fit_standardizer` gives, where the sums are known."""
    if sums.n_rows < 2:
        raise ValueError(f"Expected at least 2 rows of positive weight; got {sums.n_rows}.")
    refuse_lone_weight(sums.weight)
    scale = np.sqrt(sums.squares / sums.weight)
    constant = np.flatnonzero(scale <= _CONSTANT * np.maximum(np.abs(sums.mean), 1e-300))
    if constant.size:
        labels = ", ".join(called(int(j), names) for j in constant[:_MOST_NAMED])
        more = ", …" if constant.size > _MOST_NAMED else ""
        raise DegenerateTableError(
            f"Expected columns that vary, but {constant.size} of {len(scale)} are constant to "
            f"machine precision ({labels}{more}). A constant column has no density. Leave such "
            f"columns out: {dropping(constant.tolist(), names)}."
        )
    return Standardizer(sums.mean * sums.magnitude, scale * sums.magnitude)
