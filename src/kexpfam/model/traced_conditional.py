"""p(y | x) as JAX sees it: a function of one row and one target.

The formulas of `kexpfam.model.conditional` once more, in JAX, so that they can be compiled, mapped
over rows and differentiated in x and y within the user's code. The normalizer is the quadrature
with the finer nodes of the cdf, for all rows alike.
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

from kexpfam.base.bell import LOGS, WIDE
from kexpfam.base.covariance import Covariance, Kind
from kexpfam.base.target_mixture import TargetLines
from kexpfam.data.response import Response
from kexpfam.features.inputs import WIDER, InputFunctions
from kexpfam.features.residual import CENTERS, REACH, SQUARE, WIDTH
from kexpfam.model.traced import fresh_constants

__all__ = ["ConditionalFunction", "conditional_function"]

# The logs of the bell's two shares.
_SHARES = LOGS + 0.5 * np.log(2 * np.pi) + np.log([1.0, WIDE])


@register_dataclass
@dataclass(frozen=True, eq=False)
class ConditionalFunction:
    """log p(y | x) at a row and a target, in the user's units: a record of arrays (a pytree)."""

    center: Float[Any, " d"]
    scale: Float[Any, " d"]
    length_scale: Float[Any, " d"]
    # Variances of the smooth part, the plane and the noise.
    variances: Float[Any, " 3"]
    points: Float[Any, "p d"]
    pulls: Float[Any, " p"]
    root: Float[Any, "p r"]
    factor: Float[Any, ""]
    # Anchor, unit, sign, power, top, shift and scale.
    response: Float[Any, " 7"]
    function_points: Float[Any, "f d"]
    whitening: Float[Any, "f q"]
    box: Float[Any, "2 d"]
    coefficients: Float[Any, "m k"]
    # What a mixture's conditionals are computed from (`TargetLines`), or None, and its share.
    lines: Any
    share: Float[Any, ""]
    bounds: tuple[float, float] = field(metadata={"static": True})
    kind: Kind = field(metadata={"static": True})
    n_nodes: int = field(metadata={"static": True})
    logarithmic: bool = field(metadata={"static": True})

    def __call__(self, row: Any, target: Any) -> Float[Array, ""]:
        """log p(y | x)."""
        row, target = jnp.asarray(row, float), jnp.asarray(target, float)
        if row.shape != self.center.shape or target.shape != ():
            raise ValueError(
                f"Expected one row, of shape {self.center.shape}, and one target; got shapes "
                f"{row.shape} and {target.shape}. For many use jax.vmap(function)(rows, targets)."
            )
        return _log_density_at(fresh_constants(self), row, target)

    @property
    def _bounded(self) -> bool:
        return bool(np.isfinite(self.bounds).any())

    def _log_density(self, row: Any, target: Any) -> Array:
        inputs = (row - self.center) / self.scale
        mean, scale, slopes = self._bell_and_slopes(inputs)
        mapped, log_slope = self._mapped(target)
        residual = (mapped - mean) / scale
        low, high = (
            (self._mapped(end)[0] - mean) / scale if np.isfinite(end) else end
            for end in self.bounds
        )
        log = _log_bell(residual) + slopes @ _residual_functions(residual)
        log += log_slope - jnp.log(scale) - self._log_normalizer(slopes, low, high)
        if self.lines is not None:
            other = self._log_mixture(inputs, mapped) + log_slope
            log = jnp.logaddexp(jnp.log1p(-self.share) + log, jnp.log(self.share) + other)
        if not self._bounded:
            return log
        inside = (target >= self.bounds[0]) & (target <= self.bounds[1])
        return jnp.where(inside, log, -jnp.inf)

    def _log_mixture(self, inputs: Any, mapped: Any) -> Array:
        """log p(t | x) of the mixture between the bounds."""
        lines = self.lines
        turned = (inputs @ lines.turns - lines.shifts).reshape(len(self.center), -1)
        logs = lines.logs - 0.5 * (turned**2).sum(axis=0)
        logs = logs - logsumexp(logs)
        centers = lines.levels + inputs @ lines.slopes
        places = (mapped - centers) / lines.deviations
        found = logsumexp(logs + norm.logpdf(places) - jnp.log(lines.deviations))
        if not self._bounded:
            return found
        low, high = (
            jnp.exp(logs) @ norm.cdf((self._mapped(end)[0] - centers) / lines.deviations)
            if np.isfinite(end)
            else float(end > 0)
            for end in self.bounds
        )
        return found - jnp.log(high - low)

    def _bell_and_slopes(self, row: Any) -> tuple[Array, Array, Array]:
        """μ, s and Aᵀψ at a standardized row."""
        smooth, plane, noise = self.variances
        d = row.shape[0]
        sections = smooth * _kernel(self.kind, row, self.points, self.length_scale)
        sections = sections + 1.0 + plane / d * (self.points @ row)
        prior = smooth + 1.0 + plane * (row**2).mean()
        variance = jnp.maximum(prior - ((sections @ self.root) ** 2).sum(), 0.0)
        kernels = [
            _kernel(self.kind, row, self.function_points, wider * self.length_scale)
            for wider in WIDER
        ]
        values = jnp.stack(kernels).mean(axis=0)
        # Taken by its place: the derivative of `max` looks for an equal value, and finds none where
        # compiled code computes the values twice.
        near = jnp.minimum(len(WIDER) * values[jnp.argmax(values)], 1.0)
        held = jnp.clip(row, self.box[0], self.box[1])
        functions = jnp.concatenate([near[None], near * held, values @ self.whitening])
        scale = self.factor * jnp.sqrt(variance + noise)
        return sections @ self.pulls, scale, functions @ self.coefficients

    def _mapped(self, target: Any) -> tuple[Array, Array]:
        """t(y) and log t'(y)."""
        anchor, unit, sign, power, top, shift, scale = self.response
        along = sign * (target - anchor) / unit
        inner = jnp.clip(along, 0.0, top)
        logs = jnp.log1p(inner)
        # A power of zero is the logarithm; which it is is known before anything is traced.
        bent = logs if self.logarithmic else jnp.expm1(power * logs) / power
        bent = bent + (along - inner) * jnp.exp((power - 1) * logs)
        return sign * (bent - shift) / scale, (power - 1) * logs - jnp.log(unit * scale)

    def _log_normalizer(self, slopes: Any, low: Any, high: Any) -> Array:
        if self._bounded:
            first = jnp.maximum(low, jnp.minimum(-REACH, high - 2 * REACH))
            last = jnp.minimum(high, jnp.maximum(REACH, low + 2 * REACH))
        else:
            first, last = jnp.asarray(-REACH), jnp.asarray(REACH)
        steps = jnp.linspace(0.0, 1.0, self.n_nodes)
        nodes = first + (last - first) * steps
        tilts = _residual_functions(nodes) @ slopes
        weights = np.ones(self.n_nodes)
        if self._bounded:
            weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
            weights /= 3.0
        else:
            weights[[0, -1]] = 0.5
        inner = _log_bell(nodes) + tilts + jnp.log(weights * (last - first) / (self.n_nodes - 1))
        below = _log_tail(first, low, self.bounds[0]) + tilts[0]
        above = _log_tail(-last, -high, self.bounds[1]) + tilts[-1]
        return logsumexp(jnp.concatenate([inner, below[None], above[None]]))


# Compiled as a whole, also where the caller compiles nothing.
@jax.jit
def _log_density_at(function: ConditionalFunction, row: Any, target: Any) -> Array:
    return function._log_density(row, target)


def _kernel(kind: Kind, row: Any, points: Any, length_scale: Any) -> Array:
    squares = (((points - row) / length_scale) ** 2).sum(axis=1)
    if kind == "rbf":
        return jnp.exp(-0.5 * squares)
    # The root has no derivative at zero, and the kernel one of zero there.
    roots = jnp.sqrt(jnp.maximum(5.0 * squares, 1e-30))
    return (1.0 + roots + 5.0 / 3.0 * squares) * jnp.exp(-roots)


def _log_bell(residuals: Any) -> Array:
    squares = residuals**2 / 2
    return jnp.logaddexp(LOGS[0] - squares, LOGS[1] - squares / WIDE**2)


def _log_cdf(at: Any) -> Array:
    return jnp.logaddexp(_SHARES[0] + log_ndtr(at), _SHARES[1] + log_ndtr(at / WIDE))


def _log_tail(edge: Any, end: Any, bound: float) -> Array:
    """log of the bell's mass below `edge`, down to `end` where there is a bound; −∞ for none."""
    whole = _log_cdf(edge)
    if not np.isfinite(bound):
        return whole
    part = _log_cdf(end)
    apart = jnp.where(part < whole, part - whole, -1.0)
    return jnp.where(part < whole, whole + jnp.log1p(-jnp.exp(apart)), -jnp.inf)


def _residual_functions(residuals: Any) -> Array:
    clipped = jnp.clip(residuals, -REACH, REACH)[..., None]
    bumps = jnp.exp(-(((clipped - CENTERS) / WIDTH) ** 2) / 2)
    parts = [jnp.tanh(clipped / 2), 1 - jnp.exp(-(clipped**2) / SQUARE), bumps]
    return jnp.concatenate(parts, axis=-1)


def conditional_function(
    units: tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]],
    covariance: Covariance,
    location: tuple[Float[np.ndarray, "p d"], Float[np.ndarray, " p"], Float[np.ndarray, "p r"]],
    factor: float,
    response: Response,
    functions: InputFunctions,
    coefficients: Float[np.ndarray, "m k"],
    pooled: tuple[TargetLines | None, float],
    bounds: tuple[float, float],
    n_nodes: int,
) -> ConditionalFunction:
    """The function of a fitted density's parts."""
    variances = np.array([covariance.smooth, covariance.plane, covariance.noise])
    return ConditionalFunction(
        *units,
        covariance.length_scale,
        variances,
        *location,
        np.array(factor),
        np.array(response, float),
        functions.points,
        functions.whitening,
        np.stack([functions.low, functions.high]),
        coefficients,
        pooled[0],
        np.array(pooled[1]),
        bounds=bounds,
        kind=covariance.kind,
        n_nodes=n_nodes,
        logarithmic=response.power == 0,
    )
