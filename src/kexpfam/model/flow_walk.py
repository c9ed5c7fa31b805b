"""Draws by walking the noise levels down with noise: ancestral steps and Langevin corrections.

From σ' to the next lower σ (Song et al. 2021, variance-exploding form),

    z ← z + (σ'² − σ²) s_σ'(z) + σ √((σ'² − σ²)/σ'²) ξ           predictor
    z ← z + δσ² s_σ(z) + √(2δ) σ ξ                               corrector

with ξ standard normal, in many small steps.

| symbol | name        | shape  |
|--------|-------------|--------|
| z      | rows        | (n, d) |
| δ      | correction  | ()     |
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kexpfam.data.blocks import padded
from kexpfam.model.flow_density import FlowDensity
from kexpfam.model.score_field import ScoreField
from kexpfam.precision import compiled

__all__ = ["walk_down", "walk_draws"]

_BLOCK = 512
# Ancestral steps, corrections after each, and their size.
_STEPS, _CORRECTIONS, _CORRECTION = 200, 1, 0.1


def walk_draws(
    density: FlowDensity, n_samples: int, generator: np.random.Generator, seed: int
) -> Float[np.ndarray, "n d"]:
    """Draws of the highest level walked to the lowest, with noise."""
    field = density.field
    starts = field.base.sample(n_samples, field.highest, generator)
    ends = [
        walk_down(
            field,
            padded(starts[first : first + _BLOCK], _BLOCK),
            seed + number,
            _STEPS,
            _CORRECTIONS,
            _CORRECTION,
        )
        for number, first in enumerate(range(0, n_samples, _BLOCK))
    ]
    return density.coordinates.backward(np.concatenate(ends)[:n_samples])


@compiled(static=("n_steps", "n_corrections"))
def walk_down(
    field: ScoreField, rows: Any, seed: Any, n_steps: int, n_corrections: int, correction: Any
) -> Any:
    """Rows of q_σmax walked to the lowest level."""
    times = jnp.linspace(field.knots[-1], field.knots[0], n_steps + 1)

    def one_step(carry: Any, pair: Any) -> Any:
        rows, key = carry
        above, below = pair
        key, used = jax.random.split(key)
        high, low = jnp.exp(2 * above), jnp.exp(2 * below)
        noise = jax.random.normal(used, rows.shape)
        rows = rows + (high - low) * field.score(rows, above)
        rows = rows + jnp.sqrt(low * (high - low) / high) * noise
        for _ in range(n_corrections):
            key, used = jax.random.split(key)
            noise = jax.random.normal(used, rows.shape)
            rows = rows + correction * low * field.score(rows, below)
            rows = rows + jnp.sqrt(2 * correction * low) * noise
        return (rows, key), None

    start = jnp.asarray(rows), jax.random.key(seed)
    (rows, _), _ = jax.lax.scan(one_step, start, (times[:-1], times[1:]))
    return rows
