"""Derivatives of a chain's log density in the numbers that have one.

The same formulas as in `kexpfam.model.chain`, with numbers that carry their derivatives along every
column (`kexpfam.jets`), as functions of the mapped numbers t with densities. Categories and whole
numbers come before them and depend on none of them. With the logarithm ℓ of the slope t′ of a
column's map,

    ∂_j log p = t′_j ∂L/∂t_j + ℓ′_j        ∂²_j log p = t′_j² ∂²L/∂t_j² + ℓ′_j t′_j ∂L/∂t_j + ℓ″_j.

What is not there has no derivative. Numbers before that enter as they are, standardized by their
standard deviation σ, have the derivatives 1/(σt′) and −ℓ′/(σt′²) in t. Squared distances s to a
kernel's points have the derivatives 2(x_i − p_i)/ℓ_i² and 2/ℓ_i² in its inputs, and Matérn's
profile of them

    g(s) = (1 + a + a²/3) e⁻ᵃ      g′ = −⅚ (1 + a) e⁻ᵃ      g″ = (25/12) e⁻ᵃ,      a = √(5s).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.bell import WIDTHS
from kexpfam.base.location import Location
from kexpfam.base.ordered import Factors, patterns_of
from kexpfam.features.inputs import WIDER, InputFunctions
from kexpfam.features.residual import residual_functions
from kexpfam.jets import Jet, exp, log, logaddexp, logsumexp, ndtr, ndtri, sqrt, where
from kexpfam.model.chain_slices import Chain
from kexpfam.model.chain_terms import Inputs
from kexpfam.model.residual_tilt import BASE_SHARE, NODES, normal_masses

__all__ = ["chain_derivatives"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
# Numbers in the derivatives of a block of rows' residuals.
_BLOCK_NUMBERS = 1_000_000
# Shares below this do not change: third powers of their inverses are still numbers.
_TINY = 1e-100


def chain_derivatives(
    chain: Chain, rows: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """∂_j log p and ∂²_j log p; NaN where a column has none."""
    first, second = np.full(rows.shape, np.nan), np.full(rows.shape, np.nan)
    parts, layout = chain.layout.split(rows), chain.layout
    smooth = np.flatnonzero(~layout.is_lattice)
    if chain.marginals is None or chain.mixture is None or not len(smooth):
        return first, second
    curve = chain.marginals.curve(chain.maps.scored(parts.numbers))
    widths = np.exp(-curve.log_slopes) / chain.marginals.standardizer.scale
    turns = np.stack([widths, -curve.first * np.exp(-curve.log_slopes) * widths])
    slopes = _mapped_derivatives(chain, chain.inputs(parts), turns, len(smooth))
    steep, bend, turn = (
        part[:, smooth] for part in (np.exp(curve.log_slopes), curve.first, curve.second)
    )
    gradient = steep * slopes[0] + bend
    bent = steep**2 * slopes[1] + bend * steep * slopes[0] + turn
    gone = np.isnan(parts.numbers[:, smooth]) | parts.outside[:, None]
    columns = np.array(layout.numerics)[smooth]
    first[:, columns] = np.where(gone, np.nan, gradient)
    second[:, columns] = np.where(gone, np.nan, bent)
    return first, second


def _mapped_derivatives(
    chain: Chain, inputs: Inputs, turns: Float[np.ndarray, "two n m"], n_smooth: int
) -> Float[np.ndarray, "two n s"]:
    """First and second derivatives in the mapped numbers, those with densities being the last."""
    assert chain.mixture is not None
    mapped = np.concatenate([chain.scores(inputs.indicators), inputs.mapped], axis=1)
    found = np.zeros((2, len(mapped), n_smooth))
    n_components = len(chain.mixture.weights)
    size = max(1, _BLOCK_NUMBERS // (n_smooth * mapped.shape[1] * n_components))
    for there, members in patterns_of(~np.isnan(mapped)):
        factors = chain.mixture.factors(there)
        for start in range(0, len(members), size):
            some = members[start : start + size]
            own = Inputs(*(part[some] for part in inputs))
            block = _Block(
                chain,
                factors,
                np.where(there, mapped[some], 0.0),
                own,
                turns[:, some],
                there,
                n_smooth,
            )
            logs = block.log_density().whole(n_smooth)
            found[:, some] = np.stack([logs.first.T, logs.second.T])
    return found


class _Block(NamedTuple):
    """Some rows that have the same columns; directions are the last ones.

    `turns` are the first and second derivatives of plain numbers in mapped ones.
    """

    chain: Chain
    factors: Factors
    rows: Float[np.ndarray, "n w"]
    inputs: Inputs
    turns: Float[np.ndarray, "two n m"]
    there: Bool[np.ndarray, " w"]
    n_smooth: int

    def log_density(self) -> Jet:
        """The terms of numbers with densities, in mapped coordinates."""
        deviations, n_columns = self.factors.deviations, self.rows.shape[1]
        turns = self.factors.turns
        value = np.einsum("ni,ijk->njk", self.rows, turns) - self.factors.shifts
        zero = np.zeros((1, 1, 1, 1))
        residuals = Jet(value, turns[n_columns - self.n_smooth :][:, None], zero)
        steps = residuals.square() * -0.5 - (np.log(deviations) + _HALF_LOG_TWO_PI)
        logs = steps.cumsum(axis=-2) + self.factors.log_weights
        totals = logsumexp(logs)
        found = Jet(np.zeros(len(self.rows)), np.zeros((1, 1)), np.zeros((1, 1)))
        n_numbers = len(self.chain.layout.numerics)
        for place in range(n_columns - self.n_smooth, n_columns):
            if not self.there[place]:
                continue
            number = place - (n_columns - n_numbers)
            own = totals[..., place] - totals[..., place - 1] if place else totals[..., place]
            empty = self.chain.number_terms[number].is_empty
            if not empty or self.chain.needs_masses(number):
                before = (
                    logs[..., place - 1, :] - totals[..., place - 1][..., None] if place else None
                )
                own = self._term(number, own, before, residuals[..., place, :], deviations[place])
            found = found + own
        return found

    def _term(
        self,
        number: int,
        density: Jet,
        log_weights: Jet | None,
        residuals: Jet,
        deviations: Float[np.ndarray, " k"],
    ) -> Jet:
        term, at = self.chain.number_terms[number], self.inputs.mapped[:, number]
        own_direction = self._directions(number)
        point = Jet(at, own_direction[:, None], np.zeros((1, 1)))
        weights: Jet | Float[np.ndarray, " k"] = np.exp(self.factors.log_weights)
        if log_weights is not None:
            weights = exp(log_weights)
        support = self.chain.support[:, number]
        below, above = _masses(weights, residuals, point, deviations, support)
        if term.location is not None:
            mean, scale = self._bell(number, term.location, term.factor)
            places = ((point - mean) / scale)[..., None] * (1 / WIDTHS)
            logs = places.square() * -0.5 - log(scale)[..., None]
            with np.errstate(divide="ignore"):
                logs = logs + (np.log(term.bell_shares / WIDTHS) - _HALF_LOG_TWO_PI)
            share = term.share * self.inputs.known[:, number]
            bell_masses = _masses(
                term.bell_shares, places, point, scale[..., None] * WIDTHS, support
            )
            with np.errstate(divide="ignore"):
                own, others = np.log(share), np.log1p(-share)
            density = logaddexp(density + others, logsumexp(logs) + own)
            below = below * (1 - share) + bell_masses[0] * share
            above = above * (1 - share) + bell_masses[1] * share
        found = density - log(_at_least_tiny(below + above))
        if term.functions is None or term.coefficients is None:
            return found
        slopes = self._functions(number, term.functions) @ term.coefficients
        slopes = slopes * self.inputs.familiar[:, [number]]
        return found + _log_ratio(slopes, below, above)

    def _directions(self, number: int) -> Float[np.ndarray, " s"]:
        """One for the direction of a number, zero for the others."""
        n_numbers = len(self.chain.layout.numerics)
        return (np.arange(self.n_smooth) == number - (n_numbers - self.n_smooth)).astype(float)

    def _input(self, number: int) -> Jet:
        """The columns before a number, each of which is moved along its direction."""
        plain = self.chain.number_terms[number].plain
        rows = self.inputs.before(number, plain)
        moves = np.zeros((self.n_smooth, rows.shape[1]))
        n_numbers = len(self.chain.layout.numerics)
        first = rows.shape[1] - number + (n_numbers - self.n_smooth)
        moves[np.arange(rows.shape[1] - first), np.arange(first, rows.shape[1])] = 1.0
        # What is not there stands still.
        moves[:, rows.shape[1] - number :] *= self.there[len(self.there) - n_numbers :][:number]
        if not plain:
            return Jet(rows, moves[:, None], np.zeros((1, 1, 1)))
        first, second = np.ones((2, *rows.shape))
        first[:, rows.shape[1] - number :] = self.turns[0, :, :number]
        second[:, rows.shape[1] - number :] = self.turns[1, :, :number]
        return Jet(rows, moves[:, None] * first, moves[:, None] * second)

    def _bell(self, number: int, location: Location, factor: float) -> tuple[Jet, Jet]:
        """Center and scale of a bell."""
        inputs = self._input(number)
        covariance = location.covariance
        squares = _squares(inputs, location.points, covariance.length_scale)
        plane = covariance.plane / inputs.value.shape[1]
        sections = _profile(covariance.kind, squares) * covariance.smooth
        sections = sections + (inputs @ (plane * location.points.T)) + 1.0
        prior = inputs.square().sum(axis=-1) * plane + (covariance.smooth + 1.0)
        told = (sections @ location.root).square().sum(axis=-1)
        variance = where((prior - told).value > 0, prior - told, (prior - told) * 0.0)
        return sections @ location.coefficients, sqrt(variance + location.noise) * factor

    def _functions(self, number: int, functions: InputFunctions) -> Jet:
        """ψ."""
        inputs = self._input(number)
        squares = _squares(inputs, functions.points, functions.length_scale)
        sections = _profile(functions.kind, squares)
        for wider in WIDER[1:]:
            sections = sections + _profile(functions.kind, squares * wider**-2)
        sections = (sections * (1 / len(WIDER))).whole(self.n_smooth)
        top = sections.value.argmax(axis=1)
        own = np.arange(len(top))
        nearest = Jet(*(part[..., own, top] for part in
                        (sections.value, sections.first, sections.second)))  # fmt: skip
        near = nearest * float(len(WIDER))
        near = where(near.value < 1, near, near * 0.0 + 1.0)
        inside = (inputs.value > functions.low) & (inputs.value < functions.high)
        held = Jet(
            np.clip(inputs.value, functions.low, functions.high),
            inputs.first * inside,
            inputs.second * inside,
        )
        pieces = [
            near[..., None].whole(self.n_smooth),
            (near[..., None] * held).whole(self.n_smooth),
            (sections @ functions.whitening).whole(self.n_smooth),
        ]
        return Jet(
            *(
                np.concatenate([getattr(piece, name) for piece in pieces], axis=-1)
                for name in ("value", "first", "second")
            )
        )


def _squares(
    inputs: Jet,
    points: Float[np.ndarray, "p i"],
    length_scale: Float[np.ndarray, " i"],
) -> Jet:
    """Squared distances to points."""
    away = (inputs.value[:, None] - points) / length_scale
    slopes = 2 * away / length_scale

    def along(moves: Float[np.ndarray, "s n i"]) -> Float[np.ndarray, "s n p"]:
        return (slopes @ moves.transpose(1, 2, 0)).transpose(2, 0, 1)

    second = (inputs.first**2 @ (2 / length_scale**2))[:, :, None]
    if inputs.second.any():
        second = second + along(inputs.second)
    return Jet((away**2).sum(axis=2), along(inputs.first), second)


def _profile(kind: str, squares: Jet) -> Jet:
    if kind == "rbf":
        value = np.exp(-squares.value / 2)
        return squares.through(value, -value / 2, value / 4)
    root = np.sqrt(5 * squares.value)
    decay = np.exp(-root)
    value = (1 + root + 5 * squares.value / 3) * decay
    return squares.through(value, -5 / 6 * (1 + root) * decay, 25 / 12 * decay)


def _masses(
    weights: Jet | Float[np.ndarray, " k"],
    places: Jet,
    point: Jet,
    deviations: Jet | Float[np.ndarray, " k"],
    support: Float[np.ndarray, " two"],
) -> tuple[Jet, Jet]:
    """Masses between a point and the ends, as in `kexpfam.base.line`."""
    found = []
    for sign, end in ((1.0, support[0]), (-1.0, support[1])):
        mass = ndtr(places * sign)
        if np.isfinite(end):
            far = places + (end - point)[..., None] / deviations
            mass = mass - ndtr(far * sign)
        found.append((mass * weights).sum(axis=-1))
    return found[0], found[1]


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
    normalizer = logsumexp(slopes @ residual_functions(NODES).T + np.log(normal_masses(NODES)))
    tilt = (slopes * functions).sum(axis=-1) - normalizer
    return log(exp(tilt) * (1 - BASE_SHARE) + BASE_SHARE)
