"""Targets that are whole numbers, grades or other points of a lattice: sums, not integrals.

    log P(y_l | x) = f(r_l, x) + log m_l(x) − log Σ_j m_j(x) exp f(r_j, x)
    r_l = (t(y_l) − μ(x)) / s(x)          m_l(x) = ∫ q(r) dr over the cell of y_l

with y_l = start + l step, and cells that reach half a step to both sides; the first and the last
take the base density's tails. There is nothing between the points: `log_density` is the log of a
probability, minus infinity off the lattice, and the cdf is a staircase.

| symbol | name   | shape  |
|--------|--------|--------|
| y_l    | points | (q,)   |
| log P  | logs   | (n, q) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.bell import bell_cdf
from kexpfam.data.response import Response
from kexpfam.features.residual import residual_functions

__all__ = ["Lattice", "LatticeSlices", "lattice_cells", "lattice_slices"]

# Steps that a target may be off its point.
_OFF = 1e-6
_TINY = 1e-300


class Lattice(NamedTuple):
    """Equally spaced points."""

    start: float
    step: float
    n_points: int

    @property
    def points(self) -> Float[np.ndarray, " q"]:
        """All of them."""
        return self.start + self.step * np.arange(self.n_points)

    def holds(self, y: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        """Which targets are points of it."""
        steps = (y - self.start) / self.step
        near = np.abs(steps - np.rint(steps)) < _OFF
        return near & (steps > -0.5) & (steps < self.n_points - 0.5)


@dataclass(frozen=True)
class LatticeSlices:
    """Probabilities of the points, a row of them for each row."""

    lattice: Lattice
    logs: Float[np.ndarray, "n q"]

    @property
    def errors(self) -> Float[np.ndarray, " n"]:
        """Sums have none."""
        return np.zeros(len(self.logs))

    def log_density(self, y: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        """The log probability of targets for each row; −∞ off the lattice."""
        place = np.rint((y - self.lattice.start) / self.lattice.step)
        place = np.clip(place, 0, self.lattice.n_points - 1).astype(int)
        found = np.take_along_axis(self.logs, place.reshape(len(y), -1), 1).reshape(y.shape)
        return np.where(self.lattice.holds(y), found, -np.inf)

    def _sums(self) -> Float[np.ndarray, "n q"]:
        sums = np.cumsum(np.exp(self.logs), axis=1)
        return sums / sums[:, -1:]

    def cdf(self, y: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The probability of targets no larger."""
        steps = np.floor((y - self.lattice.start) / self.lattice.step + _OFF)
        place = np.clip(steps, 0, self.lattice.n_points - 1).astype(int)
        return np.where(steps < 0, 0.0, np.take_along_axis(self._sums(), place, 1))

    def quantiles(self, levels: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The smallest points with at least so much probability up to them."""
        below = self._sums()[:, None, :] < levels[:, :, None] - 1e-12
        place = np.minimum(below.sum(axis=2), self.lattice.n_points - 1)
        return self.lattice.points[place]

    def mean_and_deviation(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """E y and the standard deviation of y."""
        shares, points = np.exp(self.logs), self.lattice.points
        mean = shares @ points
        return mean, np.sqrt((shares * (points - mean[:, None]) ** 2).sum(axis=1))

    def mode(self) -> Float[np.ndarray, " n"]:
        """The likeliest point."""
        return self.lattice.points[self.logs.argmax(axis=1)]

    def highest_density(self, coverage: float) -> Float[np.ndarray, "n k 2"]:
        """The fewest points with the given probability, as runs of neighbors."""
        shares = np.exp(self.logs)
        order = np.argsort(-shares, axis=1, kind="stable")
        before = np.cumsum(np.take_along_axis(shares, order, 1), axis=1)
        needed = np.empty(shares.shape, bool)
        first = np.concatenate([np.zeros((len(shares), 1)), before[:, :-1]], axis=1)
        np.put_along_axis(needed, order, first < coverage - 1e-12, axis=1)
        none = np.zeros((len(needed), 1), bool)
        starts = needed & ~np.concatenate([none, needed[:, :-1]], axis=1)
        ends = needed & ~np.concatenate([needed[:, 1:], none], axis=1)
        found = np.full((len(needed), int(starts.sum(axis=1).max()), 2), np.nan)
        points = self.lattice.points
        for row in range(len(needed)):
            runs = np.stack([points[starts[row]], points[ends[row]]], axis=1)
            found[row, : len(runs)] = runs
        return found


def lattice_cells(
    lattice: Lattice,
    response: Response,
    mean: Float[np.ndarray, " n"],
    scale: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
    """The points' residuals at rows, and logs of the base density's masses of their cells."""
    middles = lattice.points[:-1] + lattice.step / 2
    nodes, inner = (
        (response.forward(at) - mean[:, None]) / scale[:, None] for at in (lattice.points, middles)
    )
    outside = np.full((len(mean), 1), np.inf)
    edges = np.concatenate([-outside, inner, outside], axis=1)
    low, high = edges[:, :-1], edges[:, 1:]
    # The bell is symmetric; in the upper tail differences of what is left keep their digits.
    upper = low > 0
    low, high = np.where(upper, -high, low), np.where(upper, -low, high)
    return nodes, np.log(np.maximum(bell_cdf(high) - bell_cdf(low), _TINY))


def lattice_slices(
    lattice: Lattice,
    response: Response,
    mean: Float[np.ndarray, " n"],
    scale: Float[np.ndarray, " n"],
    slopes: Float[np.ndarray, "n k"],
) -> LatticeSlices:
    """Probabilities of the points at rows."""
    nodes, logs = lattice_cells(lattice, response, mean, scale)
    if slopes.any():
        logs = logs + np.einsum("nk,nqk->nq", slopes, residual_functions(nodes))
    top = logs.max(axis=1, keepdims=True)
    totals = np.log(np.exp(logs - top).sum(axis=1, keepdims=True))
    return LatticeSlices(lattice, logs - top - totals)
