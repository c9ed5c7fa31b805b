"""The probability flow: a normalised log density, and draws, from the scores of all levels.

Moving rows along

    dz/dt = −σ² s_σ(z),   t = log σ,   s_σ = ∇f_σ + ∇log q_σ

carries the data's law at σ_min to that at σ_max, which is q_σmax. So

    log p(z) = log q_σmax(z(t_max)) − ∫ σ² ∇·s_σ(z(t)) dt,     ∇·s_σ = Δf_σ + Δlog q_σ,

with no normalising constant to estimate: whatever the scores are, this is a density. Between levels
the coefficients follow a monotone cubic in t. All rows of a block take the same steps; the step
follows the largest error among them.

| symbol | name        | shape            |
|--------|-------------|------------------|
| t      | knots       | (l,)             |
|        | cubics      | (4, l − 1, m)    |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float
from scipy.interpolate import PchipInterpolator

from kexpfam.features import FourierBasis
from kexpfam.ladder.levels import Levels
from kexpfam.ladder.mixture import SmoothedMixture
from kexpfam.precision import compiled

__all__ = ["ScoreField", "flow_down", "flow_up", "score_field"]

_MOST_STEPS = 4096


@register_dataclass
@dataclass(frozen=True)
class ScoreField:
    """The score at every noise level between the lowest and the highest."""

    basis: FourierBasis
    base: SmoothedMixture
    knots: Float[Any, " l"]
    cubics: Float[Any, "four k m"]

    def coefficients(self, time: Any) -> Float[Array, " m"]:
        """β at t = log σ."""
        place = jnp.clip(
            jnp.searchsorted(self.knots, time, side="right") - 1, 0, len(self.knots) - 2
        )
        step = time - self.knots[place]
        cubic, square, linear, constant = self.cubics[:, place]
        return ((cubic * step + square) * step + linear) * step + constant

    def score(self, rows: Float[Any, "n d"], time: Any) -> Float[Array, "n d"]:
        """∇log p_σ."""
        tilt = self.basis.gradient(self.coefficients(time), rows)
        return tilt + self.base.gradient(rows, jnp.exp(time))

    def score_and_divergence(
        self, rows: Float[Any, "n d"], time: Any
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """∇log p_σ and Δlog p_σ."""
        coefficients = self.coefficients(time)
        gradient, laplacian = self.base.gradient_and_laplacian(rows, jnp.exp(time))
        ones = jnp.ones(rows.shape[1])
        gradient += self.basis.gradient(coefficients, rows)
        return gradient, laplacian + self.basis.laplacian(coefficients, rows, ones)

    def curvature(
        self,
        rows: Float[Any, "n d"],
        time: Any,
        axes: Float[Any, "d e"],
        metric: Float[Any, "n e"],
    ) -> Float[Array, " n"]:
        """Σ_e metric_e a_eᵀ ∇²log p_σ a_e, for the columns a_e of `axes`."""
        tilt = self.basis.curvature(self.coefficients(time), rows, axes, metric)
        return tilt + self.base.curvature(rows, jnp.exp(time), axes, metric)


def score_field(basis: FourierBasis, base: SmoothedMixture, levels: Levels) -> ScoreField:
    """Coefficients between the levels by monotone cubics."""
    knots = np.log(levels.noise_scales)
    spline = PchipInterpolator(knots, levels.coefficients, axis=0)
    return ScoreField(basis, base, knots, np.ascontiguousarray(spline.c))


def _largest(tree: Any) -> Array:
    return jnp.max(jnp.stack([jnp.abs(leaf).max() for leaf in jax.tree.leaves(tree)]))


def _integrate(terms: Any, start: Any, first: Any, last: Any, state: Any, tolerance: Any) -> Any:
    controller = diffrax.PIDController(rtol=tolerance, atol=tolerance, norm=_largest)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(terms),
        diffrax.Tsit5(),
        t0=first,
        t1=last,
        dt0=start,
        y0=state,
        stepsize_controller=controller,
        max_steps=_MOST_STEPS,
        throw=False,
    )
    return jax.tree.map(
        lambda leaf: leaf[-1], solution.ys
    ), solution.result == diffrax.RESULTS.successful


@compiled
def flow_up(field: ScoreField, rows: Any, tolerance: Any) -> Any:
    """log p at rows, and whether the tolerance was met."""

    def speed(time: Any, state: Any, _: Any) -> Any:
        score, divergence = field.score_and_divergence(state[0], time)
        factor = -jnp.exp(2 * time)
        return factor * score, factor * divergence

    state = jnp.asarray(rows), jnp.zeros(len(rows))
    first, last = field.knots[0], field.knots[-1]
    (ends, change), met = _integrate(speed, 0.05, first, last, state, tolerance)
    return field.base.log_density(ends, jnp.exp(last)) + change, met


@compiled
def flow_down(field: ScoreField, rows: Any, tolerance: Any) -> Any:
    """Rows of q_σmax carried to the lowest level, and whether the tolerance was met."""

    def speed(time: Any, state: Any, _: Any) -> Any:
        return -jnp.exp(2 * time) * field.score(state, time)

    first, last = field.knots[-1], field.knots[0]
    return _integrate(speed, -0.05, first, last, jnp.asarray(rows), tolerance)
