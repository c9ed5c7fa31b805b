"""The shape of a sample's upper tail: a generalized Pareto fit.

Importance weights whose tail has shape k have finite moments of order below 1/k: estimates are
dependable for k < 0.5, usable up to about 0.7 and worthless beyond (Vehtari et al. 2024). The
fit is the quick Bayesian one of Zhang and Stephens (2009).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["pareto_shape"]


def pareto_shape(log_weights: Float[np.ndarray, " n"]) -> float:
    """Tail shape k of exp(log_weights), from its min(n/5, 3√n) largest values."""
    count = int(min(len(log_weights) / 5, 3 * np.sqrt(len(log_weights))))
    if count < 5:
        return float("nan")
    ordered = np.sort(log_weights)[-count - 1 :]
    weights = np.exp(ordered - ordered[-1])
    exceedances = weights[1:] - weights[0]
    if exceedances[-1] <= 1e-12:
        return float("-inf")  # all equal: no tail at all
    return _zhang_stephens(np.maximum(exceedances, 1e-300))


def _zhang_stephens(ascending: Float[np.ndarray, " n"]) -> float:
    """Posterior mean of the shape over a grid of b = −k/scale, shrunk a little toward ½."""
    count = len(ascending)
    n_grid = 30 + int(np.sqrt(count))
    quartile = max(ascending[int(count / 4 + 0.5) - 1], 1e-12 * ascending[-1])
    steps = 1 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    candidates = 1 / ascending[-1] + steps / (3 * quartile)
    shapes = np.log1p(-candidates[:, None] * ascending).mean(axis=1)
    profile = count * (np.log(-candidates / shapes) - shapes - 1)
    shares = np.exp(profile - profile.max())
    best = (candidates * shares).sum() / shares.sum()
    shape = np.log1p(-best * ascending).mean()
    # Ten observations' worth of prior at ½ keep the estimate steady on short tails.
    return float((count * shape + 5) / (count + 10))
