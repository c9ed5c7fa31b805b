"""A basis and its functions at any number of rows, in blocks of few sizes.

    φ(x)        f(x) = φ(x)ᵀβ        ∇f        Σ_j metric_j ∂²f/∂x_j²

| symbol | name         | shape  |
|--------|--------------|--------|
| φ      | features     | (n, m) |
| β      | coefficients | (m,)   |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.data.blocks import in_blocks
from kexpfam.features.basis import Basis
from kexpfam.precision import compiled

__all__ = ["features_at", "gradient_at", "laplacian_at", "values_at"]


@compiled
def _features(basis: Any, rows: Any) -> Any:
    return basis.features(rows)


@compiled
def _values(basis: Any, coefficients: Any, rows: Any) -> Any:
    return basis.values(coefficients, rows)


@compiled
def _gradient(basis: Any, coefficients: Any, rows: Any) -> Any:
    return basis.gradient(coefficients, rows)


@compiled
def _laplacian(basis: Any, coefficients: Any, rows: Any, metric: Any) -> Any:
    return basis.laplacian(coefficients, rows, metric)


def features_at(basis: Basis, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m"]:
    """φ."""
    return in_blocks(lambda block: _features(basis, block), rows)


def values_at(
    basis: Basis, coefficients: Float[np.ndarray, " m"], rows: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, " n"]:
    """f."""
    return in_blocks(lambda block: _values(basis, coefficients, block), rows)


def gradient_at(
    basis: Basis, coefficients: Float[np.ndarray, " m"], rows: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """∇f."""
    return in_blocks(lambda block: _gradient(basis, coefficients, block), rows)


def laplacian_at(
    basis: Basis,
    coefficients: Float[np.ndarray, " m"],
    rows: Float[np.ndarray, "n d"],
    metric: Float[np.ndarray, " d"],
) -> Float[np.ndarray, " n"]:
    """Σ_j metric_j ∂²f/∂x_j²."""
    return in_blocks(lambda block: _laplacian(basis, coefficients, block, metric), rows)
