"""The probability flow: a normalized log density, its derivatives and draws, from all scores.

Moving rows along

    dz/dt = −σ² s_σ(z),   t = log σ,   s_σ = ∇u_σ,   u_σ = f_σ + log q_σ

carries the data's distribution at the lowest noise scale to that at the highest level, where it is
the smoothed base density q. So

    log p(z) = log q(z(t_max)) − ∫ σ² Δu_σ(z(t)) dt

with no normalizing constant to estimate: whatever the scores are, this is a density. Its gradient
is that of the steps themselves, taken backwards from ∇log q at the top, so that it is the
derivative of the log density that is reported and not only of what both approximate. Second
derivatives are derivatives of that along directions.

Steps are of an eighth-order method. Those within a stretch between two levels are equal, and how
many there are is chosen once, stretch by stretch, at draws of the base density, by the error
estimate that comes with every log density: a row's log density does not depend on the rows beside
it.

| symbol | name   | shape  |
|--------|--------|--------|
| t      | times  | (s,), the first n_steps + 1 of which count |
|        | steps  | (l − 1,), a number for each stretch |
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kexpfam.model.score_field import ScoreField
from kexpfam.precision import compiled

__all__ = [
    "flow_down",
    "flow_gradient",
    "flow_second_derivatives",
    "flow_times",
    "flow_up",
    "steps_needed",
    "traced_flow_up",
]

_MOST_STEPS = 256
# Times are padded to as many at least: nearly all flows, and all trials of steps, share a program.
_LEAST_TIMES = 64
# Draws at which steps are tried.
_STEP_ROWS = 256
_NEARLY_ALL = 0.9
# Error estimates may be so many tolerances: most of them are larger than the error by as much.
_CAUTION = 5.0


def flow_times(
    knots: Float[np.ndarray, " l"], steps: Int[np.ndarray, " k"]
) -> Float[np.ndarray, " s"]:
    """Where steps begin and end, padded to one of few lengths: programs are compiled for each."""
    pieces = [
        np.linspace(low, high, int(count) + 1)[:-1]
        for low, high, count in zip(knots[:-1], knots[1:], steps, strict=True)
    ]
    times = np.concatenate([*pieces, knots[-1:]])
    length = max(_LEAST_TIMES, 1 << (len(times) - 1).bit_length())
    return np.concatenate([times, np.full(length - len(times), times[-1])])


def _carried(
    speed: Any, state: Any, times: Any, n_steps: Any, *, down: bool = False, scan: Any = "lax"
) -> Any:
    """The state at the other end, and all steps' error estimates of its last part."""
    # Imported here, as most programs that import this module need no flow, and it takes long.
    import diffrax

    solver, term = diffrax.Dopri8(scan_kind=scan), diffrax.ODETerm(speed)
    times = jnp.asarray(times)

    def at(number: Any) -> Any:
        return times[n_steps - number] if down else times[number]

    memory = solver.init(term, at(0), at(1), state, None)

    def one_step(number: Any, carry: Any) -> Any:
        state, memory, errors = carry
        state, error, _, memory, _ = solver.step(
            term, at(number), at(number + 1), state, None, memory, made_jump=False
        )
        own = jnp.abs(jax.tree.leaves(error)[-1])
        own = own if own.ndim == 1 else own.max(axis=1)
        return state, memory, errors.at[number].set(own)

    n_rows = len(jax.tree.leaves(state)[0])
    start = state, memory, jnp.zeros((len(times), n_rows))
    state, _, errors = jax.lax.fori_loop(0, n_steps, one_step, start)
    return state, errors


def _speed(field: ScoreField) -> Any:
    """Of rows, and of what log p loses on the way."""

    def speed(time: Any, state: Any, _: Any) -> Any:
        score, divergence = field.score_and_divergence(state[0], time)
        factor = -jnp.exp(2 * time)
        return factor * score, factor * divergence

    return speed


def traced_flow_up(
    field: ScoreField, rows: Float[Any, "n d"], times: Any, n_steps: Any, scan: Any = "lax"
) -> tuple[Float[Array, "n d"], Float[Array, " n"], Float[Array, "s n"]]:
    """Where rows end, log p, and the steps' error estimates of it, for programs that JAX traces.

    With `scan` "lax" it can be differentiated forwards; with None, and a number of steps that is
    known beforehand, backwards.
    """
    state = jnp.asarray(rows), jnp.zeros(len(rows))
    (ends, change), errors = _carried(_speed(field), state, times, n_steps, scan=scan)
    return ends, field.base.log_density(ends, jnp.exp(field.knots[-1])) + change, errors


@compiled
def _flow_up(field: ScoreField, rows: Any, times: Any, n_steps: Any) -> Any:
    _, logs, errors = traced_flow_up(field, rows, times, n_steps)
    return logs, errors


def flow_up(
    field: ScoreField, rows: Float[np.ndarray, "n d"], steps: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """log p at rows, and what the steps' errors in it may add up to."""
    logs, errors = _flow_up(field, rows, flow_times(field.knots, steps), int(steps.sum()))
    return logs, errors.sum(axis=0)


@compiled
def _flow_down(field: ScoreField, rows: Any, times: Any, n_steps: Any) -> Any:
    def speed(time: Any, state: Any, _: Any) -> Any:
        return -jnp.exp(2 * time) * field.score(state, time)

    return _carried(speed, jnp.asarray(rows), times, n_steps, down=True)[0]


def flow_down(
    field: ScoreField, rows: Float[np.ndarray, "n d"], steps: Int[np.ndarray, " k"]
) -> Float[np.ndarray, "n d"]:
    """Rows of the highest level carried to the lowest."""
    ends: np.ndarray = _flow_down(field, rows, flow_times(field.knots, steps), int(steps.sum()))
    return ends


def _traced_gradient(field: ScoreField, rows: Any, times: Any, n_steps: Any) -> Any:
    import diffrax

    times, speed = jnp.asarray(times), _speed(field)

    def one_step(places: Any, number: Any, scan: Any = "lax") -> Any:
        solver, term = diffrax.Dopri8(scan_kind=scan), diffrax.ODETerm(speed)
        ends, state = (times[number], times[number + 1]), (places, jnp.zeros(len(rows)))
        memory = solver.init(term, *ends, state, None)
        return solver.step(term, *ends, state, None, memory, made_jump=False)[0]

    def up(number: Any, carry: Any) -> Any:
        places, before = carry
        return one_step(places, number)[0], before.at[number].set(places)

    def down(number: Any, gradient: Any) -> Any:
        number = n_steps - 1 - number
        # Loops of bounded length can be differentiated backwards, and then forwards.
        _, backwards = jax.vjp(lambda z: one_step(z, number, "bounded"), before[number])
        return backwards((gradient, jnp.ones(len(rows))))[0]

    start = jnp.asarray(rows), jnp.zeros((len(times), *rows.shape))
    ends, before = jax.lax.fori_loop(0, n_steps, up, start)
    at_the_top = field.base.gradient(ends, jnp.exp(field.knots[-1]))
    return jax.lax.fori_loop(0, n_steps, down, at_the_top)


_gradient = compiled(_traced_gradient)


def flow_gradient(
    field: ScoreField, rows: Float[np.ndarray, "n d"], steps: Int[np.ndarray, " k"]
) -> Float[np.ndarray, "n d"]:
    """∇log p at rows."""
    found: np.ndarray = _gradient(field, rows, flow_times(field.knots, steps), int(steps.sum()))
    return found


@compiled
def _second_derivatives(
    field: ScoreField, rows: Any, axes: Any, times: Any, n_steps: Any
) -> tuple[Any, Any]:
    def along(axis: Any) -> Any:
        directions = jnp.broadcast_to(axis, rows.shape)
        found, change = jax.jvp(
            lambda z: _traced_gradient(field, z, times, n_steps),
            (jnp.asarray(rows),),
            (directions,),
        )
        return found, change @ axis

    gradients, seconds = jax.lax.map(along, jnp.asarray(axes).T)
    return gradients[0], seconds.T


def flow_second_derivatives(
    field: ScoreField,
    rows: Float[np.ndarray, "n d"],
    axes: Float[np.ndarray, "d e"],
    steps: Int[np.ndarray, " k"],
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n e"]]:
    """∇log p at rows, and a_eᵀ ∇²log p a_e for the columns a_e of `axes`."""
    times = flow_times(field.knots, steps)
    gradient, seconds = _second_derivatives(field, rows, axes, times, int(steps.sum()))
    return gradient, seconds


def steps_needed(field: ScoreField, tolerance: float) -> Int[np.ndarray, " k"]:
    """How many equal steps every stretch between two levels takes to meet the tolerance.

    At nearly all of some draws of the base density (some lie where no data is, and the flow is
    rougher there), error estimates must stay within a few tolerances: the estimate is that of a
    fifth-order method, and most log densities are several times closer. None are needed where there
    is no tilt: a base density is its own flow.
    """
    steps = np.zeros(len(field.knots) - 1, np.int64)
    if not field.has_tilt:
        return steps
    rows = field.base.sample(_STEP_ROWS, field.lowest, np.random.default_rng(0))
    steps += 1
    allowed = _CAUTION * tolerance / len(steps)
    while True:
        _, errors = _flow_up(field, rows, flow_times(field.knots, steps), int(steps.sum()))
        ends = np.cumsum(steps)
        found = np.stack([part.sum(axis=0) for part in np.split(errors[: ends[-1]], ends[:-1])])
        rough = ~(np.quantile(found, _NEARLY_ALL, axis=1) <= allowed)
        if not rough.any() or steps[rough].sum() + steps.sum() > _MOST_STEPS:
            return steps
        steps = np.where(rough, 2 * steps, steps)
