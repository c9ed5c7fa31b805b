"""Densities over one variable on nodes, one for each row: all that a quadrature gives.

Without bounds, nodes are equally spaced over r = ±8, where the trapezoid rule converges faster
than any power of the step for smooth functions that end flat; beyond, f is constant and the tails
are the base density's, in closed form. With bounds, every row has nodes of its own between them,
and Simpson's weights. The difference from the rule with half of the nodes is the error estimate;
rows where it is too large get twice as many nodes, and again.

    log Z = log (Σ_q w_q q(n_q) exp f(n_q) + tails)

Cdf and quantiles are those of `kexpfam.model.cells`.

| symbol | name      | shape                        |
|--------|-----------|------------------------------|
| n_q    | nodes     | (n, q) or (1, q), in r       |
| log p  | logs      | (n, q), normalized, per r    |
|        | below     | (n,), mass below the first node |
|        | above     | (n,), mass above the last    |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.bell import bell_cdf, bell_log_density
from kexpfam.data.response import Response
from kexpfam.features.residual import REACH, residual_functions
from kexpfam.model.cells import Cells, cells_of

__all__ = ["N_FINE_NODES", "N_NODES", "Slices", "node_masses", "normalized_slices"]

# For normalizing, and for all that is read off the nodes themselves, such as the cdf, whose error
# in a cell is of the fourth order in its width.
N_NODES, N_FINE_NODES = 161, 641
# Errors in nats that ask for more nodes, and how many there are at most.
_TOLERANCE, _MOST_NODES = 1e-6, 2561


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

    @cached_property
    def cells(self) -> Cells:
        """The cdf over r."""
        tails = self.below, self.above
        return cells_of(self.nodes, self.logs, (self.low, self.high), tails)

    def cdf(self, y: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The mass below targets."""
        return self.cells.mass_and_density(self.residuals(y))[0]

    def quantiles(self, levels: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Targets with so much mass below."""
        return self.targets(self.cells.quantiles(levels))


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
    """The integrals with this many nodes, and their differences from those with half of them."""
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
