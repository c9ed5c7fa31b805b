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
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from kexpfam.base.ordered import OrderedMixture
from kexpfam.logarithms import log_sum_exp

__all__ = ["LineMixtures", "TargetLines", "target_lines"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
# Log weights of components that are left out where there are many points: less than a billionth
# of the mass, all together.
_NEGLIGIBLE = -28.0


class LineMixtures(NamedTuple):
    """Mixtures on the line, one for each row; all have the same deviations."""

    log_weights: Float[np.ndarray, "n k"]
    centers: Float[np.ndarray, "n k"]
    deviations: Float[np.ndarray, " k"]

    def log_density(self, t: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        """Of one or several points for each row."""
        if t.ndim == 1:
            return log_sum_exp(self._logs(t), axis=1)
        scales = self.deviations
        with np.errstate(divide="ignore"):
            return np.log(
                self._summed(
                    t,
                    lambda places, which: (
                        np.exp(-0.5 * places**2 - _HALF_LOG_TWO_PI) / scales[which][:, None]
                    ),
                )
            )

    def below(self, t: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The mass below points."""
        return self._summed(t, lambda places, _: ndtr(places))

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
        places = (t[:, None] - self.centers) / self.deviations
        return self.log_weights - 0.5 * places**2 - np.log(self.deviations) - _HALF_LOG_TWO_PI

    def _summed(
        self,
        t: Float[np.ndarray, "n m"],
        function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> Float[np.ndarray, "n m"]:
        """Σ_k π_k function((t − c_k) / s_k, k) over the components that count."""
        found = np.zeros(t.shape)
        for row in range(len(t)):
            live = np.flatnonzero(self.log_weights[row] > _NEGLIGIBLE)
            places = (t[row] - self.centers[row, live, None]) / self.deviations[live, None]
            found[row] = np.exp(self.log_weights[row, live]) @ function(places, live)
        return found


class TargetLines(NamedTuple):
    """What the conditionals of a target are computed from.

    | name    | meaning                                                          | shape  |
    |---------|------------------------------------------------------------------|--------|
    | logs    | log π_k less the log determinants of the inputs' factors         | (k,)   |
    | turns   | inverse factors of the inputs, one component beside the other    | (d, dk) |
    | shifts  | the means of the inputs, turned                                  | (dk,)  |
    | slopes  | of the centers in the inputs                                     | (d, k) |
    | levels  | the centers at inputs that are all zero                          | (k,)   |
    """

    logs: Float[np.ndarray, " k"]
    turns: Float[np.ndarray, "d e"]
    shifts: Float[np.ndarray, " e"]
    slopes: Float[np.ndarray, "d k"]
    levels: Float[np.ndarray, " k"]
    deviations: Float[np.ndarray, " k"]

    def at(self, inputs: Float[np.ndarray, "n d"]) -> LineMixtures:
        """The mixtures of the target at rows."""
        turned = inputs @ self.turns
        turned -= self.shifts
        np.multiply(turned, turned, out=turned)
        squares = turned.reshape(len(inputs), inputs.shape[1], len(self.logs)).sum(axis=1)
        logs = self.logs - 0.5 * squares
        logs -= log_sum_exp(logs, axis=1)[:, None]
        return LineMixtures(logs, self.levels + inputs @ self.slopes, self.deviations)


def target_lines(mixture: OrderedMixture) -> TargetLines:
    """Of a mixture whose last column is the target."""
    width = mixture.means.shape[1]
    factors = mixture.factors(np.ones(width, bool))
    inputs = slice(0, width - 1)
    own = factors.turns[-1, -1]
    return TargetLines(
        logs=factors.log_weights - np.log(factors.deviations[inputs]).sum(axis=0),
        turns=factors.turns[inputs, inputs].reshape(width - 1, -1),
        shifts=factors.shifts[inputs].ravel(),
        slopes=-factors.turns[inputs, -1] / own,
        levels=factors.shifts[-1] / own,
        deviations=factors.deviations[-1],
    )
