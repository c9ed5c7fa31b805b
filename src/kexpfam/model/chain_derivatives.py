"""Derivatives of a chain's log density in the numbers that have one.

The same formulas as in `kexpfam.model.chain`, with numbers that carry their derivatives along the
columns (`kexpfam.jets`), as functions of the mapped numbers t with densities. Categories and whole
numbers come before them and depend on none of them, and a column depends on those up to it. The
mixture's part is in `kexpfam.model.mixture_jets`, that of kernels in `kexpfam.model.kernel_jets`.
With the logarithm ℓ of the slope t′ of a column's map,

    ∂_j log p = t′_j ∂L/∂t_j + ℓ′_j        ∂²_j log p = t′_j² ∂²L/∂t_j² + ℓ′_j t′_j ∂L/∂t_j + ℓ″_j.

What is not there has no derivative. Numbers before that enter as they are, standardized by their
standard deviation σ, have the derivatives 1/(σt′) and −ℓ′/(σt′²) in t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.bell import WIDTHS
from kexpfam.base.ordered import Factors, patterns_of
from kexpfam.features.residual import residual_functions
from kexpfam.jets import Jet, exp, log, logaddexp, logsumexp, ndtr, ndtri, where
from kexpfam.model import kernel_jets
from kexpfam.model.chain_slices import Chain
from kexpfam.model.chain_terms import Inputs
from kexpfam.model.mixture_jets import MixtureSoFar
from kexpfam.model.residual_tilt import BASE_SHARE, NODES, normal_masses
from kexpfam.threads import in_threads, one_blas_thread

__all__ = ["chain_derivatives"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
# Derivatives of the log weights of a block of rows, which are gone through for every column.
_BLOCK_NUMBERS = 400_000
# Shares below this do not change: third powers of their inverses are still numbers.
_TINY = 1e-100
_AT_NODES, _LOG_MASSES = residual_functions(NODES), np.log(normal_masses(NODES))


@one_blas_thread()
def chain_derivatives(
    chain: Chain, rows: Float[np.ndarray, "n d"], *, second: bool
) -> list[Float[np.ndarray, "n d"]]:
    """∂_j log p and, if asked for, ∂²_j log p; NaN where a column has none."""
    found = [np.full(rows.shape, np.nan) for _ in range(1 + second)]
    parts, layout = chain.layout.split(rows), chain.layout
    smooth = np.flatnonzero(~layout.is_lattice)
    if chain.marginals is None or chain.mixture is None or not len(smooth):
        return found
    curve = chain.marginals.curve(chain.maps.scored(parts.numbers))
    widths = np.exp(-curve.log_slopes) / chain.marginals.standardizer.scale
    turns = np.stack([widths, -curve.first * np.exp(-curve.log_slopes) * widths])
    slopes = _mapped_derivatives(chain, chain.inputs(parts), turns, len(smooth), second)
    steep, bend, turn = (
        part[:, smooth] for part in (np.exp(curve.log_slopes), curve.first, curve.second)
    )
    gone = np.isnan(parts.numbers[:, smooth]) | parts.outside.any(axis=1, keepdims=True)
    columns = np.array(layout.numerics)[smooth]
    found[0][:, columns] = np.where(gone, np.nan, steep * slopes[0] + bend)
    if second:
        bent = steep**2 * slopes[1] + bend * steep * slopes[0] + turn
        found[1][:, columns] = np.where(gone, np.nan, bent)
    return found


def _mapped_derivatives(
    chain: Chain, inputs: Inputs, turns: Float[np.ndarray, "two n m"], n_smooth: int, second: bool
) -> Float[np.ndarray, "o n s"]:
    """Derivatives in the mapped numbers, those with densities being the last."""
    assert chain.mixture is not None
    mapped = np.concatenate([chain.scores(inputs.indicators), inputs.mapped], axis=1)
    found = np.zeros((1 + second, len(mapped), n_smooth))
    size = max(1, _BLOCK_NUMBERS // (n_smooth * len(chain.mixture.weights)))

    def of_some(
        piece: tuple[Factors, Bool[np.ndarray, " w"], Int[np.ndarray, " j"]],
    ) -> tuple[Int[np.ndarray, " j"], Float[np.ndarray, "o s j"]]:
        factors, there, some = piece
        own = Inputs(*(part[some] for part in inputs))
        rows = np.where(there, mapped[some], 0.0)
        block = _Block(chain, factors, rows, own, turns[:, some], there, n_smooth, second)
        return some, block.derivatives()

    pieces = (
        (factors, there, members[start : start + size])
        for there, members in patterns_of(~np.isnan(mapped))
        for factors in [chain.mixture.factors(there)]
        for start in range(0, len(members), size)
    )
    for some, derivatives in in_threads(of_some, pieces):
        found[:, some] = derivatives.transpose(0, 2, 1)
    return found


class _Block(NamedTuple):
    """Some rows that have the same columns; directions are the last ones, up to the one at hand.

    `turns` are the first and second derivatives of plain numbers in mapped ones.
    """

    chain: Chain
    factors: Factors
    rows: Float[np.ndarray, "n w"]
    inputs: Inputs
    turns: Float[np.ndarray, "two n m"]
    there: Bool[np.ndarray, " w"]
    n_smooth: int
    second: bool

    def derivatives(self) -> Float[np.ndarray, "o s n"]:
        """Of the sum of the terms of numbers with densities, in mapped coordinates."""
        (n_columns, n_components), n_rows = self.factors.deviations.shape, len(self.rows)
        turns, deviations = self.factors.turns, self.factors.deviations
        places = (self.rows @ turns.reshape(n_columns, -1)).reshape(n_rows, n_columns, -1)
        places -= self.factors.shifts
        start, n_numbers = n_columns - self.n_smooth, len(self.chain.layout.numerics)
        logs = self.factors.log_weights - (places[:, :start] ** 2).sum(axis=1) / 2
        logs -= np.log(deviations[:start]).sum(axis=0) + start * _HALF_LOG_TWO_PI
        bent = np.zeros((0, n_components)) if self.second else None
        mixture = MixtureSoFar.of(logs, np.zeros((n_rows, 0, n_components)), bent)
        found = np.zeros((1 + self.second, self.n_smooth, n_rows))
        for count, place in enumerate(range(start, n_columns), 1):
            at, slopes = places[:, place], turns[start : place + 1, place]
            before, mixture = mixture, mixture.after(at, slopes, deviations[place])
            if not self.there[place]:
                continue
            number = place - (n_columns - n_numbers)
            own = mixture.total - _widened(before.total)
            empty = self.chain.number_terms[number].is_empty
            if not empty or self.chain.needs_masses(number):
                masses = self._masses(number, before, at, slopes, deviations[place])
                own = self._term(number, own, *masses)
            found[0, :count] += own.first
            if own.second is not None:
                found[1, :count] += own.second
        return found

    def _masses(
        self,
        number: int,
        before: MixtureSoFar,
        at: Float[np.ndarray, "n k"],
        slopes: Float[np.ndarray, "t k"],
        deviations: Float[np.ndarray, " k"],
    ) -> list[Jet]:
        """The mixture's masses below and above, up to the ends."""
        found, standing = [], slopes.copy()
        standing[-1] = 0.0
        for sign, end in zip((1.0, -1.0), self.chain.support[:, number], strict=True):
            mass = before.mass(sign * at, sign * slopes)
            if np.isfinite(end):
                # An end moves with all columns but its own.
                far = at + (end - self.inputs.mapped[:, number])[:, None] / deviations
                mass = mass - before.mass(sign * far, sign * standing)
            found.append(mass)
        return found

    def _term(self, number: int, density: Jet, below: Jet, above: Jet) -> Jet:
        term = self.chain.number_terms[number]
        if term.location is not None:
            mean, variance = kernel_jets.located(term.location, self._moving(number))
            scale = kernel_jets.scaled(variance, term.location, term.factor)
            mean, scale = _widened(mean), _widened(scale)
            point = self._point(number)
            places = ((point - mean) / scale)[..., None] * (1 / WIDTHS)
            logs = places.square() * -0.5 - log(scale)[..., None]
            with np.errstate(divide="ignore"):
                logs = logs + (np.log(term.bell_shares / WIDTHS) - _HALF_LOG_TWO_PI)
            share = term.share * self.inputs.known[:, number]
            bell = _bell_masses(
                term.bell_shares, places, point, scale, self.chain.support[:, number]
            )
            with np.errstate(divide="ignore"):
                own, others = np.log(share), np.log1p(-share)
            density = logaddexp(density + others, logsumexp(logs) + own)
            below = below * (1 - share) + bell[0] * share
            above = above * (1 - share) + bell[1] * share
        found = density - log(_at_least_tiny(below + above))
        if term.functions is None or term.coefficients is None:
            return found
        slopes = kernel_jets.tilting(term.functions, term.coefficients, self._moving(number))
        slopes = _widened(slopes * self.inputs.familiar[:, [number]])
        return found + _log_ratio(slopes, below, above)

    def _n_before(self, number: int) -> int:
        """How many of the columns before a number move."""
        return number - (len(self.chain.layout.numerics) - self.n_smooth)

    def _point(self, number: int) -> Jet:
        """The number itself, which moves along the last direction."""
        first = np.zeros((self._n_before(number) + 1, 1))
        first[-1] = 1.0
        second = np.zeros((1, 1)) if self.second else None
        return Jet(self.inputs.mapped[:, number], first, second)

    def _moving(self, number: int) -> kernel_jets.Inputs:
        """The columns before a number, of which those with densities move."""
        plain, count = self.chain.number_terms[number].plain, self._n_before(number)
        rows = self.inputs.before(number, plain)
        own = slice(number - count, number)
        # What is not there stands still.
        there = self.there[len(self.there) - len(self.chain.layout.numerics) :][own]
        shape = count, len(rows)
        first, second = np.ones(shape), np.zeros(shape)
        if plain:
            first, second = (np.where(there, turn[:, own], 0.0).T for turn in self.turns)
        places = np.arange(rows.shape[1] - count, rows.shape[1])
        return kernel_jets.Inputs(
            rows, places, first * there[:, None], second if self.second else None
        )


def _widened(jet: Jet) -> Jet:
    """With one more direction, along which it stands still."""

    parts = [
        None if part is None else np.concatenate([part, np.zeros((1, *part.shape[1:]))])
        for part in (jet.first, jet.second)
    ]
    return Jet(jet.value, *parts)


def _bell_masses(
    weights: Float[np.ndarray, " b"],
    places: Jet,
    point: Jet,
    scale: Jet,
    support: Float[np.ndarray, " two"],
) -> list[Jet]:
    """A bell's masses between a point and the ends, as in `kexpfam.base.line`."""
    found = []
    for sign, end in zip((1.0, -1.0), support, strict=True):
        mass = ndtr(places * sign)
        if np.isfinite(end):
            far = places + ((end - point) / scale)[..., None] * (1 / WIDTHS)
            mass = mass - ndtr(far * sign)
        found.append((mass * weights).sum(axis=-1))
    return found


def _at_least_tiny(share: Jet) -> Jet:
    """A share that is held where it is tiny, much as in `kexpfam.base.line`."""
    return where(share.value > _TINY, share, share * 0.0 + _TINY)


def _log_ratio(slopes: Jet, below: Jet, above: Jet) -> Jet:
    """As in `kexpfam.model.residual_tilt`."""
    nearer = where(below.value < above.value, below, above) / _at_least_tiny(below + above)
    residual = ndtri(_at_least_tiny(nearer)) * np.where(below.value < above.value, 1.0, -1.0)
    functions = residual[..., None].through(
        *(residual_functions(residual.value, order) for order in (0, 1, 2))
    )
    tilt = (slopes * functions).sum(axis=-1) - _log_normalizer(slopes)
    return log(exp(tilt) * (1 - BASE_SHARE) + BASE_SHARE)


def _log_normalizer(slopes: Jet) -> Jet:
    """log Z = log Σ_q m_q exp(a·b_q); its derivatives are moments of b under the tilted masses."""
    logs = slopes.value @ _AT_NODES.T + _LOG_MASSES
    top = logs.max(axis=1)
    shares = np.exp(logs - top[:, None])
    sums = shares.sum(axis=1)
    shares /= sums[:, None]
    mean = shares @ _AT_NODES
    first = (slopes.first * mean).sum(axis=-1)
    second = None
    if slopes.second is not None:
        spread = np.einsum("snq,nq->sn", (slopes.first @ _AT_NODES.T) ** 2, shares) - first**2
        second = (slopes.second * mean).sum(axis=-1) + spread
    return Jet(top + np.log(sums), first, second)
