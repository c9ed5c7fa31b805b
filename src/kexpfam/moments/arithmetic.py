"""Moments are sums, so they add and scale, whatever the basis.

Blocks, streams, workers, folds, weights, merging two fits and removing rows (adding them with
weight −1) are all these two operations.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeVar

import jax

__all__ = ["add_moments", "scale_moments", "total_moments"]

M = TypeVar("M")


def add_moments(first: M, second: M) -> M:
    """Moments of both sets of rows together."""
    return jax.tree.map(lambda a, b: a + b, first, second)


def scale_moments(moments: M, factor: float) -> M:
    """Moments with every row's weight multiplied by `factor`."""
    return jax.tree.map(lambda a: factor * a, moments)


def total_moments(parts: Iterable[M]) -> M:
    """Moments of all parts together."""
    return functools.reduce(add_moments, parts)
