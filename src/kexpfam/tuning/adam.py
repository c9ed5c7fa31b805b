"""Algorithm 1 of the paper: gradient steps on the hyperparameters through the closed form.

Each step splits the rows at random in two, draws a mini-batch D_t, D_v from each side, solves
β = −(H_t + λR)⁻¹h_t on D_t with noise, evaluates the criterion on D_v without, and takes an Adam
step in θ = (log λ, log σ, log length-scales).

| symbol | name     | shape                          |
|--------|----------|--------------------------------|
| θ      | theta    | what is tuned, in logarithms   |
| D_t    | train    | a block                        |
| D_v    | held_out | a block                        |
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Bool, Float

from kexpfam.base import BaseDensity, BaseDraws
from kexpfam.data.blocks import Block, batch_size_for, make_block, taken_rows
from kexpfam.data.sketch import Sketch, uniform_numbers
from kexpfam.exceptions import TuningWarning
from kexpfam.features import Basis
from kexpfam.noise import Noise
from kexpfam.precision import compiled
from kexpfam.progress import Progress
from kexpfam.solve import unwhitened, whitened
from kexpfam.threads import one_blas_thread
from kexpfam.tuning.criteria import CRITERIA
from kexpfam.tuning.settings import Hyperparameters, Tuned, Tuning

__all__ = ["TuningProblem", "held_out_loss", "tune"]

# Rows whose base density's second derivatives are kept: this many numbers, and enough rows.
_MOST_NUMBERS, _FEWEST_ROWS = 1 << 24, 4096


class TuningProblem(NamedTuple):
    """What stays the same during tuning."""

    basis: Basis
    noise: Noise
    base: BaseDensity
    covariance: Float[np.ndarray, "d d"]
    sketch: Sketch
    draws: BaseDraws
    criterion: str


def held_out_loss(
    theta: dict[str, Any],
    fixed: dict[str, Any],
    basis: Any,
    noise: Noise,
    train: Block,
    held_out: Block,
    draws: Any,
    criterion: str,
) -> Any:
    """The criterion on `held_out` of the model solved on `train`: a function of θ."""
    values = {**fixed, **{name: jnp.exp(value) for name, value in theta.items()}}
    basis = basis.for_batch(train.rows).rescaled(values["length_scale"])
    moments = noise.moments(basis, train, values["noise_scale"])
    system = noise.system(basis, moments, values["noise_scale"])
    inner, root = whitened(system, basis.penalty_matrix())
    solution = _solved(inner.quadratic, values["penalty"], inner.linear)
    return CRITERIA[criterion](basis, unwhitened(root, -solution), held_out, draws)


def _solved(
    quadratic: Float[Any, "m m"], penalty: Any, linear: Float[Any, " m"]
) -> Float[Array, " m"]:
    """(H + λI)⁻¹h, differentiated as the solution of its equation.

    That costs a second solution with the same factor; the derivative of the factor itself costs
    several products of whole matrices.
    """
    matrix = quadratic + penalty * jnp.eye(len(linear))
    factor = cho_factor(jax.lax.stop_gradient(matrix))
    return jax.lax.custom_linear_solve(
        lambda vector: matrix @ vector,
        linear,
        lambda _, vector: cho_solve(factor, vector),
        symmetric=True,
    )


@compiled(static=("criterion",))
def _step(
    theta: Any,
    state: Any,
    fixed: Any,
    bounds: Any,
    learning_rate: Any,
    basis: Any,
    noise: Any,
    train: Block,
    held_out: Block,
    draws: Any,
    criterion: str,
) -> Any:
    """One Adam step; a loss or gradient that is not finite leaves θ where it is."""
    loss, slope = jax.value_and_grad(held_out_loss)(
        theta, fixed, basis, noise, train, held_out, draws, criterion
    )
    finite = jnp.isfinite(loss)
    for leaf in jax.tree.leaves(slope):
        finite &= jnp.isfinite(leaf).all()
    updates, moved_state = optax.adam(learning_rate).update(slope, state)
    moved = jax.tree.map(jnp.clip, optax.apply_updates(theta, updates), *bounds)
    theta, state = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old), (moved, moved_state), (theta, state)
    )
    return theta, state, jnp.where(finite, loss, jnp.nan)


# Systems of tuning are small: two threads of BLAS wait for each other as long as they work.
@one_blas_thread()
def tune(
    problem: TuningProblem,
    given: Hyperparameters,
    start: Tuned,
    bounds: tuple[Tuned, Tuned],
    settings: Tuning,
    generator: np.random.Generator,
    progress: Progress,
) -> tuple[Tuned, list[dict[str, Any]]]:
    """Tune what `given` leaves open, from `start`; the steps come back as a history.

    The result is the average of θ over the last quarter of the steps: mini-batches make the
    single iterate noisy.
    """
    theta = {k: np.log(v) for k, v in start._asdict().items() if getattr(given, k) is None}
    fixed = {k: np.asarray(v, float) for k, v in given._asdict().items() if v is not None}
    if not theta or not settings.n_steps:
        return given.filled(start), []
    lower, upper = ({k: np.log(getattr(b, k)) for k in theta} for b in bounds)
    with jax.enable_x64(True):
        state = jax.tree.map(np.asarray, optax.adam(1.0).init(theta))
    batches = _Batches(problem, settings.batch_size)
    salts = generator.integers(1, 2**31, settings.n_steps)
    history: list[dict[str, Any]] = []
    trace = []
    for number in progress.track(range(settings.n_steps), "tuning"):
        noise_scale = {**fixed, **{k: np.exp(v) for k, v in theta.items()}}["noise_scale"]
        train, held_out = batches(int(salts[number]), float(noise_scale))
        theta, state, loss = _step(
            theta, state, fixed, (lower, upper), settings.learning_rate,
            problem.basis, problem.noise, train, held_out, problem.draws, problem.criterion,
        )  # fmt: skip
        trace.append(theta)
        values = {**fixed, **{k: np.exp(v) for k, v in theta.items()}}
        history.append({"step": number + 1, "loss": float(loss), **values})
        progress.note(f"loss {float(loss):+.4f}")
    if np.isnan([record["loss"] for record in history]).all():
        warnings.warn(
            "Every tuning step met a system that could not be solved; the starting values are "
            "kept. Try a larger penalty or fewer components.",
            TuningWarning,
            stacklevel=2,
        )
    last = trace[-max(1, settings.n_steps // 4) :]
    mean = {k: np.exp(np.mean([t[k] for t in last], axis=0)) for k in theta}
    return given.filled(start._replace(**mean)), history


class _Batches:
    """Mini-batches for both sides of a step: rows choose their side anew at every step.

    Where no noise is drawn, the base density's derivatives are found once for all rows; at most so
    many rows are used that these fit in memory.
    """

    def __init__(self, problem: TuningProblem, size: int) -> None:
        n_rows, n_columns = problem.sketch.rows.shape
        used = min(n_rows, max(_FEWEST_ROWS, _MOST_NUMBERS // n_columns**2))
        self._problem = problem
        self._rows, self._weights, self._keys = (part[:used] for part in problem.sketch[:3])
        self._size = batch_size_for((used + 1) // 2, size)
        self._known: Block | None = None
        if type(problem.noise).copies is Noise.copies:
            self._known = make_block(
                self._rows, self._weights, problem.base, problem.covariance, used
            )

    def __call__(self, salt: int, noise_scale: float) -> tuple[Block, Block]:
        """Two disjoint ones. The first is noisy where the noise is drawn; the second never is."""
        numbers = uniform_numbers(self._keys, salt)
        side = numbers < np.median(numbers)
        return self._batch(side, noise_scale), self._batch(~side, 0.0)

    def _batch(self, members: Bool[np.ndarray, " k"], noise_scale: float) -> Block:
        """All members, or some of them spread evenly over their total weight."""
        chosen = np.flatnonzero(members)
        weights = self._weights[chosen]
        if len(chosen) > self._size:
            shares = np.cumsum(weights) / weights.sum()
            places = (np.arange(self._size) + 0.5) / self._size
            chosen, weights = chosen[np.searchsorted(shares, places)], np.ones(self._size)
        if self._known is not None:
            return taken_rows(self._known, chosen, weights, self._size)
        copies = list(self._problem.noise.copies(self._rows[chosen], noise_scale))
        return make_block(
            np.concatenate([copied for copied, _ in copies]),
            np.tile(weights / len(copies), len(copies)),
            self._problem.base,
            self._problem.covariance,
            self._size * len(copies),
            None if copies[0][1] is None else np.concatenate([moved for _, moved in copies]),
            noise_scale,
        )
