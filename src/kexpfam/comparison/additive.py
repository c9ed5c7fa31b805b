"""Has a pair of columns moved beyond its columns? A score test beside an additive logistic model.

Where each column moved by itself, or one moved and the other followed, the ratio of the two
tables' densities is a product of functions of one column each:

    log p_B(x, y) − log p_A(x, y) = a(x) + b(y),      P(row of B | x, y) = σ(c + a(x) + b(y)) = π.

With a and b fitted, and the functions r of the pair cleared of what the fit can explain,

    r̃ = r − M (MᵀWM + 1)⁻¹ MᵀW r,      W = π (1 − π),      z = Σ (y − π) r̃ / √(Σ W r̃²),

z has standard deviation one where the ratio is such a product, to first order in 1/√N.

| symbol | name      | shape  |
|--------|-----------|--------|
| y      | is_second | (N,)   |
| M      | additive  | (N, k) |
| r      | functions | (N, q) |
| π, W   | shares, weights | (N,) |
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

__all__ = ["beyond_additive"]

_N_STEPS, _FURTHEST = 12, 15.0


def beyond_additive(
    is_second: Bool[np.ndarray, " N"],
    additive: Float[np.ndarray, "N k"],
    functions: Float[np.ndarray, "N q"],
) -> Float[np.ndarray, " q"]:
    """Standardized differences of the functions of a pair, beside the moves of its columns."""
    inputs = np.concatenate([np.ones((len(additive), 1)), additive], axis=1)
    # A standard normal prior holds coefficients where rows are few or tables apart.
    penalty = np.eye(inputs.shape[1])
    penalty[0, 0] = 1e-6
    coefficients = np.zeros(inputs.shape[1])
    for _ in range(_N_STEPS):
        shares = expit(np.clip(inputs @ coefficients, -_FURTHEST, _FURTHEST))
        weights = shares * (1 - shares)
        system = inputs.T @ (weights[:, None] * inputs) + penalty
        slope = inputs.T @ (is_second - shares) - penalty @ coefficients
        step = np.linalg.solve(system, slope)
        # Newton's steps can be too long where shares are near zero and one.
        coefficients += step / max(1.0, float(np.abs(step).max()) / 2)
    shares = expit(np.clip(inputs @ coefficients, -_FURTHEST, _FURTHEST))
    weights = shares * (1 - shares)
    system = inputs.T @ (weights[:, None] * inputs) + penalty
    cleared = functions - inputs @ np.linalg.solve(
        system, inputs.T @ (weights[:, None] * functions)
    )
    spread = np.sqrt((weights[:, None] * cleared**2).sum(axis=0))
    return (is_second - shares) @ cleared / np.maximum(spread, 1e-12)
