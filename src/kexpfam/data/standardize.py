"""Standardised coordinates: z = (x − center) / scale, column by column.

The model is fitted on z. A density changes by the Jacobian of the map,
log p(x) = log p(z) − Σ_j log scale_j, and ∂/∂x_j = (1/scale_j) ∂/∂z_j.

| symbol | name    | shape |
|--------|---------|-------|
| μ      | center  | (d,)  |
| s      | scale   | (d,)  |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["Standardizer", "fit_standardizer"]

_CONSTANT = 16 * np.finfo(float).eps


@dataclass(frozen=True)
class Standardizer:
    """The affine map from the user's units to standardised ones."""

    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    def forward(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return (rows - self.center) / self.scale

    def backward(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return rows * self.scale + self.center

    @property
    def log_volume(self) -> float:
        """Σ log scale: what a log density in z loses when it is read in x."""
        return float(np.log(self.scale).sum())


def fit_standardizer(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    names: Sequence[str] | None = None,
) -> Standardizer:
    """Weighted mean and standard deviation of every column; refuses constant columns.

    Each column is divided by its own largest magnitude before squaring, so that a
    column scaled by 1e200 neither overflows nor disturbs its neighbours.
    """
    kept = weights > 0
    rows, weights = rows[kept], weights[kept] / weights[kept].max()
    weights = weights / weights.sum()
    magnitude = np.abs(rows).max(axis=0)
    magnitude = np.where(magnitude > 0, magnitude, 1.0)
    unit_rows = rows / magnitude
    center = weights @ unit_rows
    scale = np.sqrt(weights @ (unit_rows - center) ** 2)
    constant = np.flatnonzero(scale <= _CONSTANT * np.maximum(np.abs(center), 1e-300))
    if constant.size:
        labels = ", ".join(repr(names[j]) if names is not None else str(j) for j in constant[:5])
        raise ValueError(
            f"Expected columns that vary, but {constant.size} of {rows.shape[1]} are constant to "
            f"machine precision (column {labels}). A constant column has no density: drop it, "
            "for instance with sklearn.feature_selection.VarianceThreshold."
        )
    return Standardizer(center * magnitude, scale * magnitude)
