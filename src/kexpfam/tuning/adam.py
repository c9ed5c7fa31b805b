"""Algorithm 1 of the paper: gradient steps on the hyper-parameters through the closed form.

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
from jaxtyping import Bool, Float

from kexpfam.base import BaseDensity, BaseDraws
from kexpfam.data.blocks import Block, block_size_for, make_block
from kexpfam.data.sketch import Sketch, uniform_numbers
from kexpfam.exceptions import TuningWarning
from kexpfam.features import Basis
from kexpfam.noise import Noise
from kexpfam.precision import compiled
from kexpfam.progress import Progress
from kexpfam.solve import unwhitened, whitened
from kexpfam.tuning.criteria import CRITERIA
from kexpfam.tuning.settings import Hyperparameters, Tuned, Tuning

__all__ = ["TuningProblem", "held_out_loss", "tune"]


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
    factor = cho_factor(inner.quadratic + values["penalty"] * jnp.eye(len(inner.linear)))
    coefficients = unwhitened(root, -cho_solve(factor, inner.linear))
    return CRITERIA[criterion](basis, coefficients, held_out, draws)


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
    salts = generator.integers(1, 2**31, settings.n_steps)
    history: list[dict[str, Any]] = []
    trace = []
    for number in progress.track(range(settings.n_steps), "tuning"):
        noise_scale = {**fixed, **{k: np.exp(v) for k, v in theta.items()}}["noise_scale"]
        train, held_out = _mini_batches(
            problem, int(salts[number]), settings.batch_size, float(noise_scale)
        )
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


def _mini_batches(
    problem: TuningProblem, salt: int, size: int, noise_scale: float
) -> tuple[Block, Block]:
    """Two disjoint mini-batches: rows choose their side anew at every step.

    The first is noisy where the noise is drawn; the second never is.
    """
    numbers = uniform_numbers(problem.sketch.keys, salt)
    side = numbers < np.median(numbers)
    size = block_size_for((len(side) + 1) // 2, largest=size)
    return _batch(problem, side, size, noise_scale), _batch(problem, ~side, size, 0.0)


def _batch(
    problem: TuningProblem, members: Bool[np.ndarray, " k"], size: int, noise_scale: float
) -> Block:
    """All members, or `size` of them spread evenly over their total weight."""
    rows, weights = problem.sketch.rows[members], problem.sketch.weights[members]
    if len(rows) > size:
        shares = np.cumsum(weights) / weights.sum()
        chosen = np.searchsorted(shares, (np.arange(size) + 0.5) / size)
        rows, weights = rows[chosen], np.ones(size)
    copies = list(problem.noise.copies(rows, noise_scale))
    return make_block(
        np.concatenate([copied for copied, _ in copies]),
        np.tile(weights / len(copies), len(copies)),
        problem.base,
        problem.covariance,
        size * len(copies),
        None if copies[0][1] is None else np.concatenate([moved for _, moved in copies]),
        noise_scale,
    )
