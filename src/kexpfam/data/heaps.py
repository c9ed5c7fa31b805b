"""Whole numbers that are more frequent than their neighbors, and a scale on which they are not.

People work 40, 45 or 50 hours, and taxes make a few gains frequent: a smooth density over the cells
of such a column misses most of what there is to know. With c_l rows at the value l, n in all, and a
smooth density b of the column (a kernel density estimate), values have the probabilities

    P(l) = [max(c_l − δ, 0) + (θ + δk) b(l)] / (n + θ)

of a Pitman–Yor process that has seen the k values which are kept; all others are the smooth
density's. The column is then measured by its normal scores,

    S(x) = Φ⁻¹(F(x)),          F the distribution function of P, linear within each cell.

What is smooth on S has heaps on the column itself, and the masses of cells add up to one, whatever
distribution S has and whatever that depends on. Beyond all values S goes on as a straight line.

The bandwidth of b, δ and θ are the likeliest for values that are left out, each predicted by the
others; heaps are found where these predict significantly better than a density that is smooth from
one whole number to the next.

| symbol | name     | shape |
|--------|----------|-------|
| l      | values   | (k,)  |
| c_l    | masses   | (k,)  |
| x, S   | knots, scores | (q,) |
| δ, θ   | discount, strength | |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

__all__ = ["DISCOUNTS", "STRENGTHS", "Heaps", "find_heaps"]

# Values that have a frequency of their own at most; rows and values that are looked at, at least.
_MOST_VALUES, _FEWEST_ROWS, _FEWEST_VALUES = 1000, 50, 3
# Centers of kernels: of more values, neighbors are joined.
_MOST_CENTERS = 500
# Bandwidths, in units in which a column's quartiles are about 1.35 apart and far values as near as
# their logarithms; at least half a step between whole numbers. A share of the widest covers gaps.
_BANDWIDTHS, _WIDE_SHARE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8), 0.02
DISCOUNTS, STRENGTHS = (0.0, 0.25, 0.5, 0.75, 0.9), np.logspace(-0.5, 5, 12)
# Nats a row that heaps must gain at least, and in standard errors.
_LEAST_GAIN, _ERRORS = 0.02, 3.0
# Points of the smooth density, and bandwidths beyond the outermost values where they end.
_GRID, _REACH = 2001, 6.0
# The most mass between knots within a cell, and values that people are shown.
_PIECE, _SHOWN = 1 / 256, 5
_TINY = 1e-300


class Heaps(NamedTuple):
    """Knots of S: the edges of cells, and places within large ones.

    `middle` and `scale` say where values are and how wide, also for S beyond the knots; `frequent`
    are the values that stand out most.
    """

    knots: tuple[float, ...]
    scores: tuple[float, ...]
    middle: float
    scale: float
    frequent: tuple[float, ...]

    def __repr__(self) -> str:
        return f"<{len(self.knots)} knots; {self}>"

    def __str__(self) -> str:
        return ", ".join(f"{value:.10g}" for value in self.frequent) + ", …"

    def forward(self, values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """S of numbers; NaN stays."""
        return _on_lines(values, np.array(self.knots), np.array(self.scores), 1 / self.scale)

    def backward(self, scores: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Numbers of scores."""
        return _on_lines(scores, np.array(self.scores), np.array(self.knots), self.scale)

    def standardized(self, values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Numbers in units of their own spread."""
        return (values - self.middle) / self.scale

    def log_widths(self, values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Logarithms of the cells' widths on S."""
        return np.log(np.maximum(self.forward(values + 0.5) - self.forward(values - 0.5), _TINY))


def _on_lines(
    values: Float[np.ndarray, "*n"],
    knots: Float[np.ndarray, " q"],
    heights: Float[np.ndarray, " q"],
    slope: float,
) -> Float[np.ndarray, "*n"]:
    """Straight lines between knots and beyond them."""
    beyond = np.minimum(values - knots[0], 0.0) + np.maximum(values - knots[-1], 0.0)
    return np.interp(values, knots, heights) + slope * beyond


@dataclass(frozen=True)
class _Smooth:
    """Kernel density estimates of a column, on u = arsinh((x − middle)/scale).

    `kept` are distribution functions on the grid that have been computed, by their bandwidth.
    """

    low: float
    middle: float
    scale: float
    grid: Float[np.ndarray, " g"]
    centers: Float[np.ndarray, " j"]
    masses: Float[np.ndarray, " j"]
    kept: dict[float, Float[np.ndarray, " g"]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, values: Float[np.ndarray, " k"], masses: Float[np.ndarray, " k"], low: float
    ) -> _Smooth:
        levels = [0.25, 0.5, 0.75]
        first, middle, last = np.quantile(values, levels, weights=masses, method="inverted_cdf")
        scale = max((last - first) / 1.35, 1.0)
        centers = np.arcsinh((values - middle) / scale)
        reach = _REACH * _BANDWIDTHS[-1]
        grid = np.linspace(centers[0] - reach, centers[-1] + reach, _GRID)
        if len(values) > _MOST_CENTERS:
            ends = np.linspace(centers[0], centers[-1], _MOST_CENTERS + 1)[1:-1]
            groups = np.searchsorted(ends, centers)
            joined = np.bincount(groups, masses, minlength=_MOST_CENTERS)
            sums = np.bincount(groups, masses * centers, minlength=_MOST_CENTERS)
            centers, masses = sums[joined > 0] / joined[joined > 0], joined[joined > 0]
        return cls(low, float(middle), float(scale), grid, centers, masses)

    def units(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.arcsinh((values - self.middle) / self.scale)

    def widths(self, units: Float[np.ndarray, " n"], bandwidth: float) -> Float[np.ndarray, " n"]:
        """Widths of kernels at positions: at least half a whole number and two grid steps."""
        steps = 0.5 / (self.scale * np.cosh(units))
        return np.maximum(np.maximum(bandwidth, 2 * (self.grid[1] - self.grid[0])), steps)

    def shares_below(
        self, values: Float[np.ndarray, " n"], bandwidth: float
    ) -> Float[np.ndarray, " n"]:
        """How much of the density lies below."""
        found = (1 - _WIDE_SHARE) * self._on_grid(bandwidth)
        found += _WIDE_SHARE * self._on_grid(_BANDWIDTHS[-1])
        ends = self.units(np.append(values, self.low))
        below = np.interp(ends, self.grid, found, 0.0)
        return np.clip(below[:-1] - below[-1], 0.0, None) / (1 - below[-1])

    def _on_grid(self, bandwidth: float) -> Float[np.ndarray, " g"]:
        """How much of the rows' kernels lies below each point of the grid."""
        if bandwidth not in self.kept:
            places = (self.grid[:, None] - self.centers) / self.widths(self.centers, bandwidth)
            self.kept[bandwidth] = ndtr(places) @ (self.masses / self.masses.sum())
        return self.kept[bandwidth]

    def cells(
        self, values: Float[np.ndarray, " k"], bandwidth: float
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """b of values, and what each row adds to that of its own value."""
        edges = np.concatenate([values - 0.5, values + 0.5])
        start, end = np.split(self.shares_below(edges, bandwidth), 2)
        before, after = np.split(self.units(edges), 2)
        own = 2 * ndtr((after - before) / 2 / self.widths(self.units(values), bandwidth)) - 1
        return end - start, (1 - _WIDE_SHARE) * own


class _Seen(NamedTuple):
    """Distinct values, how often each occurred, and how often those did that are kept."""

    values: Float[np.ndarray, " k"]
    masses: Float[np.ndarray, " k"]
    least: float

    @classmethod
    def of(cls, values: Float[np.ndarray, " k"], masses: Float[np.ndarray, " k"]) -> _Seen:
        least = 1.0
        if len(values) > _MOST_VALUES:
            least = max(1.0, float(np.sort(masses)[-_MOST_VALUES - 1]) + 1)
        return cls(values, masses, least)

    @property
    def total(self) -> float:
        return float(self.masses.sum())

    def mean(self, logs: Float[np.ndarray, " k"]) -> float:
        return float(self.masses @ logs) / self.total

    def probabilities(
        self,
        smooth: Float[np.ndarray, " k"],
        discount: float,
        strength: float,
        without: float = 0.0,
    ) -> Float[np.ndarray, " k"]:
        """P of each value; perhaps without one of its rows."""
        left = np.maximum(self.masses - without, 0.0)
        kept, still = self.masses >= self.least, left >= self.least
        own = np.where(still, left - discount, 0.0)
        # Rows that are the smooth density's: of values that are not kept, or not kept any more.
        loose = self.masses[~kept].sum() + np.where(still, 0.0, left)
        loose -= np.where(kept, 0.0, self.masses)
        share = strength + discount * (kept.sum() - (kept & ~still)) + loose
        return (own + share * smooth) / (self.total - without + strength)


def find_heaps(
    values: Float[np.ndarray, " k"], masses: Float[np.ndarray, " k"], low: float = -np.inf
) -> Heaps | None:
    """The scores of a column of whole numbers that begin at `low`, if it has heaps."""
    # So that the order in which weights were summed makes no difference.
    masses = np.round(masses, 6)
    seen = _Seen.of(values, masses)
    if len(values) < _FEWEST_VALUES or seen.total < _FEWEST_ROWS or masses.max() < 2:
        return None
    smooth = _Smooth.of(values, masses, low - 0.5)
    # Without the row itself: what is smooth. Without all rows of its value: what heaps add to.
    alike: list[Float[np.ndarray, " k"]] = []
    others: list[Float[np.ndarray, " k"]] = []
    for bandwidth in _BANDWIDTHS:
        cells, own = smooth.cells(values, bandwidth)
        # Edges are no heaps: what is smooth is so between the outermost values.
        first, last = smooth.shares_below(values[[0, -1]] + [-0.5, 0.5], bandwidth)
        for found, gone, inside in (
            (alike, np.minimum(masses, 1.0), last - first),
            (others, masses, 1.0),
        ):
            left = (seen.total * cells - gone * own) / np.maximum(seen.total - gone, _TINY)
            found.append(np.maximum(left / inside, _TINY))
    plain = max((np.log(one) for one in alike), key=seen.mean)
    best = max(range(len(others)), key=lambda place: seen.mean(np.log(others[place])))
    logs, discount, strength = max(
        (
            (np.log(seen.probabilities(others[best], *pair, without=1.0) + _TINY), *pair)
            for pair in product(DISCOUNTS, STRENGTHS.tolist())
        ),
        key=lambda trial: seen.mean(trial[0]),
    )
    gain = seen.mean(logs - plain)
    error = np.sqrt(seen.mean((logs - plain - gain) ** 2) / seen.total)
    if gain <= max(_LEAST_GAIN, _ERRORS * error):
        return None
    return _scores(seen, smooth, _BANDWIDTHS[best], discount, strength)


def _scores(
    seen: _Seen, smooth: _Smooth, bandwidth: float, discount: float, strength: float
) -> Heaps:
    """S at the edges of cells, and within those that have much of the mass."""
    kept = seen.masses >= seen.least
    values, masses = seen.values[kept], (seen.masses[kept] - discount) / (seen.total + strength)
    counts = np.ceil(masses / _PIECE).astype(int)
    owner = np.repeat(np.arange(len(values)), counts + 1)
    along = np.concatenate([np.linspace(0.0, 1.0, count + 1) for count in counts])
    knots = values[owner] - 0.5 + along
    before = np.cumsum(masses) - masses
    levels = before[owner] + along * masses[owner]
    levels += (1 - masses.sum()) * smooth.shares_below(knots, bandwidth)
    knots, first = np.unique(knots, return_index=True)
    # Beyond the outermost values there may be a quarter of a row, but no less than rounding leaves.
    least = max(0.25 / seen.total, float(np.finfo(float).eps))
    scores = ndtri(np.clip(levels[first], least, 1 - least))
    rising = np.append(True, np.diff(scores) > 0)
    cells, _ = smooth.cells(values, bandwidth)
    most = np.sort(values[np.argsort(cells - masses, kind="stable")[:_SHOWN]])
    return Heaps(
        tuple(knots[rising].tolist()),
        tuple(scores[rising].tolist()),
        smooth.middle,
        smooth.scale,
        tuple(most.tolist()),
    )
