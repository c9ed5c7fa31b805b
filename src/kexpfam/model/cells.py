"""The cdf of densities on nodes, one for each row, and its inverse.

The mass of a cell is that of the cubic through its four nearest nodes; within a cell the density is
taken to be linear in r with this mass: the cdf is piecewise quadratic, and its inverse exact.
Beyond the nodes the tails are those of the base density.

| name   | shape            | meaning                                        |
|--------|------------------|------------------------------------------------|
| nodes  | (n, q) or (1, q) | in r, equally spaced                           |
| sums   | (n, q)           | the cdf at the nodes                           |
| starts | (n, q − 1)       | densities per r at the start of each cell      |
| ends   | (n, q − 1)       | and at its end                                 |
| low    | (n,)             | the smallest r; infinite where there is none   |
| high   | (n,)             | the largest                                    |
| below  | (n,)             | mass below the first node                      |
| above  | (n,)             | mass above the last                            |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.bell import bell_cdf, bell_log_density, bell_quantile

__all__ = ["Cells", "cells_of"]

_TINY = 1e-300


class Cells(NamedTuple):
    """Cells between nodes, with their masses and densities."""

    nodes: Float[np.ndarray, "m q"]
    sums: Float[np.ndarray, "n q"]
    starts: Float[np.ndarray, "n c"]
    ends: Float[np.ndarray, "n c"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]
    below: Float[np.ndarray, " n"]
    above: Float[np.ndarray, " n"]

    @property
    def _step(self) -> Float[np.ndarray, "m 1"]:
        return (self.nodes[:, -1:] - self.nodes[:, :1]) / (self.nodes.shape[1] - 1)

    def where(self, rows: np.ndarray | slice) -> Cells:
        """Those of some rows."""
        shared = len(self.nodes) == 1
        return Cells(self.nodes if shared else self.nodes[rows], *(one[rows] for one in self[1:]))

    def mass_and_density(
        self, residuals: Float[np.ndarray, "n m"]
    ) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
        """The mass below residuals, and its derivative."""
        first, last, step = self.nodes[:, :1], self.nodes[:, -1:], self._step
        cell = np.clip((residuals - first) / step, 0, self.nodes.shape[1] - 2).astype(int)
        along = np.clip(residuals - (first + cell * step), 0.0, step)
        start, end = (np.take_along_axis(one, cell, 1) for one in (self.starts, self.ends))
        slope = (end - start) / step
        mass = np.take_along_axis(self.sums, cell, 1) + along * (start + slope * along / 2)
        density = start + slope * along
        for sign, edge, bound, tail in (
            (1.0, first, self.low, self.below),
            (-1.0, -last, -self.high, self.above),
        ):
            outside = sign * residuals < edge
            if not outside.any():
                continue
            part, slope = _tail(sign * residuals, edge, bound, tail)
            mass = np.where(outside, part if sign > 0 else 1 - part, mass)
            density = np.where(outside, slope, density)
        return np.clip(mass, 0.0, 1.0), density

    def quantiles(self, levels: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Residuals with so much mass below."""
        sums, step = self.sums, self._step
        first, last = (
            np.broadcast_to(end, (len(sums), 1)) for end in (self.nodes[:, :1], self.nodes[:, -1:])
        )
        # Rows one above the other, so that one search serves all.
        offsets = 2.0 * np.arange(len(sums))[:, None]
        places = np.searchsorted((sums + offsets).ravel(), (levels + offsets).ravel(), "right")
        cell = places.reshape(levels.shape) - np.arange(len(sums))[:, None] * sums.shape[1] - 1
        cell = np.clip(cell, 0, sums.shape[1] - 2)
        start, end = (np.take_along_axis(one, cell, 1) for one in (self.starts, self.ends))
        wanted = np.maximum(levels - np.take_along_axis(sums, cell, 1), 0.0)
        root = np.sqrt(np.maximum(start**2 + 2 * (end - start) * wanted / step, 0.0))
        along = 2 * wanted / np.maximum(start + root, _TINY)
        found = first + cell * step + np.clip(along, 0.0, step)
        lower = levels < self.below[:, None]
        upper = levels > 1 - self.above[:, None]
        if lower.any():
            found = np.where(lower, _tail_quantile(levels, first, self.low, self.below), found)
        if upper.any():
            mirrored = _tail_quantile(1 - levels, -last, -self.high, self.above)
            found = np.where(upper, -mirrored, found)
        return found


def cells_of(
    nodes: Float[np.ndarray, "m q"],
    logs: Float[np.ndarray, "n q"],
    limits: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    tails: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
) -> Cells:
    """Cells from log densities at nodes; the tails have their masses, between the limits."""
    below, above = tails
    densities, widths = np.exp(logs), np.diff(nodes, axis=1)
    start, end = densities[:, :-1], densities[:, 1:]
    straight = start + end
    straight /= 2
    cells = straight.copy()
    cells[:, 1:-1] += (straight[:, 1:-1] * 2 - densities[:, :-3] - densities[:, 3:]) / 24
    np.maximum(cells, 0.0, out=cells)
    inner = np.maximum(1 - below - above, 0.0)
    share = cells / np.maximum(straight, _TINY)
    cells *= widths
    shrunk = (inner / np.maximum(cells.sum(axis=1), _TINY))[:, None]
    cells *= shrunk
    share *= shrunk
    sums = np.empty(densities.shape)
    sums[:, 0] = below
    np.cumsum(cells, axis=1, out=sums[:, 1:])
    sums[:, 1:] += below[:, None]
    return Cells(nodes, sums, share * start, share * end, *limits, below, above)


def _tail(
    residuals: Float[np.ndarray, "n m"],
    edge: Float[np.ndarray, "m2 1"],
    end: Float[np.ndarray, " n"],
    mass: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Mass below residuals between `end` and `edge`, and its slope; the bell is symmetric."""
    base = bell_cdf(end)[:, None]
    whole = bell_cdf(edge) - base
    held = np.minimum(residuals, edge)
    part = np.maximum(bell_cdf(held) - base, 0.0)
    share = np.where(whole > 0, mass[:, None] / np.where(whole > 0, whole, 1.0), 0.0)
    return share * part, share * np.exp(bell_log_density(held))


def _tail_quantile(
    levels: Float[np.ndarray, "n m"],
    edge: Float[np.ndarray, "n 1"],
    end: Float[np.ndarray, " n"],
    mass: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "n m"]:
    base = bell_cdf(end)[:, None]
    share = np.clip(levels / np.maximum(mass, _TINY)[:, None], 0.0, 1.0)
    return bell_quantile(base + share * (bell_cdf(edge) - base))
