"""The probability flow: what the tilt adds to a log density, and draws.

Moving rows along

    dz/dt = −σ² ∇u_σ(z),   t = log σ,   u_σ = f_σ + log q_σ

carries the data's distribution at the lowest noise scale to that at the highest level, where it is
the smoothed base density q. Along the way log p changes by σ²Δu_σ. The base density is known at
every level, and as it obeys the heat equation ∂q/∂t = σ²Δq, log q changes by
σ²(Δlog q_σ − ∇f_σ·∇log q_σ). Both meet at the top, so that

    log p(z) = log q(z) − ∫ σ² (Δf_σ + ∇f_σ·∇log q_σ)(z(t)) dt

with no normalizing constant to estimate: whatever the tilt is, this is a density. Only what the
tilt adds, the *gain*, is integrated; without a tilt nothing is, and no steps are taken. Its
derivatives are in `kexpfam.model.flow_derivatives`.

Steps are of Dormand and Prince's fifth-order method. Those within a stretch between two levels are
equal, and how many there are is chosen once, stretch by stretch, at draws of the base density: a
row's log density does not depend on the rows beside it. What the mixture and the coefficients are
at a step's times is the same for all rows and found once; rows are moved in blocks that fit a
processor's cache, which the cores share.

| symbol | name   | shape  |
|--------|--------|--------|
| t      | times  | (s,), in a traced flow the first n_steps + 1 of which count |
| z      | rows   | (n, d) |
|        | steps  | (l − 1,), a number for each stretch |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kexpfam.data.blocks import padded
from kexpfam.features import FourierBasis
from kexpfam.model.score_field import Instant, ScoreField, speed
from kexpfam.precision import compiled, is_accelerated
from kexpfam.threads import in_threads

__all__ = [
    "flow_down",
    "flow_times",
    "flow_up",
    "method_nodes",
    "one_step",
    "steps_needed",
    "traced_gain",
]

_MOST_STEPS = 256
# Times are padded to as many at least: nearly all flows, and all trials of steps, share a program.
_LEAST_TIMES = 64
# Rows of a block, and fewer where no more are asked for.
_BLOCK, _FEW = 128, 32
# Rows of a block that fill an accelerator.
_ACCELERATOR_BLOCK = 1 << 13
# Draws at which steps are tried.
_STEP_ROWS = 256
_NEARLY_ALL = 0.9
# Error estimates are multiplied by what makes them no less than the error at so many draws.
_COVERED, _CAUTION_LIMITS = 0.975, (1.0, 100.0)
_ORDER = 5


def _step_ends(
    knots: Float[np.ndarray, " l"], steps: Int[np.ndarray, " k"]
) -> Float[np.ndarray, " s"]:
    """Where steps begin and end."""
    pieces = [
        np.linspace(low, high, int(count) + 1)[:-1]
        for low, high, count in zip(knots[:-1], knots[1:], steps, strict=True)
    ]
    return np.concatenate([*pieces, knots[-1:]])


def flow_times(
    knots: Float[np.ndarray, " l"], steps: Int[np.ndarray, " k"]
) -> Float[np.ndarray, " s"]:
    """Where steps begin and end, padded to one of few lengths: programs are compiled for each."""
    times = _step_ends(knots, steps)
    length = max(_LEAST_TIMES, 1 << (len(times) - 1).bit_length())
    return np.concatenate([times, np.full(length - len(times), times[-1])])


def _method() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, stages and the weights of the error; the last stage is the end of the step.

    Made anew for every program: see `kexpfam.model.traced.fresh_constants`.
    """
    # Imported here, as most programs that import this module need no flow, and it takes long.
    import diffrax

    tableau = diffrax.Dopri5.tableau
    count = len(tableau.b_sol)
    stages = np.zeros((count, count))
    for number, row in enumerate(tableau.a_lower, start=1):
        stages[number, :number] = row
    return np.concatenate([np.zeros(1), tableau.c]), stages, tableau.b_error.copy()


def method_nodes() -> np.ndarray:
    """Where in a step slopes are found, from 0 to 1."""
    return _method()[0]


def one_step(
    speed: Any, state: Any, first: Any, length: Any, instants: Any
) -> tuple[Any, Any, Any]:
    """The state at the end of a step, the slope there, and an estimate of the error.

    `first` is the slope at the beginning, `instants` what the speed needs at all later nodes.
    A loop over the stages, whose number is fixed: the speed is compiled once, and the step can be
    differentiated forwards and backwards.
    """
    _, stages, error_weights = _method()

    def weighted(shares: Any, slopes: Any) -> Any:
        return jax.tree.map(lambda one: length * jnp.tensordot(shares, one, axes=1), slopes)

    def stage(carry: Any, inputs: Any) -> Any:
        slopes, _ = carry
        number, shares, instant = inputs
        place = jax.tree.map(jnp.add, state, weighted(shares, slopes))
        slope = speed(instant, place)
        return (
            jax.tree.map(lambda all_, one: all_.at[number].set(one), slopes, slope),
            place,
        ), None

    slopes = jax.tree.map(
        lambda one: jnp.zeros((len(stages), *one.shape), one.dtype).at[0].set(one), first
    )
    numbers = np.arange(1, len(stages))
    (slopes, moved), _ = jax.lax.scan(stage, (slopes, state), (numbers, stages[1:], instants))
    last = jax.tree.map(lambda one: one[-1], slopes)
    return moved, last, weighted(error_weights, slopes)


def _carried(
    at: Any, speed: Any, rows: Any, times: Any, n_steps: Any
) -> tuple[Float[Array, "n d"], Float[Array, "s n"], Float[Array, "s n"]]:
    """Rows at the last time, and each step's gains and their error estimates.

    `at` gives what all rows have in common at a time, and `speed` that of rows and gains.
    """
    times, nodes = jnp.asarray(times), method_nodes()

    def next_step(step: Any, carry: Any) -> Any:
        state, slopes, gains, errors = carry
        length = times[step + 1] - times[step]
        instants = jax.lax.map(at, times[step] + nodes[1:] * length)
        moved, last, error = one_step(speed, state, slopes, length, instants)
        gains = gains.at[step].set(moved[1] - state[1])
        return moved, last, gains, errors.at[step].set(jnp.abs(error[1]))

    start = _beginning(jnp.asarray(rows))
    nothing = jnp.zeros((len(times), len(rows)))
    (rows, _), _, gains, errors = jax.lax.fori_loop(
        0, n_steps, next_step, (start, speed(at(times[0]), start), nothing, nothing)
    )
    return rows, gains, errors


def _beginning(rows: Float[Any, "n d"]) -> tuple[Float[Any, "n d"], Float[Array, " n"]]:
    """Rows, and their gain so far."""
    return rows, jnp.zeros(rows.shape[0])


def _speed(basis: FourierBasis) -> Any:
    """The velocity of rows and of their gain, on which it does not depend."""
    return lambda instant, state: speed(basis, instant, state[0])


def traced_gain(
    field: ScoreField, rows: Float[Any, "n d"], times: Any, n_steps: int
) -> Float[Array, " n"]:
    """What the tilt adds to log q, for programs that JAX traces.

    It can be differentiated forwards and, as the number of steps is known beforehand, backwards.
    """
    _, gains, _ = _carried(field.at, _speed(field.basis), rows, times, n_steps)
    return gains.sum(axis=0)


class _Moving(NamedTuple):
    """A block of rows on its way: rows and gains so far, and how fast they change."""

    state: tuple[Float[Any, "b d"], Float[Any, " b"]]
    slopes: tuple[Float[Any, "b d"], Float[Any, " b"]]


@compiled(tuned=False, on_device=True)
def _instants(field: ScoreField, times: Any) -> Instant:
    return jax.lax.map(field.at, times)


@compiled(tuned=False, on_device=True)
def _instant(field: ScoreField, time: Any) -> Instant:
    return field.at(time)


def _start(basis: FourierBasis, instant: Instant, rows: Any) -> _Moving:
    state = _beginning(rows)
    return _Moving(state, speed(basis, instant, rows))


def _move(basis: FourierBasis, instants: Instant, length: Any, moving: _Moving) -> Any:
    """One step on, with its gains and their error estimates."""
    state, slopes, error = one_step(_speed(basis), *moving, length, instants)
    return _Moving(state, slopes), state[1] - moving.state[1], jnp.abs(error[1])


# On a processor, threads take blocks, and each waits for its own; on an accelerator rows stay where
# they are until they have arrived.
_started, _moved = (compiled(one, tuned=False) for one in (_start, _move))
_started_there, _moved_there = (
    compiled(one, tuned=False, on_device=True) for one in (_start, _move)
)


def _blocks(rows: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, "b d"]]:
    """Padded to two sizes, so that few programs are compiled and a few rows do not pay for many."""
    many = _ACCELERATOR_BLOCK if is_accelerated() else _BLOCK
    size = many if len(rows) > _FEW else _FEW
    return [padded(rows[start : start + size], size) for start in range(0, len(rows), size)]


def _carried_by_all_cores(
    field: ScoreField, rows: Float[np.ndarray, "n d"], times: Float[np.ndarray, " t"]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "s n"], Float[np.ndarray, "s n"]]:
    """As `_carried`, step after step: what the steps need at their nodes is found once for all."""
    basis, nodes = field.basis, method_nodes()[1:]

    def of_all(function: Callable[[Any], Any], pieces: Iterable[Any]) -> list[Any]:
        return list(in_threads(function, pieces, worth=not is_accelerated()))

    def instants_of(step: tuple[float, float]) -> Instant:
        return _instants(field, step[0] + nodes * (step[1] - step[0]))

    start, move = (_started_there, _moved_there) if is_accelerated() else (_started, _moved)
    moving = of_all(partial(start, basis, _instant(field, times[0])), _blocks(rows))
    gains, errors = [], []
    steps = list(pairwise(times))
    for (first, last), instants in zip(steps, _one_ahead(instants_of, steps), strict=True):
        found = of_all(partial(move, basis, instants, last - first), moving)
        moving = [piece for piece, _, _ in found]
        gains.append([gain for _, gain, _ in found])
        errors.append([error for _, _, error in found])
    count = len(rows)
    ends = np.concatenate([piece.state[0] for piece in moving])[:count]
    return ends, _joined(gains, count), _joined(errors, count)


def _one_ahead(
    function: Callable[[tuple[float, float]], Instant], steps: Iterable[tuple[float, float]]
) -> Iterator[Instant]:
    """What each step needs; that of the next is begun before, and found while rows are moved.

    Compiled code whose results stay on the device returns before it is done.
    """
    waiting: deque[Instant] = deque()
    for step in steps:
        waiting.append(function(step))
        if len(waiting) > 1:
            yield waiting.popleft()
    yield from waiting


def _joined(steps: list[list[np.ndarray]], count: int) -> Float[np.ndarray, "s n"]:
    """Numbers of all steps' blocks."""
    return np.array([np.concatenate(blocks)[:count] for blocks in steps])


def _followed(
    field: ScoreField, rows: Float[np.ndarray, "n d"], steps: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, "s n"], Float[np.ndarray, "s n"]]:
    """Gains and error estimates of all steps up."""
    _, gains, errors = _carried_by_all_cores(field, rows, _step_ends(field.knots, steps))
    return gains, errors


def flow_up(
    field: ScoreField, rows: Float[np.ndarray, "n d"], steps: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """log p − log q at rows, and what the steps' errors in it may add up to."""
    gains, errors = _followed(field, rows, steps)
    return gains.sum(axis=0), errors.sum(axis=0)


def flow_down(
    field: ScoreField, rows: Float[np.ndarray, "n d"], steps: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Rows of the highest level carried to the lowest, and the errors of their log densities."""
    ends, _, errors = _carried_by_all_cores(field, rows, _step_ends(field.knots, steps)[::-1])
    return ends, errors.sum(axis=0)


def steps_needed(field: ScoreField, tolerance: float) -> tuple[Int[np.ndarray, " k"], float]:
    """How many equal steps every stretch takes to meet the tolerance, and how to read estimates.

    Steps are held against steps of half their length, at some draws of the base density. At nearly
    all of them (some lie where no data is, and the flow is rougher there) all stretches together
    may be off by the tolerance; those that take more than an equal part of it get more steps. Error
    estimates of so long steps can be too small: the number is what to multiply them by. No steps
    are needed where there is no tilt.
    """
    steps = np.zeros(len(field.knots) - 1, np.int64)
    if not field.has_tilt:
        return steps, 1.0
    rows = field.base.sample(_STEP_ROWS, field.lowest, np.random.default_rng(0))
    steps += 1
    while True:
        gains, estimates = _followed(field, rows, steps)
        finer, _ = _followed(field, rows, 2 * steps)
        wrong = np.abs(_by_stretch(gains, steps) - _by_stretch(finer, 2 * steps))
        wrong = np.nan_to_num(wrong, nan=np.inf)
        parts = np.quantile(wrong, _NEARLY_ALL, axis=1) * len(steps) / tolerance
        more = np.ceil(np.clip(parts ** (1 / _ORDER), 1.01, 2) * steps).astype(int)
        more = np.where(parts > 1, more, steps)
        if parts.mean() <= 1 or more.sum() > _MOST_STEPS:
            break
        steps = more
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(wrong.sum(axis=0) / estimates.sum(axis=0), nan=np.inf)
    return steps, float(np.clip(np.quantile(ratios, _COVERED), *_CAUTION_LIMITS))


def _by_stretch(
    gains: Float[np.ndarray, "s n"], steps: Int[np.ndarray, " k"]
) -> Float[np.ndarray, "k n"]:
    """Steps' gains, added up stretch by stretch."""
    return np.add.reduceat(gains, np.cumsum(steps) - steps, axis=0)
