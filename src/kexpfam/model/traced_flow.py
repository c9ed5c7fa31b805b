"""The log density of the probability flow, at one row, as JAX sees it.

The formulas are those of `kexpfam.data.coordinates`, `kexpfam.data.marginals` and
`kexpfam.model.flow`. The flow is the very same code; the coordinates, which are NumPy, stand here
once more in operations that JAX can differentiate. Φ⁻¹(exp l) is found by Newton's method:

    g(t) = log Φ(t) − l = 0,     t ← t − g(t) Φ(t)/φ(t),     dt/dl = Φ(t)/φ(t).

log Φ is concave, so that steps from the left of the root approach it without passing it.

| symbol | name       | shape  |
|--------|------------|--------|
| A⁻¹    | whitening  | (d, d) |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp
from jax.scipy.stats import norm
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.data.coordinates import Coordinates
from kexpfam.model.flow import traced_flow_up
from kexpfam.model.score_field import ScoreField

__all__ = ["TracedCoordinates", "TracedFlow", "normal_quantile"]

_NEWTON_STEPS = 8


@jax.custom_jvp
def normal_quantile(log_share: Float[Any, "*shape"]) -> Float[Array, "*shape"]:
    """Φ⁻¹(exp l) for l ≤ log ½, however far out."""
    # From log Φ(t) ≤ −t²/2 + log ½ for t ≤ 0: never to the right of the root.
    value = -jnp.sqrt(jnp.maximum(-2 * (log_share + jnp.log(2.0)), 0.0))
    for _ in range(_NEWTON_STEPS):
        below = log_ndtr(value)
        value = value - (below - log_share) * jnp.exp(below - norm.logpdf(value))
    return value


@normal_quantile.defjvp
def _quantile_slope(primals: Any, tangents: Any) -> Any:
    value = normal_quantile(*primals)
    return value, jnp.exp(primals[0] - norm.logpdf(value)) * tangents[0]


@register_dataclass
@dataclass(frozen=True)
class TracedCoordinates:
    """Counterpart of `Coordinates`: z(x) and log |dz/dx| at one row."""

    center: Float[Any, " d"]
    scale: Float[Any, " d"]
    exponents: Float[Any, " d"]
    powered_center: Float[Any, " d"]
    powered_scale: Float[Any, " d"]
    log_weights: Float[Any, "d k"]
    means: Float[Any, "d k"]
    deviations: Float[Any, "d k"]
    shift: Float[Any, " d"]
    whitening: Float[Any, "d d"]
    log_volume: Float[Any, ""]

    @classmethod
    def from_numpy(cls, coordinates: Coordinates) -> TracedCoordinates:
        marginals = coordinates.marginals
        with np.errstate(divide="ignore"):
            log_weights = np.log(marginals.weights)
        return cls(
            center=marginals.standardizer.center,
            scale=marginals.standardizer.scale,
            exponents=marginals.exponents,
            powered_center=marginals.center,
            powered_scale=marginals.scale,
            log_weights=log_weights,
            means=marginals.means,
            deviations=marginals.deviations,
            shift=coordinates.shift,
            whitening=coordinates.inverse_root,
            log_volume=np.linalg.slogdet(coordinates.inverse_root)[1],
        )

    def __call__(self, row: Float[Any, " d"]) -> tuple[Float[Array, " d"], Float[Array, ""]]:
        units = (row - self.center) / self.scale
        values = (self._powered(units) - self.powered_center) / self.powered_scale
        log_slopes = (self.exponents - 1) * jnp.sign(units) * jnp.log1p(jnp.abs(units))
        log_slopes = log_slopes - jnp.log(self.powered_scale) - jnp.log(self.scale)
        if self.means.shape[1] > 1:
            values, more = self._gaussianized(values)
            log_slopes = log_slopes + more
        return self.whitening @ (values - self.shift), log_slopes.sum() + self.log_volume

    def _powered(self, units: Float[Array, " d"]) -> Float[Array, " d"]:
        """Yeo–Johnson: one side of zero is that of the other with 2 − λ, mirrored."""
        exponents = jnp.where(units >= 0, self.exponents, 2 - self.exponents)
        logs = jnp.log1p(jnp.abs(units))
        safe = jnp.where(exponents == 0, 1.0, exponents)
        grown = jnp.where(exponents == 0, logs, jnp.expm1(safe * logs) / safe)
        return jnp.where(units >= 0, grown, -grown)

    def _gaussianized(
        self, values: Float[Array, " d"]
    ) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Φ⁻¹(F(s)) from the nearer end, and the logarithm of its slope."""
        places = (values[:, None] - self.means) / self.deviations
        below = logsumexp(self.log_weights + log_ndtr(places), axis=1)
        above = logsumexp(self.log_weights + log_ndtr(-places), axis=1)
        nearer = normal_quantile(jnp.minimum(below, above))
        quantiles = jnp.where(below < above, nearer, -nearer)
        heights = self.log_weights - jnp.log(self.deviations) + norm.logpdf(places)
        return quantiles, logsumexp(heights, axis=1) - norm.logpdf(quantiles)


@register_dataclass
@dataclass(frozen=True)
class TracedFlow:
    """log p at one row by the probability flow; no steps stand for the base density alone.

    Its arrays must be JAX's when it is called: NumPy's cannot be looked up at a traced place.
    """

    coordinates: TracedCoordinates
    scores: ScoreField
    base_share: float
    times: Float[Any, " s"]
    n_steps: int = field(metadata={"static": True})

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        whitened, log_jacobian = self.coordinates(row)
        logs = self.scores.base.log_density(whitened[None], jnp.exp(self.scores.knots[0]))
        if self.n_steps > 0:
            # A number of steps that is known beforehand is what reverse differentiation needs.
            _, flow, _ = traced_flow_up(self.scores, whitened[None], self.times, self.n_steps)
            logs = jnp.logaddexp(
                jnp.log1p(-self.base_share) + flow, jnp.log(self.base_share) + logs
            )
        return logs[0] + log_jacobian
