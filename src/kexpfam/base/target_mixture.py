"""A Gaussian mixture of inputs and target together, read as a density of the target given inputs.

    p(t | x) = Σ_k π_k(x) N(t; c_k(x), s_k²)        π_k(x) ∝ π_k N(x; μ_k, Σ_k)

where c_k is linear in x. Both follow from the inverse Cholesky factor of the covariance of (x, t),
with the target last.

| symbol | name        | shape    |
|--------|-------------|----------|
| π_k(x) | log_weights | (n, k)   |
| c_k(x) | centers     | (n, k)   |
| s_k    | deviations  | (k,)     |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from kexpfam.base.ordered import OrderedMixture
from kexpfam.logarithms import log_sum_exp
from kexpfam.symmetric import form_coefficients, upper_half

__all__ = ["LineMixtures", "TargetLines", "target_lines"]

_ROOT_TWO_PI = np.sqrt(2 * np.pi)
_HALF_LOG_TWO_PI = np.log(_ROOT_TWO_PI)
# Log weights of components that are left out where there are many points: less than a billionth
# of the mass, all together.
_NEGLIGIBLE = -28.0
# Numbers at a time: as many as stay in the processor's cache.
_PLACES = 32_768


class _Live(NamedTuple):
    """Pairs of a row and a component that counts there, in the order of the rows.

    `starts` are the places of each row's first pair.
    """

    rows: Int[np.ndarray, " l"]
    starts: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " l"]
    centers: Float[np.ndarray, " l"]
    deviations: Float[np.ndarray, " l"]


@dataclass(frozen=True)
class LineMixtures:
    """Mixtures on the line, one for each row; all have the same standard deviations."""

    log_weights: Float[np.ndarray, "n k"]
    centers: Float[np.ndarray, "n k"]
    deviations: Float[np.ndarray, " k"]

    def where(self, rows: np.ndarray | slice) -> LineMixtures:
        """Those of some rows."""
        return LineMixtures(self.log_weights[rows], self.centers[rows], self.deviations)

    def log_density(self, t: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        """Log densities of one or several points for each row."""
        if t.ndim == 1:
            return log_sum_exp(self._logs(t), axis=1)
        with np.errstate(divide="ignore"):
            return np.log(self.density(t))

    def density(
        self, t: Float[np.ndarray, "n m"], least: float = _NEGLIGIBLE
    ) -> Float[np.ndarray, "n m"]:
        """The density of the components whose log weights are above the least."""
        (found,) = self._summed(t, least, lambda places, live: (_densities(places, live),))
        return found

    def below(self, t: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The mass below points."""
        (found,) = self._summed(t, _NEGLIGIBLE, lambda places, _: (ndtr(places),))
        return found

    def below_and_density(
        self, t: Float[np.ndarray, "n m"]
    ) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
        """The mass below points, and its derivative."""
        below, density = self._summed(
            t, _NEGLIGIBLE, lambda places, live: (ndtr(places), _densities(places, live))
        )
        return below, density

    def derivatives(
        self, t: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """∂_t log p and ∂²_t log p."""
        logs = self._logs(t)
        shares = np.exp(logs - log_sum_exp(logs, axis=1)[:, None])
        slopes = (self.centers - t[:, None]) / self.deviations**2
        first = (shares * slopes).sum(axis=1)
        second = (shares * ((slopes - first[:, None]) ** 2 - self.deviations**-2.0)).sum(axis=1)
        return first, second

    def _logs(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
        places = t[:, None] - self.centers
        places /= self.deviations
        places *= places
        places *= -0.5
        places += self.log_weights
        places -= np.log(self.deviations) + _HALF_LOG_TWO_PI
        return places

    @cached_property
    def _counted(self) -> _Live:
        return self._live(_NEGLIGIBLE)

    def _live(self, least: float) -> _Live:
        counted = self.log_weights > least
        # The heaviest component of a row always counts.
        counted[np.arange(len(counted)), self.log_weights.argmax(axis=1)] = True
        rows, live = np.nonzero(counted)
        starts = np.append(0, np.cumsum(counted.sum(axis=1)))[:-1]
        weights = np.exp(self.log_weights[rows, live])
        return _Live(rows, starts, weights, self.centers[rows, live], self.deviations[live])

    def _summed(
        self,
        t: Float[np.ndarray, "n m"],
        least: float,
        function: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]],
    ) -> tuple[Float[np.ndarray, "n m"], ...]:
        """Σ_k π_k function((t − c_k) / s_k, s_k) over the components that count."""
        if not t.size:
            return (np.zeros(t.shape),) * 2
        live = self._counted if least == _NEGLIGIBLE else self._live(least)
        ends = np.append(live.starts[1:], len(live.rows))
        parts = []
        first = 0
        while first < len(t):
            # As many rows as stay in the processor's cache, one at least.
            start = live.starts[first]
            last = int(np.searchsorted(ends, start + _PLACES // t.shape[1], "right"))
            last = max(last, first + 1)
            pairs = slice(start, ends[last - 1])
            deviations = live.deviations[pairs, None]
            places = (t[live.rows[pairs]] - live.centers[pairs, None]) / deviations
            sums = tuple(
                np.add.reduceat(
                    live.weights[pairs, None] * values, live.starts[first:last] - start, axis=0
                )
                for values in function(places, deviations)
            )
            parts.append(sums)
            first = last
        return tuple(np.concatenate(one) for one in zip(*parts, strict=True))


def _densities(
    places: Float[np.ndarray, "l m"], deviations: Float[np.ndarray, "l 1"]
) -> Float[np.ndarray, "l m"]:
    values = places * places
    values *= -0.5
    return np.exp(values, out=values) / (deviations * _ROOT_TWO_PI)


class TargetLines(NamedTuple):
    """What the conditionals of a target are computed from.

    Log weights of all components are one product with a row's monomials 1, x_i and x_i x_j, i ≤ j.

    | name    | meaning                                                          | shape  |
    |---------|------------------------------------------------------------------|--------|
    | logs    | log π_k less the log determinants of the inputs' factors         | (k,)   |
    | turns   | inverse factors of the inputs, one component beside the other    | (d, dk) |
    | shifts  | the means of the inputs, turned                                  | (dk,)  |
    | slopes  | of the centers in the inputs                                     | (d, k) |
    | levels  | the centers at inputs that are all zero                          | (k,)   |
    | forms   | the log weights' coefficients of the monomials                   | (p, k) |
    """

    logs: Float[np.ndarray, " k"]
    turns: Float[np.ndarray, "d e"]
    shifts: Float[np.ndarray, " e"]
    slopes: Float[np.ndarray, "d k"]
    levels: Float[np.ndarray, " k"]
    deviations: Float[np.ndarray, " k"]
    forms: Float[np.ndarray, "p k"]

    def at(self, inputs: Float[np.ndarray, "n d"]) -> LineMixtures:
        """The mixtures of the target at rows."""
        logs = _monomials(inputs) @ self.forms
        logs -= log_sum_exp(logs, axis=1)[:, None]
        return LineMixtures(logs, self.levels + inputs @ self.slopes, self.deviations)


def _monomials(inputs: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    one, other = np.triu_indices(inputs.shape[1])
    ones = np.ones((len(inputs), 1))
    return np.concatenate([ones, inputs, inputs[:, one] * inputs[:, other]], axis=1)


def target_lines(mixture: OrderedMixture) -> TargetLines:
    """The lines of a mixture whose last column is the target."""
    width = mixture.means.shape[1]
    factors = mixture.factors(np.ones(width, bool))
    inputs = slice(0, width - 1)
    own = factors.turns[-1, -1]
    logs = factors.log_weights - np.log(factors.deviations[inputs]).sum(axis=0)
    # In one order, so that sums are rounded alike wherever the mixture comes from.
    turns = np.ascontiguousarray(factors.turns[inputs, inputs])
    shifts = np.ascontiguousarray(factors.shifts[inputs])
    # −½|xT − s|² = −½ xTTᵀx + xTs − ½|s|²
    forms = np.concatenate(
        [
            (logs - 0.5 * (shifts**2).sum(axis=0))[None],
            np.einsum("iek,ek->ik", turns, shifts),
            -0.5
            * form_coefficients(upper_half(np.einsum("iek,jek->kij", turns, turns)), width - 1).T,
        ]
    )
    return TargetLines(
        logs=logs,
        turns=turns.reshape(width - 1, -1),
        shifts=shifts.ravel(),
        slopes=-factors.turns[inputs, -1] / own,
        levels=factors.shifts[-1] / own,
        deviations=factors.deviations[-1],
        forms=forms,
    )
