"""Monotone maps that make each column of a table look like a standard normal.

A column is standardized, u = (x − center)/scale, and put through a Yeo–Johnson power transform with
its own exponent λ (λ = 1 changes nothing),

    P(u) = ((1+u)^λ − 1)/λ            u ≥ 0        P'(u) = (1+|u|)^{(λ−1) sign u}
    P(u) = −((1−u)^{2−λ} − 1)/(2−λ)   u < 0

(logarithms in the limits). Exponents are kept between 0 and 2, where P maps the line onto the line:
outside, a draw could fall where no x is. To *gaussianize*, the result s = (P − mean)/std then
goes through the distribution function F = Σ_k π_k Φ((s − μ_k)/τ_k) of a mixture fitted to it:

    t = Φ⁻¹(F(s)),      dt/ds = f(s)/φ(t),

which is smooth, has all its derivatives in closed form, and is linear far out, like the widest
component. Logarithms of Φ are used throughout, from the nearer end, so tails lose no digits.

| symbol      | name                       | shape  |
|-------------|----------------------------|--------|
| λ           | exponents                  | (d,)   |
| π, μ, τ     | weights, means, deviations | (d, k) |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr, ndtri

from kexpfam.arrays import namespace, special
from kexpfam.data.standardize import Standardizer
from kexpfam.logarithms import log_sum_exp
from kexpfam.threads import in_threads

__all__ = ["Curve", "MarginalKind", "Marginals", "fit_marginals"]

MarginalKind = Literal["gaussianize", "yeo_johnson"] | None

_SIZES = (1, 2, 3, 5, 8)
_N_ITERATIONS, _FINAL_ITERATIONS = 20, 10
# A component narrower than this, in standard deviations of the column, would fit single values.
_NARROWEST = 0.03
# Held-out nats a row that a larger mixture of one column must gain.
_WORTH_IT = 0.002
_SEARCH_ROWS, _MOST_ROWS = 2000, 10_000
_BLOCK = 4096
_FAR = 1e4
# Shares of a normal that have few digits left, and golden sections to four digits of an exponent.
_TINY, _SECTIONS = 1e-290, 22
_HALF_LOG_TWO_PI = np.log(2 * np.pi) / 2
# Newton's steps that are shorter, relative to where they are, are the last; how many there are at
# most, which is as many as halvings need; and the logarithm of the steepest slope of a map.
_STILL, _MOST_STEPS, _STEEPEST = 1e-13, 100, 50.0
# Columns that are fitted together, and numbers for which cores share them.
_COLUMNS, _WORTH_THREADS = 8, 20_000

Fitted = TypeVar("Fitted")


class _Mixtures(NamedTuple):
    """One mixture for each column."""

    weights: Float[np.ndarray, "d k"]
    means: Float[np.ndarray, "d k"]
    deviations: Float[np.ndarray, "d k"]


class Curve(NamedTuple):
    """t(x) of every column, the logarithm of its slope and that one's first two derivatives."""

    values: Float[Any, "n d"]
    log_slopes: Float[Any, "n d"]
    first: Float[Any, "n d"]
    second: Float[Any, "n d"]


@register_dataclass
@dataclass(frozen=True)
class Marginals:
    """One monotone map for each column. A mixture of one component stands for none.

    `block_curve` is also for arrays that JAX traces.
    """

    standardizer: Standardizer
    exponents: Float[Any, " d"]
    center: Float[Any, " d"]
    scale: Float[Any, " d"]
    weights: Float[Any, "d k"]
    means: Float[Any, "d k"]
    deviations: Float[Any, "d k"]

    def in_order(self, order: Sequence[int]) -> Marginals:
        """The maps of the same columns in another order."""
        places = np.array(order, int)
        own = Standardizer(self.standardizer.center[places], self.standardizer.scale[places])
        maps = (self.exponents, self.center, self.scale, self.weights, self.means, self.deviations)
        return Marginals(own, *(part[places] for part in maps))

    def forward(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """t of x, block by block."""
        return np.concatenate([self._values(rows[part]) for part in _blocks(len(rows))])

    def _values(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        values = self._powered(self.standardizer.forward(rows))
        if self.weights.shape[1] == 1:
            return values
        places = (values[:, :, None] - self.means) / self.deviations
        below, above = ((self.weights * ndtr(sign * places)).sum(axis=2) for sign in (1, -1))
        nearer = np.minimum(below, above)
        found = ndtri(nearer)
        found = np.where(below < above, found, -found)
        # So far out that only logarithms have digits left.
        rows, columns = np.nonzero(nearer < _TINY)
        found[rows, columns] = self._quantiles(values[rows, columns], columns)[0]
        return found

    def _powered(self, units: Float[Any, "n d"]) -> Float[Any, "n d"]:
        return (power_transform(units, self.exponents) - self.center) / self.scale

    def curve(self, rows: Float[np.ndarray, "n d"]) -> Curve:
        """t of x with everything that changes of variables need, block by block."""
        pieces = [self.block_curve(rows[part]) for part in _blocks(len(rows))]
        return Curve(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))

    def block_curve(self, rows: Float[Any, "n d"]) -> Curve:
        """The same for a few rows, of NumPy's or JAX's."""
        numpy = namespace(rows, self.scale)
        units = self.standardizer.forward(rows)
        base, exponent = 1 + numpy.abs(units), self.exponents - 1
        values = self._powered(units)
        log_slopes = exponent * numpy.sign(units) * numpy.log(base) - numpy.log(self.scale)
        first, second = exponent / base, -exponent * numpy.sign(units) / base**2
        if self.weights.shape[1] > 1:
            slopes = numpy.exp(log_slopes)
            outer = self._gaussianized(values)
            second = second + outer.second * slopes**2 + outer.first * slopes * first
            first = first + outer.first * slopes
            values, log_slopes = outer.values, log_slopes + outer.log_slopes
        size = self.standardizer.scale
        # In units of 1e-200 a second derivative is not a number any more.
        with np.errstate(over="ignore"):
            first, second = first / size, second / size / size
        return Curve(values, log_slopes - numpy.log(size), first, second)

    def log_slopes(
        self, rows: Float[np.ndarray, "n d"], values: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        """log dt/dx where t is known, block by block."""
        parts = _blocks(len(rows))
        return np.concatenate([self._log_slopes(rows[part], values[part]) for part in parts])

    def _log_slopes(
        self, rows: Float[np.ndarray, "n d"], values: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        units = self.standardizer.forward(rows)
        logs = (self.exponents - 1) * np.sign(units) * np.log1p(np.abs(units))
        logs -= np.log(self.scale) + np.log(self.standardizer.scale)
        if self.weights.shape[1] == 1:
            return logs
        places = (self._powered(units)[:, :, None] - self.means) / self.deviations
        heights = (self.weights / self.deviations * np.exp(-(places**2) / 2)).sum(axis=2)
        # Where a density has few digits left, logarithms throughout.
        far = (heights < _TINY).any(axis=1)
        with np.errstate(divide="ignore"):
            logs += np.log(heights) + values**2 / 2
        logs[far] = self.block_curve(rows[far]).log_slopes
        return logs

    def column(self, number: int) -> Marginals:
        """The map of one column."""
        own = slice(number, number + 1)
        standardizer = Standardizer(self.standardizer.center[own], self.standardizer.scale[own])
        parts = (self.exponents, self.center, self.scale, self.weights, self.means, self.deviations)
        return Marginals(standardizer, *(part[own] for part in parts))

    def _gaussianized(self, units: Float[Any, "n d"]) -> Curve:
        numpy = namespace(units)
        columns = np.broadcast_to(np.arange(units.shape[1]), units.shape)
        values, logs, places = self._quantiles(units, columns)
        shares, log_slopes = _slopes_of(values, logs, self.deviations)
        slope = -(shares * places / self.deviations).sum(axis=2)
        bend = (shares * (places**2 - 1) / self.deviations**2).sum(axis=2) - slope**2
        far = numpy.abs(values) > _FAR
        slopes = numpy.exp(log_slopes)
        first = numpy.where(far, 0.0, slope + values * slopes)
        second = numpy.where(far, 0.0, bend + slopes**2 + values * slopes * first)
        return Curve(values, log_slopes, first, second)

    def _quantiles(
        self, units: Float[Any, "*n"], columns: Int[np.ndarray, "*n"]
    ) -> tuple[Any, Any, Any]:
        """Φ⁻¹(F(s)) for numbers of given columns, log densities of components, and (s − μ)/τ."""
        numpy = namespace(units, self.weights)
        functions = special(units, self.weights)
        with np.errstate(divide="ignore"):
            log_weights = numpy.log(self.weights)[columns]
        deviations = self.deviations[columns]
        places = (units[..., None] - self.means[columns]) / deviations
        below = functions.logsumexp(log_weights + functions.log_ndtr(places), axis=-1)
        above = functions.logsumexp(log_weights + functions.log_ndtr(-places), axis=-1)
        nearer = functions.ndtri_exp(numpy.minimum(below, above))
        logs = log_weights - numpy.log(deviations) - places**2 / 2 - _HALF_LOG_TWO_PI
        return numpy.where(below < above, nearer, -nearer), logs, places

    def backward(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """x of t."""
        units = values
        if self.weights.shape[1] > 1:
            units = self._undone(values)
        powered = units * self.scale + self.center
        return self.standardizer.backward(inverse_power_transform(powered, self.exponents))

    def _undone(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """s with t(s) = values: F lies between its components, and s between their quantiles.

        By Newton's steps within these ends, which come closer to s, and halving where they would
        leave them. t is nearly linear in pieces, so that a few steps are enough.
        """
        ends = self.means + self.deviations * values[:, :, None]
        # A little wider, since at the ends rounding decides the sign.
        wider = _STILL * (1 + np.abs(values))
        low = (np.where(self.weights > 0, ends, np.inf).min(axis=2) - wider).ravel()
        high = (np.where(self.weights > 0, ends, -np.inf).max(axis=2) + wider).ravel()
        found = (self.weights * ends).sum(axis=2).ravel()
        wanted = values.ravel()
        columns = np.tile(np.arange(values.shape[1]), len(values))
        open_ = np.arange(len(found))
        for _ in range(_MOST_STEPS):
            units = found[open_]
            reached, logs, _ = self._quantiles(units, columns[open_])
            gap = reached - wanted[open_]
            low[open_] = np.where(gap < 0, units, low[open_])
            high[open_] = np.where(gap > 0, units, high[open_])
            _, log_slopes = _slopes_of(reached, logs, self.deviations[columns[open_]])
            moved = units - gap * np.exp(-np.clip(log_slopes, -_STEEPEST, _STEEPEST))
            still = np.abs(moved - units) <= _STILL * (1 + np.abs(units))
            left, right = low[open_], high[open_]
            inside = (moved > left) & (moved < right)
            found[open_] = np.where(inside | still, moved, (left + right) / 2)
            open_ = open_[~still & (right - left > _STILL * (1 + np.abs(units)))]
            if len(open_) == 0:
                break
        return found.reshape(values.shape)


def _slopes_of(
    values: Float[Any, "*n"], logs: Float[Any, "*n k"], deviations: Float[Any, "*d k"]
) -> tuple[Any, Any]:
    """Shares of components, and log dt/ds at t, from the log densities of components."""
    numpy = namespace(values, logs)
    log_density = special(logs).logsumexp(logs, axis=-1)
    shares = numpy.exp(logs - log_density[..., None])
    # Far out one component is all there is, and the map a line; the difference of the two large
    # numbers would be rounding.
    alone = -numpy.log((shares * deviations).sum(axis=-1))
    near = log_density + values**2 / 2 + _HALF_LOG_TWO_PI
    return shares, numpy.where(numpy.abs(values) > _FAR, alone, near)


def _blocks(count: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, max(count, 1), _BLOCK)]


def power_transform(units: Float[Any, "n d"], exponents: Float[Any, " d"]) -> Float[Any, "n d"]:
    """Yeo–Johnson, column by column."""
    numpy = namespace(units, exponents)
    above = _box_cox(numpy.maximum(units, 0), exponents)
    below = _box_cox(numpy.maximum(-units, 0), 2 - exponents)
    return above - below


def inverse_power_transform(
    powered: Float[np.ndarray, "n d"], exponents: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n d"]:
    """The inverse of `power_transform`."""
    above = _inverse_box_cox(np.maximum(powered, 0), exponents)
    below = _inverse_box_cox(np.maximum(-powered, 0), 2 - exponents)
    return above - below


def _box_cox(values: Any, exponents: Any) -> Any:
    """((1+v)^λ − 1)/λ, accurately for small λ and v."""
    numpy = namespace(values, exponents)
    logs = numpy.log1p(values)
    safe = numpy.where(exponents == 0, 1.0, exponents)
    return numpy.where(exponents == 0, logs, numpy.expm1(safe * logs) / safe)


def _inverse_box_cox(values: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    safe = np.where(exponents == 0, 1.0, exponents)
    return np.expm1(np.where(exponents == 0, values, np.log1p(safe * values) / safe))


def fit_marginals(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    held: Bool[np.ndarray, " n"],
    standardizer: Standardizer,
    kind: MarginalKind,
) -> Marginals:
    """Exponents by maximum likelihood of a normal marginal, mixtures by that of held-out rows."""
    units, shares = standardizer.forward(rows), weights / weights.sum()
    n_columns = rows.shape[1]
    exponents, center, scale = np.ones(n_columns), np.zeros(n_columns), np.ones(n_columns)
    ones = np.ones((n_columns, 1))
    if kind is None:
        return Marginals(standardizer, exponents, center, scale, ones, 0 * ones, ones)
    exponents = np.concatenate(
        _by_columns(lambda some: _best_exponents(units[:, some], shares), units)
    )
    powered = power_transform(units, exponents)
    center = shares @ powered
    scale = np.sqrt(shares @ (powered - center) ** 2)
    # Beside a value very far out, which may not be among these rows, all others are one number.
    scale = np.where(scale > 0, scale, 1.0)
    mixtures = _Mixtures(ones, 0 * ones, ones)
    if kind == "gaussianize":
        rest = slice(0, _MOST_ROWS)
        powered = ((powered - center) / scale)[rest]
        mixtures = _side_by_side(
            _by_columns(
                lambda some: _fit_mixtures(powered[:, some], weights[rest], held[rest]), powered
            )
        )
    return Marginals(standardizer, exponents, center, scale, *mixtures)


def _by_columns(fitted: Callable[[slice], Fitted], rows: Float[np.ndarray, "n d"]) -> list[Fitted]:
    """What is fitted to a few columns at a time, by all cores where rows are many."""
    groups = (slice(at, at + _COLUMNS) for at in range(0, rows.shape[1], _COLUMNS))
    return list(in_threads(fitted, groups, worth=rows.size >= _WORTH_THREADS))


def _side_by_side(each: Sequence[_Mixtures]) -> _Mixtures:
    """Mixtures of all columns, padded to one shape with components of no weight."""
    size = max(one.weights.shape[1] for one in each)

    def padded(parts: Sequence[Float[np.ndarray, "_ _"]], value: float) -> Float[np.ndarray, "d k"]:
        shapes = [((0, 0), (0, size - part.shape[1])) for part in parts]
        return np.concatenate(
            [
                np.pad(part, shape, constant_values=value)
                for part, shape in zip(parts, shapes, strict=True)
            ]
        )

    weights, means, deviations = zip(*each, strict=True)
    return _Mixtures(padded(weights, 0.0), padded(means, 0.0), padded(deviations, 1.0))


def _best_exponents(
    units: Float[np.ndarray, "n d"], shares: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " d"]:
    """The exponents that make columns most like normal ones; one where a column is constant.

    By golden sections, for all columns at once.
    """
    positive, logs = units >= 0, np.log1p(np.abs(units))
    drift = shares @ np.where(positive, logs, -logs)

    def losses(exponents: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        own = np.where(positive, exponents, 2 - exponents)
        powered = np.expm1(own * logs) / own
        np.negative(powered, out=powered, where=~positive)
        variances = shares @ (powered - shares @ powered) ** 2
        return np.log(np.maximum(variances, _TINY)) / 2 - (exponents - 1) * drift

    low, high = np.zeros(units.shape[1]), np.full(units.shape[1], 2.0)
    golden = (np.sqrt(5) - 1) / 2
    one, other = high - golden * (high - low), low + golden * (high - low)
    at_one, at_other = losses(one), losses(other)
    for _ in range(_SECTIONS):
        left = at_one < at_other
        low, high = np.where(left, low, one), np.where(left, other, high)
        new = np.where(left, high - golden * (high - low), low + golden * (high - low))
        at_new = losses(new)
        one, other = np.where(left, new, other), np.where(left, one, new)
        at_one, at_other = np.where(left, at_new, at_other), np.where(left, at_one, at_new)
    return np.where(np.ptp(units, axis=0) == 0, 1.0, (low + high) / 2)


def _fit_mixtures(
    units: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], held: Bool[np.ndarray, " n"]
) -> _Mixtures:
    """A mixture for each column, of the size that held-out rows ask for; padded to one shape."""
    n_columns, largest = units.shape[1], _SIZES[-1]
    # Sizes are chosen with some of the rows; the chosen mixtures are then improved with all.
    for_fit, for_judging = (np.flatnonzero(side)[:_SEARCH_ROWS] for side in (~held, held))
    seen, counted = np.ascontiguousarray(units[for_fit].T), weights[for_fit]
    judges, judged_by = units[for_judging].T, weights[for_judging]
    best = np.full(n_columns, -np.inf)
    chosen = _Mixtures(*(np.zeros((n_columns, largest)) for _ in range(3)))
    chosen.deviations[:] = 1.0
    used = 1
    for size in _SIZES:
        middles = (np.arange(size) + 0.5) / size
        means = np.quantile(seen, middles, axis=1).T
        start = _Mixtures(np.full((n_columns, size), 1 / size), means, 0 * means + 1 / size)
        found = _improved(start, seen, counted, _N_ITERATIONS)
        reached = log_sum_exp(_component_logs(found, judges), axis=1) @ judged_by / judged_by.sum()
        better = reached > best + _WORTH_IT
        best[better] = reached[better]
        used = size if better.any() else used
        for stored, part in zip(chosen, found, strict=True):
            stored[better, :size] = part[better]
        chosen.weights[better, size:] = 0.0
    start = _Mixtures(*(part[:, :used] for part in chosen))
    if used == 1:
        return start
    return _improved(start, np.ascontiguousarray(units.T), weights, _FINAL_ITERATIONS)


def _component_logs(mixtures: _Mixtures, columns: Float[np.ndarray, "d n"]) -> np.ndarray:
    """log π_k N(s; μ_k, τ_k²), (d, k, n)."""
    with np.errstate(divide="ignore"):
        constants = np.log(mixtures.weights) - np.log(mixtures.deviations) - _HALF_LOG_TWO_PI
    places = (columns[:, None] - mixtures.means[:, :, None]) / mixtures.deviations[:, :, None]
    return np.asarray(constants[:, :, None] - places**2 / 2)


def _improved(
    mixtures: _Mixtures,
    columns: Float[np.ndarray, "d n"],
    weights: Float[np.ndarray, " n"],
    n_iterations: int,
) -> _Mixtures:
    """Expectation–maximization for all columns at once."""
    shares = weights / weights.sum()
    basics = np.stack([np.ones_like(columns), columns, columns**2]) * shares
    for _ in range(n_iterations):
        logs = _component_logs(mixtures, columns)
        logs -= logs.max(axis=1, keepdims=True)
        members = np.exp(logs, out=logs)
        members /= members.sum(axis=1, keepdims=True)
        # Sums of members, members times s and members times s², for every column and component.
        masses, firsts, seconds = (np.matmul(members, part[:, :, None])[:, :, 0] for part in basics)
        safe = np.maximum(masses, 1e-300)
        means = firsts / safe
        variances = np.maximum(seconds / safe - means**2, 0.0) + _NARROWEST**2
        # A component that nobody belongs to keeps its place.
        alive = masses > 1e-12
        masses = np.where(alive, masses, 0.0)
        mixtures = _Mixtures(
            masses / masses.sum(axis=1, keepdims=True),
            np.where(alive, means, mixtures.means),
            np.where(alive, np.sqrt(variances), mixtures.deviations),
        )
    return mixtures
