"""Two densities of one target, pooled: that of the kernel, and the conditional of a mixture.

    p(y | x) = (1 − w) p_kernel(y | x) + w p_mixture(y | x)

Both are normalized, so the pool is, without a quadrature of its own; so are its cdf and derivatives
those of the parts. Quantiles are read off nodes and then mended by Newton's steps. Between bounds
the mixture is cut off and divided by what it has inside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.polynomial.legendre import leggauss

from kexpfam.base.target_mixture import LineMixtures
from kexpfam.data.response import Response
from kexpfam.features.residual import REACH
from kexpfam.model.slices import N_FINE_NODES, N_NODES, Slices

__all__ = ["PooledSlices", "log_mixture", "log_pool"]

# Nodes reach over so many deviations of every component with more than this weight.
_COMPONENT_REACH, _SEEN = 6.0, np.log(1e-4)
_NEWTON_STEPS = 3
_TINY = 1e-300
# Log weights of components that count for moments.
_COUNTED = -25.0
# Gauss–Legendre nodes over so many deviations to both sides of a component's center.
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


def _masses_below_bounds(
    lines: LineMixtures, response: Response, bounds: tuple[float, float]
) -> Float[np.ndarray, "n 2"]:
    n_rows = len(lines.centers)
    ends = np.broadcast_to([0.0, 1.0], (n_rows, 2)).copy()
    for place, bound in enumerate(bounds):
        if np.isfinite(bound):
            ends[:, place] = lines.below(response.forward(np.full((n_rows, 1), bound)))[:, 0]
    return ends


@dataclass(frozen=True)
class PooledSlices:
    """Densities of the target at rows: a share of mixtures beside what the kernel says."""

    kernel: Slices
    lines: LineMixtures
    share: float
    bounds: tuple[float, float]

    @property
    def errors(self) -> Float[np.ndarray, " n"]:
        """Of the quadrature: the mixture needs none."""
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
        masses = self.lines.below(self.kernel.response.forward(y))
        inside = np.maximum(self._ends[:, 1:] - self._ends[:, :1], _TINY)
        other = np.clip((masses - self._ends[:, :1]) / inside, 0.0, 1.0)
        return (1 - self.share) * self.kernel.cdf(y) + self.share * other

    def quantiles(self, levels: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Targets with so much mass below."""
        found = self._on_nodes(N_NODES).quantiles(levels)
        off = self.cdf(found) - levels
        for _ in range(_NEWTON_STEPS):
            step = off / np.maximum(np.exp(self.log_density(found)), _TINY)
            tried = np.clip(found - step, *self.bounds)
            missed = self.cdf(tried) - levels
            better = np.abs(missed) < np.abs(off)
            found, off = np.where(better, tried, found), np.where(better, missed, off)
        return found

    @cached_property
    def on_nodes(self) -> Slices:
        """The pool at equally spaced nodes that reach over both, for modes and sets."""
        return self._on_nodes(N_FINE_NODES)

    def _on_nodes(self, n_nodes: int) -> Slices:
        kernel = self.kernel
        seen = self.lines.log_weights > _SEEN
        reach = _COMPONENT_REACH * self.lines.deviations
        ends = []
        for sign, bound in ((-1.0, kernel.low), (1.0, kernel.high)):
            far = np.where(seen, sign * self.lines.centers + reach, -np.inf).max(axis=1)
            far = np.maximum((far - sign * kernel.mean) / kernel.scale, REACH)
            ends.append(sign * np.minimum(far, sign * bound))
        first, last = ends
        steps = np.linspace(0, 1, n_nodes)
        nodes = first[:, None] + (last - first)[:, None] * steps
        y = kernel.targets(nodes)
        if np.isfinite(self.bounds).any():
            y = np.clip(y, *self.bounds)
        logs = self.log_density(y) - kernel.response.log_slope(y) + np.log(kernel.scale)[:, None]
        masses = self.cdf(y[:, [0, -1]])
        below, above = masses[:, 0], 1 - masses[:, 1]
        return replace(kernel, nodes=nodes, logs=logs, below=below, above=above)

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
        # In units of the furthest: squares of very large or small targets are no numbers.
        unit = max(float(np.abs(away).max()), _TINY)
        return mean, unit * np.sqrt(total(masses * (away / unit) ** 2) / weights)
