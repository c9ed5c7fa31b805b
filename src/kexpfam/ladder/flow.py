"""The probability flow: a normalised log density, and draws, from the scores of all levels.

Moving rows along

    dz/dt = −σ² s_σ(z),   t = log σ,   s_σ = ∇f_σ + ∇log q_σ

carries the data's law at σ_min to that at σ_max, which is q_σmax. So

    log p(z) = log q_σmax(z(t_max)) − ∫ σ² ∇·s_σ(z(t)) dt,     ∇·s_σ = Δf_σ + Δlog q_σ,

with no normalising constant to estimate: whatever the scores are, this is a density. Between levels
the coefficients follow a monotone cubic in t. All rows take the same equal steps in t, of an
eighth-order method, so that a row's log density does not depend on the rows beside it; their number
is chosen once, at draws of the base density, by the error estimate that comes with every log
density.

| symbol | name        | shape            |
|--------|-------------|------------------|
| t      | knots       | (l,)             |
|        | cubics      | (4, l − 1, m)    |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

__all__ = [
    "ScoreField",
    "flow_down",
    "flow_up",
    "score_field",
    "steps_needed",
    "traced_flow_up",
]

_MOST_STEPS = 100
# Draws at which steps are tried.
_STEP_ROWS = 64
_NEARLY_ALL = 0.9
# Error estimates may be so many tolerances: most of them are larger than the error by as much.
_CAUTION = 5.0


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


def _carried(speed: Any, state: Any, first: Any, last: Any, n_steps: Any) -> tuple[Any, Any]:
    """The state at `last` after equal steps, and the sum of the steps' error estimates."""
    # Imported here, as most programs that import this module need no flow, and it takes long.
    import diffrax

    solver, step = diffrax.Dopri8(), (last - first) / n_steps
    term = diffrax.ODETerm(speed)
    memory = solver.init(term, first, first + step, state, None)

    def one_step(number: Any, carry: Any) -> Any:
        state, memory, errors = carry
        start = first + number * step
        state, error, _, memory, _ = solver.step(
            term, start, start + step, state, None, memory, made_jump=False
        )
        return state, memory, jax.tree.map(lambda sum_, one: sum_ + jnp.abs(one), errors, error)

    start = state, memory, jax.tree.map(jnp.zeros_like, state)
    state, _, errors = jax.lax.fori_loop(0, n_steps, one_step, start)
    return state, errors


def flow_up(field: ScoreField, rows: Any, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """log p at rows, and what the steps' errors in it may add up to.

    No steps stand for a base density alone, which is its own flow.
    """
    if n_steps == 0:
        return _base_logs(field, rows), np.zeros(len(rows))
    logs, errors = _compiled_flow(field, rows, n_steps)
    return logs, errors


@compiled
def _base_logs(field: ScoreField, rows: Any) -> Any:
    return field.base.log_density(rows, jnp.exp(field.knots[0]))


def traced_flow_up(
    field: ScoreField, rows: Float[Any, "n d"], n_steps: Any
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """`flow_up` for programs that JAX traces, with at least one step."""

    def speed(time: Any, state: Any, _: Any) -> Any:
        score, divergence = field.score_and_divergence(state[0], time)
        factor = -jnp.exp(2 * time)
        return factor * score, factor * divergence

    state = jnp.asarray(rows), jnp.zeros(len(rows))
    first, last = field.knots[0], field.knots[-1]
    (ends, change), (_, errors) = _carried(speed, state, first, last, n_steps)
    return field.base.log_density(ends, jnp.exp(last)) + change, errors


_compiled_flow = compiled(traced_flow_up)


@compiled
def flow_down(field: ScoreField, rows: Any, n_steps: Any) -> Any:
    """Rows of q_σmax carried to the lowest level, and their errors."""

    def speed(time: Any, state: Any, _: Any) -> Any:
        return -jnp.exp(2 * time) * field.score(state, time)

    first, last = field.knots[-1], field.knots[0]
    return _carried(speed, jnp.asarray(rows), first, last, n_steps)


def steps_needed(field: ScoreField, tolerance: float) -> int:
    """The number of equal steps, some between neighbouring levels, that meets the tolerance.

    At nearly all of some draws of the base density (some lie where no data is, and the flow is
    rougher there), error estimates must stay within a few tolerances: the estimate is that of a
    fifth-order method, and most log densities are several times closer. None are needed where there
    is no tilt: a base density is its own flow.
    """
    if not field.cubics.any():
        return 0
    lowest = float(np.exp(field.knots[0]))
    rows = field.base.sample(_STEP_ROWS, lowest, np.random.default_rng(0))
    n_steps = len(field.knots) - 1
    while n_steps < _MOST_STEPS:
        _, errors = flow_up(field, rows, n_steps)
        if np.quantile(errors, _NEARLY_ALL) <= _CAUTION * tolerance:
            break
        n_steps *= 2
    return n_steps
