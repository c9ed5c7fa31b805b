"""Stein features, whose mean over rows of the model is zero.

    τ(x) = [ s(x) k(x, v_j) + ∇_x k(x, v_j) ] / √(dJ),        ∇_x k = 2 φ′(u) (x − v) / width²

for every location v_j. By partial integration E τ(x) = 0 if x follows the model; under any other
distribution it is not, for almost all locations. The normalizing constant does not enter s = ∇log
p. The test needs τ only through sums over rows.

| symbol       | name       | shape    |
|--------------|------------|----------|
| x            | rows       | (n, d)   |
| s(x)         | gradients  | (n, d)   |
| v            | locations  | (J, d)   |
| τ(x)         | features   | (n, dJ)  |
| Σ_i τ_i      | total      | (dJ,)    |
| Σ_i τ_i τ_iᵀ | products   | (dJ, dJ) |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kexpfam.data.blocks import block_size_for, padded
from kexpfam.goodness_of_fit.kernels import RadialKernel
from kexpfam.goodness_of_fit.observed import Observed
from kexpfam.precision import compiled

__all__ = ["FeatureSums", "feature_sums", "stein_features", "unbiased_square"]

_LARGEST_BLOCK = 1024


class FeatureSums(NamedTuple):
    """Sums over rows of the features and of their products."""

    count: Any
    total: Any
    products: Any


def stein_features(
    rows: Any, gradients: Any, locations: Any, width: Any, kernel: RadialKernel
) -> Any:
    """τ at every row, inside compiled code; the coordinates of one location stand together."""
    shifts = (rows[:, None, :] - locations) / width
    profile = kernel((shifts**2).sum(axis=-1))
    values, slopes = profile.value[..., None], profile.slope[..., None]
    features = gradients[:, None, :] * values + 2 * slopes * shifts / width
    return features.reshape(len(rows), -1) / jnp.sqrt(1.0 * locations.size)


def unbiased_square(count: Any, total: Any, sum_of_squares: Any) -> Any:
    """|E τ|² by the U-statistic: the mean of τ_i·τ_j over i ≠ j, without bias, so also below 0."""
    return (total @ total - sum_of_squares) / (count * (count - 1))


@compiled(static=("kernel",))
def _block_sums(block: Observed, weights: Any, locations: Any, kernel: RadialKernel) -> FeatureSums:
    features = stein_features(*block, locations, 1.0, kernel) * weights[:, None]
    return FeatureSums(weights.sum(), features.sum(axis=0), features.T @ features)


def feature_sums(
    observed: Observed, locations: Float[np.ndarray, "j d"], kernel: RadialKernel
) -> FeatureSums:
    """The sums over all rows for width one, block by block: memory does not grow with n."""
    n_rows = len(observed.rows)
    size = block_size_for(n_rows, _LARGEST_BLOCK)
    sums = None
    for start in range(0, n_rows, size):
        piece = observed.take(slice(start, start + size))
        weights = padded(np.ones(len(piece.rows)), size)
        piece = Observed(padded(piece.rows, size), padded(piece.gradients, size))
        added = _block_sums(piece, weights, locations, kernel=kernel)
        sums = added if sums is None else jax.tree.map(np.add, sums, added)
    assert sums is not None
    return sums
