"""Two densities of one target, pooled: that of the kernel, and the conditional of a mixture.

    p(y | x) = (1 − w) p_kernel(y | x) + w p_mixture(y | x)

Both are normalized, so the pool is, without a quadrature of its own; so are its cdf and derivatives
those of the parts. Quantiles are read off a coarse table of the cdf, and then found by Newton's
steps, or by halving where those lead out of the bracket. Between bounds the mixture is cut off and
divided by what it has inside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial.legendre import leggauss

from kexpfam.base.target_mixture import LineMixtures
from kexpfam.data.response import Response
from kexpfam.features.residual import REACH
from kexpfam.model.cells import Cells
from kexpfam.model.slices import N_FINE_NODES, Slices

__all__ = ["PooledSlices", "log_mixture", "log_pool", "mixture_below"]

# Nodes reach over this many standard deviations of every component with more than this weight.
_COMPONENT_REACH, _SEEN = 6.0, np.log(1e-4)
# Nodes of the table that quantiles are first read off; widths of its cells that a step may have;
# steps at most, and the error of the cdf that ends them, of the mass on the smaller side.
_TABLE, _LONGEST, _MOST_STEPS, _MISSED, _ROUNDED = 81, 8.0, 60, 1e-8, 1e-15
_TINY = 1e-300
# Log weights of components that count for moments.
_COUNTED = -25.0
# Gauss–Legendre nodes over this many standard deviations to both sides of a component's center.
_PLACES, _SHARES = leggauss(32)
_MOST = 8.0


def log_pool(
    kernel: Float[np.ndarray, "..."], other: Float[np.ndarray, "..."], share: float
) -> Float[np.ndarray, "..."]:
    """log((1 − w) exp(kernel) + w exp(other))."""
    return np.logaddexp(np.log1p(-share) + kernel, np.log(share) + other)


def log_mixture(
    lines: LineMixtures,
    response: Response,
    y: Float[np.ndarray, "n ..."],
    bounds: tuple[float, float],
) -> Float[np.ndarray, "n ..."]:
    """log p(y | x) of mixtures of t(y), between the bounds."""
    found = lines.log_density(response.forward(y)) + response.log_slope(y)
    if not np.isfinite(bounds).any():
        return found
    ends = _masses_below_bounds(lines, response, bounds)
    inside = np.maximum(ends[:, 1] - ends[:, 0], _TINY)
    found -= np.log(inside).reshape(-1, *([1] * (y.ndim - 1)))
    return np.where((y >= bounds[0]) & (y <= bounds[1]), found, -np.inf)


def mixture_below(
    lines: LineMixtures,
    response: Response,
    y: Float[np.ndarray, "n m"],
    bounds: tuple[float, float],
) -> Float[np.ndarray, "n m"]:
    """The mass below targets of mixtures of t(y), between the bounds."""
    ends = _masses_below_bounds(lines, response, bounds)
    masses = lines.below(response.forward(y))
    inside = np.maximum(ends[:, 1:] - ends[:, :1], _TINY)
    return np.clip((masses - ends[:, :1]) / inside, 0.0, 1.0)


def _masses_below_bounds(
    lines: LineMixtures, response: Response, bounds: tuple[float, float]
) -> Float[np.ndarray, "n 2"]:
    n_rows = len(lines.centers)
    ends = np.broadcast_to([0.0, 1.0], (n_rows, 2)).copy()
    for place, bound in enumerate(bounds):
        if np.isfinite(bound):
            ends[:, place] = lines.below(response.forward(np.full((n_rows, 1), bound)))[:, 0]
    return ends


class _Pool(NamedTuple):
    """What the cdf of some rows is made of.

    `place` is where and how wide residuals stand in t; `inside` the mixture's mass below the bounds
    and between them.
    """

    cells: Cells
    lines: LineMixtures
    place: tuple[Float[np.ndarray, "n 1"], Float[np.ndarray, "n 1"]]
    inside: tuple[Float[np.ndarray, "n 1"], Float[np.ndarray, "n 1"]]
    share: float

    def mass_and_density(
        self, residuals: Float[np.ndarray, "n m"]
    ) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
        """The mass below residuals, and its derivative."""
        (mean, scale), (start, whole) = self.place, self.inside
        mass, density = self.cells.mass_and_density(residuals)
        below, slope = self.lines.below_and_density(mean + scale * residuals)
        other = np.clip((below - start) / whole, 0.0, 1.0)
        return (
            (1 - self.share) * mass + self.share * other,
            (1 - self.share) * density + self.share * scale * slope / whole,
        )


def _stepped(
    at: Float[np.ndarray, "n m"],
    off: Float[np.ndarray, "n m"],
    density: Float[np.ndarray, "n m"],
    bracket: tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]],
    width: Float[np.ndarray, "n 1"],
) -> Float[np.ndarray, "n m"]:
    """Newton's step of a few widths at most, or the middle of the bracket."""
    low, high = bracket
    step = np.clip(off / np.maximum(density, _TINY), -_LONGEST * width, _LONGEST * width)
    tried = at - step
    with np.errstate(invalid="ignore"):
        middle = (low + high) / 2
    outside = (tried <= low) | (tried >= high)
    return np.where(outside & np.isfinite(middle), middle, tried)


@dataclass(frozen=True)
class PooledSlices:
    """Densities of the target at rows: a share of mixtures beside what the kernel says."""

    kernel: Slices
    lines: LineMixtures
    share: float
    bounds: tuple[float, float]

    @property
    def errors(self) -> Float[np.ndarray, " n"]:
        """Errors of the kernel's quadrature; the mixture needs none."""
        return self.kernel.errors

    @cached_property
    def _ends(self) -> Float[np.ndarray, "n 2"]:
        return _masses_below_bounds(self.lines, self.kernel.response, self.bounds)

    def log_density(self, y: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        """log p(y | x) at targets for each row."""
        other = log_mixture(self.lines, self.kernel.response, y, self.bounds)
        return log_pool(self.kernel.log_density(y), other, self.share)

    def cdf(self, y: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The mass below targets."""
        other = mixture_below(self.lines, self.kernel.response, y, self.bounds)
        return (1 - self.share) * self.kernel.cdf(y) + self.share * other

    def quantiles(self, levels: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Targets with so much mass below."""
        found, width = self._table_quantiles(levels)
        low, high = (np.full(found.shape, end) for end in (-np.inf, np.inf))
        wanted = _MISSED * np.minimum(levels, 1 - levels) + _ROUNDED
        rows = np.arange(len(found))
        part = self._where(slice(None))
        for _ in range(_MOST_STEPS):
            at = found[rows]
            mass, density = part.mass_and_density(at)
            off = mass - levels[rows]
            missed = np.abs(off) > wanted[rows]
            low[rows] = np.where(off <= 0, at, low[rows])
            high[rows] = np.where(off >= 0, at, high[rows])
            stepped = _stepped(at, off, density, (low[rows], high[rows]), width[rows])
            found[rows] = np.where(missed, stepped, at)
            going_on = missed.any(axis=1)
            if not going_on.any():
                break
            # What is known of the rows is copied when they are half as many.
            if 2 * going_on.sum() < len(rows):
                rows = rows[going_on]
                part = self._where(rows)
        ends = self.kernel.low[:, None], self.kernel.high[:, None]
        targets = np.clip(self.kernel.targets(np.clip(found, *ends)), *self.bounds)
        # The ends themselves, which the map of the target would round.
        low_end, high_end = self.bounds
        return np.where(levels <= 0, low_end, np.where(levels >= 1, high_end, targets))

    def _where(self, rows: np.ndarray | slice) -> _Pool:
        kernel, ends = self.kernel, self._ends[rows]
        return _Pool(
            kernel.cells.where(rows),
            self.lines.where(rows),
            (kernel.mean[rows, None], kernel.scale[rows, None]),
            (ends[:, :1], np.maximum(ends[:, 1:] - ends[:, :1], _TINY)),
            self.share,
        )

    def _table_quantiles(
        self, levels: Float[np.ndarray, "n m"]
    ) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n 1"]]:
        """Residuals about where the quantiles are, and the width of the table's cells."""
        kernel = self.kernel
        first, last = self._reach()
        width = (last - first)[:, None] / (_TABLE - 1)
        nodes = first[:, None] + width * np.arange(_TABLE)
        t = kernel.mean[:, None] + kernel.scale[:, None] * nodes
        densities = self.lines.density(t, _SEEN)
        sums = np.zeros(nodes.shape)
        np.cumsum(densities[:, 1:] + densities[:, :-1], axis=1, out=sums[:, 1:])
        sums /= np.maximum(sums[:, -1:], _TINY)
        masses = (1 - self.share) * kernel.cells.mass_and_density(nodes)[0] + self.share * sums
        offsets = 2.0 * np.arange(len(masses))[:, None]
        places = np.searchsorted((masses + offsets).ravel(), (levels + offsets).ravel(), "right")
        cell = places.reshape(levels.shape) - np.arange(len(masses))[:, None] * _TABLE - 1
        cell = np.clip(cell, 0, _TABLE - 2)
        before, after = (np.take_along_axis(masses, cell + more, 1) for more in (0, 1))
        along = np.clip((levels - before) / np.maximum(after - before, _TINY), 0.0, 1.0)
        return first[:, None] + width * (cell + along), width

    @cached_property
    def on_nodes(self) -> Slices:
        """The pool at equally spaced nodes that reach over both, for modes and sets."""
        kernel = self.kernel
        first, last = self._reach()
        steps = np.linspace(0, 1, N_FINE_NODES)
        nodes = first[:, None] + (last - first)[:, None] * steps
        y = kernel.targets(nodes)
        if np.isfinite(self.bounds).any():
            y = np.clip(y, *self.bounds)
        logs = self.log_density(y) - kernel.response.log_slope(y) + np.log(kernel.scale)[:, None]
        masses = self.cdf(y[:, [0, -1]])
        below, above = masses[:, 0], 1 - masses[:, 1]
        return replace(kernel, nodes=nodes, logs=logs, below=below, above=above)

    def _reach(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The first and the last residual of nodes that reach over kernel and mixture."""
        kernel = self.kernel
        seen = self.lines.log_weights > _SEEN
        reach = _COMPONENT_REACH * self.lines.deviations
        ends = []
        for sign, bound in ((-1.0, kernel.low), (1.0, kernel.high)):
            far = np.where(seen, sign * self.lines.centers + reach, -np.inf).max(axis=1)
            far = np.maximum((far - sign * kernel.mean) / kernel.scale, REACH)
            ends.append(sign * np.minimum(far, sign * bound))
        first, last = ends
        return first, last

    def mixture_moments(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """E y and the standard deviation of y under the mixture, by nodes in each component."""
        lines, n_rows = self.lines, len(self.kernel.mean)
        rows, live = np.nonzero(lines.log_weights > _COUNTED)
        response, scales = self.kernel.response, lines.deviations[live]
        centers = lines.centers[rows, live]
        low, high = (
            np.clip((response.forward(np.array([bound])) - centers) / scales, -_MOST, _MOST)
            if np.isfinite(bound)
            else np.full(len(rows), np.sign(bound) * _MOST)
            for bound in self.bounds
        )
        places = low[:, None] + (high - low)[:, None] * (1 + _PLACES) / 2
        masses = np.exp(lines.log_weights[rows, live, None] - places**2 / 2)
        masses *= (high - low)[:, None] * _SHARES
        y = response.inverse(centers[:, None] + scales[:, None] * places)

        def total(values: Float[np.ndarray, "l q"]) -> Float[np.ndarray, " n"]:
            return np.bincount(rows, values.sum(axis=1), minlength=n_rows)

        weights = np.maximum(total(masses), _TINY)
        mean = total(masses * y) / weights
        away = y - mean[rows, None]
        # In units of the furthest: squares of very large or small targets are not numbers.
        unit = max(float(np.abs(away).max()), _TINY)
        return mean, unit * np.sqrt(total(masses * (away / unit) ** 2) / weights)
