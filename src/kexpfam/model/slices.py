"""Densities over one variable on nodes, one for each row: all that a quadrature gives.

Without bounds, nodes are equally spaced over r = ±8, where the trapezoid rule converges faster
than any power of the step for smooth functions that end flat; beyond, f is constant and the tails
are the base density's, in closed form. With bounds, every row has nodes of its own between them,
and Simpson's weights. The difference from the rule with half of the nodes is the error estimate;
rows where it is too large get twice as many nodes, and again.

    log Z = log (Σ_q w_q q(n_q) exp f(n_q) + tails)

For the cdf the mass of a cell is that of the cubic through its four nearest nodes; within a cell
the density is taken to be linear in r with this mass: the cdf is piecewise quadratic, and its
inverse exact.

| symbol | name      | shape                        |
|--------|-----------|------------------------------|
| n_q    | nodes     | (n, q) or (1, q), in r       |
| log p  | logs      | (n, q), normalized, per r    |
|        | below     | (n,), mass below the first node |
|        | above     | (n,), mass above the last    |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.bell import bell_cdf, bell_log_density, bell_quantile
from kexpfam.data.response import Response
from kexpfam.features.residual import REACH, residual_functions

__all__ = ["N_FINE_NODES", "N_NODES", "Slices", "node_masses", "normalized_slices"]

# For normalizing, and for all that is read off the nodes themselves, such as the cdf, whose error
# in a cell is of the fourth order in its width.
N_NODES, N_FINE_NODES = 161, 641
# Errors in nats that ask for more nodes, and how many there are at most.
_TOLERANCE, _MOST_NODES = 1e-6, 2561
_TINY = 1e-300


@dataclass(frozen=True)
class Slices:
    """Normalized densities of r, and where and how wide they stand in t."""

    response: Response
    mean: Float[np.ndarray, " n"]
    scale: Float[np.ndarray, " n"]
    slopes: Float[np.ndarray, "n k"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]
    nodes: Float[np.ndarray, "m q"]
    logs: Float[np.ndarray, "n q"]
    below: Float[np.ndarray, " n"]
    above: Float[np.ndarray, " n"]
    log_normalizers: Float[np.ndarray, " n"]
    errors: Float[np.ndarray, " n"]

    def residuals(self, y: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        """r of targets."""
        mean, scale = (_across(one, y.ndim) for one in (self.mean, self.scale))
        return (self.response.forward(y) - mean) / scale

    def targets(self, residuals: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        """y of residuals."""
        mean, scale = (_across(one, residuals.ndim) for one in (self.mean, self.scale))
        return self.response.inverse(mean + scale * residuals)

    def log_density(self, y: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        """log p(y | x) at targets for each row."""
        residuals = self.residuals(y)
        low, high, scale, log_normalizers = (
            _across(one, y.ndim) for one in (self.low, self.high, self.scale, self.log_normalizers)
        )
        logs = bell_log_density(residuals) - log_normalizers
        if self.slopes.any():
            slopes = self.slopes if y.ndim == 1 else self.slopes[:, None]
            logs += (slopes * residual_functions(residuals)).sum(axis=-1)
        logs += self.response.log_slope(y) - np.log(scale)
        return np.where((residuals >= low) & (residuals <= high), logs, -np.inf)

    def node_targets(self) -> Float[np.ndarray, "n q"]:
        """y at the nodes."""
        return self.targets(np.broadcast_to(self.nodes, self.logs.shape))

    def node_densities(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """p(y | x) at the nodes, whose targets are y."""
        return np.exp(self.logs + self.response.log_slope(y)) / self.scale[:, None]

    def cumulative(
        self,
    ) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n c"], Float[np.ndarray, "n c"]]:
        """The cdf at the nodes, and densities per r at the start and the end of each cell."""
        densities = np.exp(self.logs)
        start, end = densities[:, :-1], densities[:, 1:]
        straight = (start + end) / 2
        cells = straight.copy()
        cells[:, 1:-1] += (straight[:, 1:-1] * 2 - densities[:, :-3] - densities[:, 3:]) / 24
        cells = np.maximum(cells, 0.0) * np.diff(self.nodes, axis=1)
        inner = np.maximum(1 - self.below - self.above, 0.0)
        cells *= (inner / np.maximum(cells.sum(axis=1), _TINY))[:, None]
        sums = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)], axis=1)
        share = cells / np.maximum(straight * np.diff(self.nodes, axis=1), _TINY)
        return self.below[:, None] + sums, share * start, share * end

    def cdf(self, y: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The mass below targets."""
        residuals = self.residuals(y)
        sums, starts, ends = self.cumulative()
        nodes = np.broadcast_to(self.nodes, sums.shape)
        first, last = nodes[:, :1], nodes[:, -1:]
        step = (last - first) / (nodes.shape[1] - 1)
        cell = np.clip(((residuals - first) / step).astype(int), 0, nodes.shape[1] - 2)
        along = np.clip(residuals - np.take_along_axis(nodes, cell, 1), 0.0, step)
        start, end = (np.take_along_axis(one, cell, 1) for one in (starts, ends))
        mass = np.take_along_axis(sums, cell, 1) + along * (
            start + (end - start) * along / (2 * step)
        )
        lower = self._tail(residuals, first, self.low, self.below)
        upper = self._tail(-residuals, -last, -self.high, self.above)
        mass = np.where(residuals < first, lower, np.where(residuals > last, 1 - upper, mass))
        return np.clip(mass, 0.0, 1.0)

    def _tail(
        self,
        residuals: Float[np.ndarray, "n m"],
        edge: Float[np.ndarray, "m2 1"],
        end: Float[np.ndarray, " n"],
        mass: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, "n m"]:
        """Mass below residuals in the tail between `end` and `edge`; the bell is symmetric."""
        base = bell_cdf(end)[:, None]
        whole = bell_cdf(edge) - base
        part = np.maximum(bell_cdf(np.minimum(residuals, edge)) - base, 0.0)
        return mass[:, None] * np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0)

    def quantiles(self, levels: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Targets with so much mass below."""
        sums, starts, ends = self.cumulative()
        nodes = np.broadcast_to(self.nodes, sums.shape)
        step = ((nodes[:, -1] - nodes[:, 0]) / (nodes.shape[1] - 1))[:, None]
        # Rows one above the other, so that one search serves all.
        offsets = 2.0 * np.arange(len(sums))[:, None]
        places = np.searchsorted((sums + offsets).ravel(), (levels + offsets).ravel(), "right")
        cell = places.reshape(levels.shape) - np.arange(len(sums))[:, None] * sums.shape[1] - 1
        cell = np.clip(cell, 0, nodes.shape[1] - 2)
        start, end = (np.take_along_axis(one, cell, 1) for one in (starts, ends))
        wanted = np.maximum(levels - np.take_along_axis(sums, cell, 1), 0.0)
        root = np.sqrt(np.maximum(start**2 + 2 * (end - start) * wanted / step, 0.0))
        along = 2 * wanted / np.maximum(start + root, _TINY)
        found = np.take_along_axis(nodes, cell, 1) + np.clip(along, 0.0, step)
        lower = levels < self.below[:, None]
        upper = levels > 1 - self.above[:, None]
        if lower.any():
            found = np.where(
                lower, self._tail_quantile(levels, nodes[:, :1], self.low, self.below), found
            )
        if upper.any():
            mirrored = self._tail_quantile(1 - levels, -nodes[:, -1:], -self.high, self.above)
            found = np.where(upper, -mirrored, found)
        return self.targets(found)

    def _tail_quantile(
        self,
        levels: Float[np.ndarray, "n m"],
        edge: Float[np.ndarray, "n 1"],
        end: Float[np.ndarray, " n"],
        mass: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, "n m"]:
        base = bell_cdf(end)[:, None]
        share = np.clip(levels / np.maximum(mass, _TINY)[:, None], 0.0, 1.0)
        return bell_quantile(base + share * (bell_cdf(edge) - base))


def normalized_slices(
    response: Response,
    mean: Float[np.ndarray, " n"],
    scale: Float[np.ndarray, " n"],
    slopes: Float[np.ndarray, "n k"],
    bounds: tuple[float, float],
    n_nodes: int = N_NODES,
) -> Slices:
    """Densities at rows; normalized with as many nodes as each row's error estimate asks for."""
    low, high = response.residual_bounds(bounds, mean, scale)
    rule = _integrated(slopes, low, high, n_nodes)
    totals, errors = rule.log_totals, rule.errors
    poor = np.flatnonzero(errors > _TOLERANCE)
    while len(poor) and 2 * n_nodes - 1 <= _MOST_NODES:
        n_nodes = 2 * n_nodes - 1
        finer = _integrated(slopes[poor], low[poor], high[poor], n_nodes)
        totals[poor], errors[poor] = finer.log_totals, finer.errors
        poor = poor[finer.errors > _TOLERANCE]
    return Slices(
        response=response,
        mean=mean,
        scale=scale,
        slopes=slopes,
        low=low,
        high=high,
        nodes=rule.nodes,
        logs=rule.logs - totals[:, None],
        below=np.exp(rule.below - totals),
        above=np.exp(rule.above - totals),
        log_normalizers=totals,
        errors=errors,
    )


class _Rule(NamedTuple):
    """Logs of the unnormalized densities at nodes, of the tails' masses and of the integrals."""

    nodes: Float[np.ndarray, "m q"]
    logs: Float[np.ndarray, "n q"]
    below: Float[np.ndarray, " n"]
    above: Float[np.ndarray, " n"]
    log_totals: Float[np.ndarray, " n"]
    errors: Float[np.ndarray, " n"]


def _integrated(
    slopes: Float[np.ndarray, "n k"],
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
    n_nodes: int,
) -> _Rule:
    """The integrals with so many nodes, and their differences from those with half of them."""
    bounded = bool(np.isfinite(low).any() or np.isfinite(high).any())
    nodes = _nodes(low, high, n_nodes) if bounded else np.linspace(-REACH, REACH, n_nodes)[None]
    tilt = _tilt(slopes, nodes)
    logs = bell_log_density(nodes) + tilt
    with np.errstate(divide="ignore"):
        below, above = (
            np.log(np.maximum(bell_cdf(edge) - bell_cdf(end), 0.0)) + tilt[:, place]
            for edge, end, place in ((nodes[:, 0], low, 0), (-nodes[:, -1], -high, -1))
        )
    fine = _log_total(logs, nodes, (below, above), bounded)
    coarse = _log_total(logs[:, ::2], nodes[:, ::2], (below, above), bounded)
    return _Rule(nodes, logs, below, above, fine, np.abs(fine - coarse))


def _nodes(
    low: Float[np.ndarray, " n"], high: Float[np.ndarray, " n"], n_nodes: int
) -> Float[np.ndarray, "n q"]:
    """Between the bounds, and where they allow it within the reach."""
    first = np.maximum(low, np.minimum(-REACH, high - 2 * REACH))
    last = np.minimum(high, np.maximum(REACH, low + 2 * REACH))
    return first[:, None] + (last - first)[:, None] * np.linspace(0, 1, n_nodes)


def _tilt(
    slopes: Float[np.ndarray, "n k"], nodes: Float[np.ndarray, "m q"]
) -> Float[np.ndarray, "n q"]:
    if len(nodes) == 1:
        return slopes @ residual_functions(nodes[0]).T
    if not slopes.any():
        return np.zeros((len(slopes), nodes.shape[1]))
    return np.einsum("nk,nqk->nq", slopes, residual_functions(nodes))


def _log_total(
    logs: Float[np.ndarray, "n q"],
    nodes: Float[np.ndarray, "m q"],
    tail_logs: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    bounded: bool,
) -> Float[np.ndarray, " n"]:
    """log of the integral over the nodes and the tails."""
    step = (nodes[:, -1] - nodes[:, 0]) / (nodes.shape[1] - 1)
    weights = np.ones(nodes.shape[1])
    if bounded:
        weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
        weights /= 3.0
    else:
        weights[[0, -1]] = 0.5
    top = np.maximum(logs.max(axis=1), np.maximum(*tail_logs))
    total = np.exp(logs - top[:, None]) @ weights * step
    return top + np.log(total + sum(np.exp(tail - top) for tail in tail_logs))


def _across(one: Float[np.ndarray, " n"], n_axes: int) -> Float[np.ndarray, "n ..."]:
    return one.reshape(-1, *([1] * (n_axes - 1)))


def node_masses(
    low: Float[np.ndarray, " n"], high: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, "m q"]]:
    """Nodes that all rows share, and logs of the base density's masses there, for fits.

    With bounds a node counts by the share of its cell that lies inside.
    """
    bounded = np.isfinite(low).any() or np.isfinite(high).any()
    # The functions are so smooth that half of the nodes are enough but for a bound's edge.
    nodes = np.linspace(-REACH, REACH, N_NODES if bounded else N_NODES // 2 + 1)
    step = nodes[1] - nodes[0]
    masses = np.exp(bell_log_density(nodes)) * step
    masses[[0, -1]] = masses[[0, -1]] / 2 + bell_cdf(np.array([-REACH]))
    if not bounded:
        return nodes, np.log(masses)[None]
    covered = np.minimum(high[:, None], nodes + step / 2) - np.maximum(
        low[:, None], nodes - step / 2
    )
    shares = np.clip(covered / step, 1e-12, 1.0)
    return nodes, np.log(masses * shares)
