"""Means, standard deviations, modes and highest-density sets of densities on nodes.

Means are sums over the nodes; what lies beyond them counts at the mean of the bell's own tail. The
highest-density set of a given mass is the shortest set of targets that has it: all y with
p(y | x) > τ, for the τ that leaves this much. With p linear between nodes its mass is a sum over
cells, τ is found by halving, and a density with several modes gives several intervals.

| symbol | name      | shape  |
|--------|-----------|--------|
| y      | targets   | (n, q) |
| p      | densities | (n, q), per unit of y |
| τ      | levels    | (n,)   |
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.model.lattice import LatticeSlices
from kexpfam.model.pooled_slices import PooledSlices
from kexpfam.model.slices import Slices

__all__ = ["highest_density", "mean_and_deviation", "mode"]

# The mean of the wide part of the bell beyond ±8.
_TAIL = 9.4924
_HALVINGS = 45
_TINY = 1e-300


def mean_and_deviation(
    slices: Slices | PooledSlices | LatticeSlices,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """E y and the standard deviation of y."""
    if isinstance(slices, LatticeSlices):
        return slices.mean_and_deviation()
    if isinstance(slices, PooledSlices):
        return _pooled_moments(slices)
    sums = slices.cells.sums
    cells = np.diff(sums, axis=1)
    # A node has half of the cells on its sides.
    masses = np.zeros_like(sums)
    masses[:, 1:] += cells / 2
    masses[:, :-1] += cells / 2
    tails = np.stack([np.maximum(slices.low, -_TAIL), np.minimum(slices.high, _TAIL)], axis=1)
    targets = np.concatenate([slices.node_targets(), slices.targets(tails)], axis=1)
    masses = np.concatenate([masses, slices.below[:, None], slices.above[:, None]], axis=1)
    center = slices.targets(np.clip(np.zeros((len(sums), 1)), tails[:, :1], tails[:, 1:]))
    away = targets - center
    # In units of the furthest node: squares of very large or small targets are not numbers.
    unit = np.maximum(np.abs(away).max(axis=1, keepdims=True), np.finfo(float).tiny)
    away /= unit
    mean = (masses * away).sum(axis=1)
    variance = (masses * (away - mean[:, None]) ** 2).sum(axis=1)
    return center[:, 0] + unit[:, 0] * mean, unit[:, 0] * np.sqrt(variance)


def _pooled_moments(
    slices: PooledSlices,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    mean, deviation = mean_and_deviation(slices.kernel)
    other, other_deviation = slices.mixture_moments()
    share = slices.share
    middle = mean + share * (other - mean)
    parts = [deviation, mean - middle, other_deviation, other - middle]
    unit = np.maximum(np.abs(parts).max(axis=0), np.finfo(float).tiny)
    weights = np.array([1 - share, 1 - share, share, share])
    return middle, unit * np.sqrt(weights @ (np.stack(parts) / unit) ** 2)


def mode(slices: Slices | PooledSlices | LatticeSlices) -> Float[np.ndarray, " n"]:
    """The likeliest target, by a parabola through the highest node and its neighbors."""
    if isinstance(slices, LatticeSlices):
        return slices.mode()
    if isinstance(slices, PooledSlices):
        slices = slices.on_nodes
    targets = slices.node_targets()
    logs = slices.logs + slices.response.log_slope(targets)
    place = logs.argmax(axis=1)
    inner = np.clip(place, 1, logs.shape[1] - 2)[:, None]
    before, at, after = (np.take_along_axis(logs, inner + j, 1)[:, 0] for j in (-1, 0, 1))
    bend = before - 2 * at + after
    shift = np.where(bend < 0, (before - after) / (2 * np.where(bend < 0, bend, 1.0)), 0.0)
    nodes = np.broadcast_to(slices.nodes, logs.shape)
    step = nodes[:, 1] - nodes[:, 0]
    # A highest node at the end stays: the density rises to a bound.
    shift = np.where(place == inner[:, 0], np.clip(shift, -1.0, 1.0), 0.0)
    top = np.take_along_axis(nodes, place[:, None], 1)[:, 0] + shift * step
    return slices.targets(top[:, None])[:, 0]


def highest_density(
    slices: Slices | PooledSlices | LatticeSlices, coverage: float
) -> Float[np.ndarray, "n k 2"]:
    """The shortest intervals with the given mass, from left to right; NaN where there are fewer."""
    if isinstance(slices, LatticeSlices):
        return slices.highest_density(coverage)
    if isinstance(slices, PooledSlices):
        slices = slices.on_nodes
    targets = slices.node_targets()
    densities = slices.node_densities(targets)
    widths = np.diff(targets, axis=1)
    total = ((densities[:, 1:] + densities[:, :-1]) / 2 * widths).sum(axis=1)
    densities = densities * ((1 - slices.below - slices.above) / np.maximum(total, _TINY))[:, None]
    low, high = np.zeros(len(targets)), densities.max(axis=1)
    for _ in range(_HALVINGS):
        levels = (low + high) / 2
        enough = _mass_above(densities, widths, levels) >= coverage
        low, high = np.where(enough, levels, low), np.where(enough, high, levels)
    return _intervals(targets, densities, low)


def _mass_above(
    densities: Float[np.ndarray, "n q"],
    widths: Float[np.ndarray, "n c"],
    levels: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Mass of the part of each cell where the density, linear within, is above the level."""
    start, end = densities[:, :-1], densities[:, 1:]
    higher, lower = np.maximum(start, end), np.minimum(start, end)
    level = levels[:, None]
    share = np.clip((higher - level) / np.maximum(higher - lower, _TINY), 0.0, 1.0)
    share = np.where(lower >= level, 1.0, share)
    return (share * (higher + np.maximum(lower, level)) / 2 * widths).sum(axis=1)


def _intervals(
    targets: Float[np.ndarray, "n q"],
    densities: Float[np.ndarray, "n q"],
    levels: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "n k 2"]:
    above = densities > levels[:, None]
    starts, ends = _edges(above), _edges(above[:, ::-1])[:, ::-1]
    count = int(max(starts.sum(axis=1).max(), 1))
    found = np.full((len(targets), count, 2), np.nan)
    for row in range(len(targets)):
        left, right = (np.flatnonzero(one[row]).tolist() for one in (starts, ends))
        for number, (first, last) in enumerate(zip(left, right, strict=True)):
            found[row, number] = (
                _crossing(targets[row], densities[row], first, first - 1, levels[row]),
                _crossing(targets[row], densities[row], last, last + 1, levels[row]),
            )
    return found


def _edges(above: Bool[np.ndarray, "n q"]) -> Bool[np.ndarray, "n q"]:
    """Where a run begins."""
    before = np.concatenate([np.zeros((len(above), 1), bool), above[:, :-1]], axis=1)
    return above & ~before


def _crossing(
    targets: Float[np.ndarray, " q"],
    densities: Float[np.ndarray, " q"],
    inside: int,
    outside: int,
    level: float,
) -> float:
    """Where the density falls to the level, between a node inside and its neighbor outside."""
    if not 0 <= outside < len(targets):
        return float(targets[inside])
    fall = densities[inside] - densities[outside]
    share = (densities[inside] - level) / fall if fall > 0 else 0.0
    return float(targets[inside] + share * (targets[outside] - targets[inside]))
