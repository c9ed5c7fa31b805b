"""Sums of numbers whose logarithms are known."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["log_sum_exp", "shares_of"]

# The logarithm of a share that is nothing beside the largest, 1e-26. Much smaller ones would be
# subnormal numbers in single precision, with which some processors compute many times more slowly.
_NOTHING = -60.0


def log_sum_exp(
    logs: Float[np.ndarray, "*shape"], axis: int, keepdims: bool = False
) -> Float[np.ndarray, "*rest"]:
    """The logarithm of Σ exp(logs) along an axis.

    SciPy's function of this name takes weights, signs and complex numbers, and several times as
    long: most of a fit's time with a mixture as base density.
    """
    highest = logs.max(axis=axis, keepdims=True)
    # Where all are −∞ there is nothing to subtract.
    highest = np.where(np.isfinite(highest), highest, 0.0)
    shifted = logs - highest
    with np.errstate(divide="ignore", over="ignore"):
        total = np.log(np.exp(shifted, out=shifted).sum(axis=axis, keepdims=True)) + highest
    return total if keepdims else total.squeeze(axis)


def shares_of(logs: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """exp(logs) in their place, of logarithms that are at most zero; none is below 1e-26."""
    return np.exp(np.maximum(logs, _NOTHING, out=logs), out=logs)
