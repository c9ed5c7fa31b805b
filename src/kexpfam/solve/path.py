"""The whole ridge path from one eigendecomposition.

With H U = R U diag(μ) and UᵀRU = I:  β(λ) = −U (Uᵀh / (μ + λ)), O(m²) for each λ after O(m³) once.
U comes from the eigenvectors of the whitened system.

| symbol | name        | shape  |
|--------|-------------|--------|
| μ      | eigenvalues | (m,)   |
| U      | vectors     | (m, m) |
| Uᵀh    | projected   | (m,)   |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh

from kexpfam.features import QuadraticSystem
from kexpfam.solve.ridge import unwhiten, whiten

__all__ = ["RidgePath", "ridge_path"]


class RidgePath(NamedTuple):
    """All ridge solutions of one system."""

    eigenvalues: Float[np.ndarray, " m"]
    vectors: Float[np.ndarray, "m m"]
    projected: Float[np.ndarray, " m"]

    def coefficients(self, penalties: Float[np.ndarray, " l"]) -> Float[np.ndarray, "m l"]:
        """β for each penalty, as columns."""
        shrunk = self.projected[:, None] / (self.eigenvalues[:, None] + penalties)
        return -self.vectors @ shrunk


def ridge_path(
    system: QuadraticSystem, penalty_matrix: Float[np.ndarray, "m m"] | None = None
) -> RidgePath:
    """Decompose a system once for all penalties."""
    inner, root = whiten(system, penalty_matrix)
    eigenvalues, vectors = eigh(inner.quadratic, driver="evd")
    # H is positive semi-definite; what falls below zero is rounding.
    projected = vectors.T @ inner.linear
    return RidgePath(np.maximum(eigenvalues, 0.0), unwhiten(root, vectors), projected)
