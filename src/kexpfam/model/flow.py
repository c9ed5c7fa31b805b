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


def _method() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Dormand and Prince's eighth-order method: nodes, stages, weights, and those of the error.

    Made anew for every program: see `kexpfam.model.traced.fresh_constants`.
    """
    # Imported here, as most programs that import this module need no flow, and it takes long.
    import diffrax

    tableau = diffrax.Dopri8.tableau
    # diffrax counts the slope at the end as a last stage, with weights of zero.
    count = len(tableau.b_sol) - 1
    stages = np.zeros((count, count))
    for number, row in enumerate(tableau.a_lower[:-1], start=1):
        stages[number, :number] = row
    nodes = np.concatenate([np.zeros(1), tableau.c[:-1]])
    return nodes, stages, tableau.b_sol[:-1].copy(), tableau.b_error[:-1].copy()


def _step(speed: Any, state: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """The state at the end of a step, and an estimate of its error.

    A loop over the stages, whose number is fixed: the speed is compiled once, and the step can be
    differentiated forwards and backwards.
    """
    nodes, stages, weights, error_weights = _method()
    length = end - start

    def weighted(shares: Any, slopes: Any) -> Any:
        return jax.tree.map(lambda one: length * jnp.tensordot(shares, one, axes=1), slopes)

    def stage(slopes: Any, inputs: Any) -> Any:
        number, node, shares = inputs
        place = jax.tree.map(jnp.add, state, weighted(shares, slopes))
        slope = speed(start + node * length, place)
        return jax.tree.map(lambda all_, one: all_.at[number].set(one), slopes, slope), None

    none = jax.tree.map(lambda part: jnp.zeros((len(nodes), *part.shape), part.dtype), state)
    slopes, _ = jax.lax.scan(stage, none, (np.arange(len(nodes)), nodes, stages))
    moved = jax.tree.map(jnp.add, state, weighted(weights, slopes))
    return moved, weighted(error_weights, slopes)


def _carried(speed: Any, state: Any, times: Any, n_steps: Any, *, down: bool = False) -> Any:
    """The state at the other end, and all steps' error estimates of its last part."""
    times = jnp.asarray(times)

    def at(number: Any) -> Any:
        return times[n_steps - number] if down else times[number]

    def one_step(number: Any, carry: Any) -> Any:
        state, errors = carry
        state, error = _step(speed, state, at(number), at(number + 1))
        own = jnp.abs(jax.tree.leaves(error)[-1])
        own = own if own.ndim == 1 else own.max(axis=1)
        return state, errors.at[number].set(own)

    n_rows = len(jax.tree.leaves(state)[0])
    start = state, jnp.zeros((len(times), n_rows))
    return jax.lax.fori_loop(0, n_steps, one_step, start)


def _speed(field: ScoreField) -> Any:
    """Of rows, and of what log p loses on the way."""

    def speed(time: Any, state: Any) -> Any:
        score, divergence = field.score_and_divergence(state[0], time)
        factor = -jnp.exp(2 * time)
        return factor * score, factor * divergence

    return speed


def traced_flow_up(
    field: ScoreField, rows: Float[Any, "n d"], times: Any, n_steps: Any
) -> tuple[Float[Array, "n d"], Float[Array, " n"], Float[Array, "s n"]]:
    """Where rows end, log p, and the steps' error estimates of it, for programs that JAX traces.

    It can be differentiated forwards and, with a number of steps that is known beforehand,
    backwards.
    """
    state = jnp.asarray(rows), jnp.zeros(len(rows))
    (ends, change), errors = _carried(_speed(field), state, times, n_steps)
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
    def speed(time: Any, state: Any) -> Any:
        return -jnp.exp(2 * time) * field.score(state, time)

    return _carried(speed, jnp.asarray(rows), times, n_steps, down=True)[0]


def flow_down(
    field: ScoreField, rows: Float[np.ndarray, "n d"], steps: Int[np.ndarray, " k"]
) -> Float[np.ndarray, "n d"]:
    """Rows of the highest level carried to the lowest."""
    ends: np.ndarray = _flow_down(field, rows, flow_times(field.knots, steps), int(steps.sum()))
    return ends


def _traced_gradient(field: ScoreField, rows: Any, times: Any, n_steps: Any) -> Any:
    times, speed = jnp.asarray(times), _speed(field)

    def one_step(places: Any, number: Any) -> Any:
        state = places, jnp.zeros(len(rows))
        return _step(speed, state, times[number], times[number + 1])[0]

    def up(number: Any, carry: Any) -> Any:
        places, before = carry
        return one_step(places, number)[0], before.at[number].set(places)

    def down(number: Any, gradient: Any) -> Any:
        number = n_steps - 1 - number
        _, backwards = jax.vjp(lambda z: one_step(z, number), before[number])
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
