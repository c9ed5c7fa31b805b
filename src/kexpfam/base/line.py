"""A number on the line: how likely it is, and how much lies below and above it.

A mixture Σ_k w_k N(c_k, s_k²) between two ends, and either a point t or a cell between two edges.
What is kept is linear in the weights, so that mixtures are stacked by adding:

    density   log Σ_k w_k N(t; c_k, s_k²)                      of a point
    inside    log Σ_k w_k [Φ(edge′) − Φ(edge)]                 of a cell
    below     Σ_k w_k [Φ(edge) − Φ(end)],  above likewise      masses up to the ends

Normalized between the ends a point has the log density `density` − log(below + above), a cell the
log mass `inside` − log(below + exp inside + above), and a point lies at the share
v = below/(below + above) of its distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

__all__ = [
    "OnLine",
    "line_mixture_draws",
    "line_mixture_quantiles",
    "on_line",
    "points_on_line",
]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
# Halvings that bring a quantile to the last digits of a reach of a few dozen.
_HALVINGS = 48
# After so many of them Newton's steps are taken, until they are this short.
_FIRST_HALVINGS, _STILL = 6, 1e-12
_TINY = 1e-300
# Between edges that are nearer to each other, in standard deviations, a density is constant to
# 1e-13 of it, and the difference of the edges has few digits.
_THIN = 1e-6
# Log weights of components that add nothing, and standard deviations beyond which nothing lies.
_NEGLIGIBLE, _REACH = -36.0, 9.0
# Components of more weight are taken out if they are fewer than this share of all.
_WORTH_TAKING = 0.5


class OnLine(NamedTuple):
    """Points or cells of a column, a row each. Points have no `inside`, cells no `density`: −∞."""

    density: Float[np.ndarray, " n"]
    inside: Float[np.ndarray, " n"]
    below: Float[np.ndarray, " n"]
    above: Float[np.ndarray, " n"]

    def stacked(self, other: OnLine, share: Float[np.ndarray, " n"]) -> OnLine:
        """A share of another distribution mixed in."""
        with np.errstate(divide="ignore"):
            own_log, other_log = np.log1p(-share), np.log(share)
        return OnLine(
            np.logaddexp(self.density + own_log, other.density + other_log),
            np.logaddexp(self.inside + own_log, other.inside + other_log),
            (1 - share) * self.below + share * other.below,
            (1 - share) * self.above + share * other.above,
        )

    @property
    def _log_total(self) -> Float[np.ndarray, " n"]:
        return np.log(np.maximum(self.below + np.exp(self.inside) + self.above, _TINY))

    def log_probability(self) -> Float[np.ndarray, " n"]:
        """The log density of points, the log mass of cells."""
        found = np.where(np.isfinite(self.density), self.density, self.inside)
        return found - self._log_total

    def ends(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The shares below and above of the distribution; for points they add up to one."""
        total = np.maximum(self.below + np.exp(self.inside) + self.above, _TINY)
        return self.below / total, self.above / total

    def residuals(self, places: Float[np.ndarray, " n"] | float = 0.5) -> Float[np.ndarray, " n"]:
        """Φ⁻¹ of the share below; of cells, at a place within, as a share of the cell."""
        below, above = self.ends()
        inside = np.maximum(1 - below - above, 0.0) * np.isfinite(self.inside)
        below, above = below + places * inside, above + (1 - places) * inside
        nearer = ndtri(np.clip(np.minimum(below, above), _TINY, 0.5))
        return np.where(below < above, nearer, -nearer)


def on_line(
    log_weights: Float[np.ndarray, "n k"],
    centers: Float[np.ndarray, "n k"],
    deviations: Float[np.ndarray, "*n k"],
    edges: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    support: tuple[float, float],
    cells: bool,
    density: Float[np.ndarray, " n"] | None = None,
    log_widths: Float[np.ndarray, " n"] | None = None,
) -> OnLine:
    """Points (both edges equal) or cells under mixtures; log densities of points if known.

    Cells whose edges are one number, or nearly so, have the widths that are given.
    """
    deviations = np.broadcast_to(deviations, centers.shape)
    nothing = np.full(len(centers), -np.inf)
    inside = nothing
    if cells:
        low, high = ((edge[:, None] - centers) / deviations for edge in edges)
        between = _log_between(low, high)
        if log_widths is not None:
            logs = log_widths[:, None] - np.log(deviations) - (low + high) ** 2 / 8
            between = np.where(high - low < _THIN, logs - _HALF_LOG_TWO_PI, between)
        inside = np.asarray(logsumexp(log_weights + between, axis=1))
        density = nothing
    elif density is None:
        places = (edges[0][:, None] - centers) / deviations
        logs = log_weights - places**2 / 2 - np.log(deviations) - _HALF_LOG_TWO_PI
        density = np.asarray(logsumexp(logs, axis=1))
    return OnLine(
        density,
        inside,
        *_masses(log_weights, centers, deviations, edges, support, cells),
    )


def points_on_line(
    log_weights: Float[np.ndarray, "n k"],
    places: Float[np.ndarray, "n k"],
    density: Float[np.ndarray, " n"],
) -> OnLine:
    """Points under mixtures without ends, from their places (t − c)/s in all components."""
    sums, (log_weights, places), _ = _live(log_weights, places)
    weights = np.exp(log_weights)
    nearer = ndtr(-np.abs(places))
    nearer *= weights
    positive = places > 0
    beyond = sums(np.where(positive, nearer, 0.0))
    left, right = sums(nearer) - beyond, sums(np.where(positive, weights, 0.0))
    # Of components on the nearer side what is beyond the point, of the others all but that.
    below = left + np.maximum(right - beyond, 0.0)
    above = beyond + np.maximum(sums(weights) - right - left, 0.0)
    return OnLine(density, np.full(len(density), -np.inf), below, above)


def _live(
    log_weights: Float[np.ndarray, "n k"], *others: Float[np.ndarray, "n k"]
) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[np.ndarray, ...], np.ndarray]:
    """Sums over components, what they are sums of, and which rows that belongs to.

    Where few components have a weight that double precision can add to the others, those alone.
    """
    live = log_weights > _NEGLIGIBLE
    parts = (log_weights, *others)
    if np.count_nonzero(live) >= _WORTH_TAKING * live.size:
        return lambda values: values.sum(axis=1), parts, np.arange(len(live))[:, None]
    rows, taken = np.nonzero(live)

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(rows, values, minlength=len(live))

    return sums, tuple(one[rows, taken] for one in parts), rows


def _masses(
    log_weights: Float[np.ndarray, "n k"],
    centers: Float[np.ndarray, "n k"],
    deviations: Float[np.ndarray, "n k"],
    edges: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    support: tuple[float, float],
    cells: bool,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Masses below and above, up to the ends."""
    sums, (logs, center, scale), rows = _live(log_weights, centers, deviations)
    weights = np.exp(logs)
    low, high = ((edge[rows] - center) / scale for edge in edges)
    if cells or np.isfinite(support).any():
        starts, ends = (
            (end - center) / scale if np.isfinite(end) else np.full_like(low, end)
            for end in support
        )
        below, above = _between(starts, low), _between(high, ends)
    else:
        nearer = ndtr(-np.abs(low))
        below, above = np.where(low < 0, nearer, 1 - nearer), np.where(low < 0, 1 - nearer, nearer)
    return sums(weights * below), sums(weights * above)


def _between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Φ(high) − Φ(low), from the nearer end."""
    return np.maximum(
        np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)), 0.0
    )  # fmt: skip


def _log_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """log(Φ(high) − Φ(low)) however far out."""
    turned = low > 0
    low, high = np.where(turned, -high, low), np.where(turned, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = upper + np.log1p(-np.exp(np.minimum(lower - upper, 0.0)))
    return np.where(np.isnan(found), -np.inf, found)


def line_mixture_quantiles(
    log_weights: Float[np.ndarray, "n k"],
    centers: Float[np.ndarray, "n k"],
    deviations: Float[np.ndarray, "*n k"],
    support: tuple[float, float],
    levels: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Points with a share below them, between the ends.

    By Newton's steps, which stay within ends that enclose the point, and halving where they do not.
    """
    rows, live = np.nonzero(log_weights > _NEGLIGIBLE)
    deviations = np.broadcast_to(deviations, centers.shape)
    center, scale = centers[rows, live], deviations[rows, live]
    weights = np.exp(log_weights[rows, live])

    def below(points: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        masses = weights * ndtr((points[rows] - center) / scale)
        return np.bincount(rows, masses, minlength=len(centers))

    def slope(points: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        heights = np.exp(-(((points[rows] - center) / scale) ** 2) / 2) * weights / scale
        return np.bincount(rows, heights, minlength=len(centers)) / np.sqrt(2 * np.pi)

    start, end = (
        below(np.full(len(centers), one))
        if np.isfinite(one)
        else np.full(len(centers), float(one > 0))
        for one in support
    )
    wanted = start + levels * (end - start)
    low, high = np.full(len(centers), np.inf), np.full(len(centers), -np.inf)
    np.minimum.at(low, rows, center - _REACH * scale)
    np.maximum.at(high, rows, center + _REACH * scale)
    low, high = (np.clip(one, *support) for one in (low, high))
    points = (low + high) / 2
    for step in range(_HALVINGS):
        found = below(points)
        low, high = np.where(found < wanted, points, low), np.where(found < wanted, high, points)
        middle = (low + high) / 2
        if step >= _FIRST_HALVINGS:
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = points + (wanted - found) / slope(points)
            inside = (moved > low) & (moved < high)
            still = np.abs(moved - points) <= _STILL
            middle = np.where(inside | still, np.clip(moved, low, high), middle)
            if (still | (high - low <= _STILL)).all():
                return middle
        points = middle
    return points


def line_mixture_draws(
    log_weights: Float[np.ndarray, "n k"],
    centers: Float[np.ndarray, "n k"],
    deviations: Float[np.ndarray, "*n k"],
    support: tuple[float, float],
    uniform: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Draws between the ends, one for each row, from uniform numbers.

    A component is drawn by its mass between the ends, and what the uniform number has left over is
    uniform again and draws within it: no distribution function of the mixture is inverted.
    """
    deviations = np.broadcast_to(deviations, centers.shape)
    starts, ends = (
        (end - centers) / deviations if np.isfinite(end) else np.full(centers.shape, end)
        for end in support
    )
    sums = np.cumsum(np.exp(log_weights) * _between(starts, ends), axis=1)
    wanted = uniform * sums[:, -1]
    chosen = np.minimum((sums <= wanted[:, None]).sum(axis=1), sums.shape[1] - 1)
    rows = np.arange(len(centers))
    before = np.where(chosen > 0, sums[rows, chosen - 1], 0.0)
    within = np.clip((wanted - before) / np.maximum(sums[rows, chosen] - before, _TINY), 0.0, 1.0)
    center, scale, start, end = (
        one[rows, chosen] for one in (centers, deviations, starts, ends)
    )  # fmt: skip
    # From the nearer end, so that tails lose no digits.
    turned = start > 0
    low, high = np.where(turned, -end, start), np.where(turned, -start, end)
    within = np.where(turned, 1 - within, within)
    places = ndtri(np.clip(ndtr(low) + within * (ndtr(high) - ndtr(low)), _TINY, 1 - 1e-16))
    return np.clip(center + scale * np.where(turned, -places, places), *support)
