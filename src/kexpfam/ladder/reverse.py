"""Draws by walking the ladder down with noise: ancestral steps and Langevin corrections.

From σ' to the next lower σ (Song et al. 2021, variance-exploding form),

    z ← z + (σ'² − σ²) s_σ'(z) + σ √((σ'² − σ²)/σ'²) ξ           predictor
    z ← z + δσ² s_σ(z) + √(2δ) σ ξ                               corrector

with ξ standard normal. The ladder is refined to many small steps.

| symbol | name        | shape  |
|--------|-------------|--------|
| z      | rows        | (n, d) |
| δ      | correction  | ()     |
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from kexpfam.ladder.flow import ScoreField
from kexpfam.precision import compiled

__all__ = ["walk_down"]


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
