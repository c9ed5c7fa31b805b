"""Draws of some columns given the others, by Langevin steps down the noise levels.

Known columns fix k linear combinations of the whitened row, A_K z = v_K. What is left is a point
c of the null space: z = z₀ + Nc with AₖN = 0, NᵀN = I. The conditional density there has the score
Nᵀs_σ(z), and at each level from the highest down

    c ← c + δσ² Nᵀs_σ(z₀ + Nc) + √(2δ) σ ξ.

The start is a draw of the highest level's mixture under the same condition, which is a mixture of
Gaussians again, with precisions NᵀP_kN. At the lowest level the walk has the model's conditional
distribution; the levels above lead it to where that has its mass (annealing, Song & Ermon 2019).

| symbol | name        | shape       |
|--------|-------------|-------------|
| N      | free        | (d, d − k)  |
| z₀     | anchors     | (n, d)      |
| c      | points      | (n, d − k)  |
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import null_space

from kexpfam.base.smoothed import SmoothedMixture
from kexpfam.logarithms import log_sum_exp
from kexpfam.model.flow_density import FlowDensity
from kexpfam.model.score_field import ScoreField
from kexpfam.precision import compiled

__all__ = ["complete_rows", "conditional_draws"]

_N_LEVELS = 60
_N_STEPS = 8
_STEP = 0.2


def complete_rows(
    density: FlowDensity, rows: Float[np.ndarray, "n d"], generator: np.random.Generator
) -> Float[np.ndarray, "n d"]:
    """Rows with every NaN drawn from its distribution given the row's other values."""
    coordinates = density.coordinates
    missing, completed = np.isnan(rows), rows.copy()
    for pattern in np.unique(missing[missing.any(axis=1)], axis=0):
        members = (missing == pattern).all(axis=1)
        partial = np.where(pattern, coordinates.marginals.standardizer.center, rows[members])
        values = coordinates.mapped(partial)[:, ~pattern]
        whitened = conditional_draws(density.field, coordinates.root[~pattern], values, generator)
        drawn = coordinates.backward(whitened)
        completed[members] = np.where(pattern, drawn, rows[members])
    return completed


def conditional_draws(
    field: ScoreField,
    known: Float[np.ndarray, "k d"],
    values: Float[np.ndarray, "n k"],
    generator: np.random.Generator,
) -> Float[np.ndarray, "n d"]:
    """Whitened rows z with known zᵀ = values, drawn from the model under that condition."""
    n_rows, n_columns = len(values), known.shape[1]
    if len(known) == 0:
        free, anchors = np.eye(n_columns), np.zeros((n_rows, n_columns))
    else:
        free, anchors = null_space(known), values @ np.linalg.pinv(known).T
    start = _mixture_draws(field.base, field.highest, free, anchors, generator)
    points = _walk(field, free, anchors, start, int(generator.integers(2**31)))
    return anchors + points @ free.T


def _mixture_draws(
    base: SmoothedMixture,
    noise_scale: float,
    free: Float[np.ndarray, "d f"],
    anchors: Float[np.ndarray, "n d"],
    generator: np.random.Generator,
) -> Float[np.ndarray, "n f"]:
    """c of the smoothed mixture on z₀ + Nc: component by its evidence, then a Gaussian."""
    log_evidence, centers, roots = [], [], []
    for log_weight, mean, variances, axes in zip(
        base.log_weights, base.means, base.variances, base.axes, strict=True
    ):
        precision = (axes / (variances + noise_scale**2)) @ axes.T
        inner = free.T @ precision @ free
        shifts = mean - anchors
        center = np.linalg.solve(inner, free.T @ precision @ shifts.T).T
        rest = shifts - center @ free.T
        squares = np.einsum("ni,ij,nj->n", rest, precision, rest)
        constant = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(inner)[1]
        log_evidence.append(log_weight - squares / 2 + constant / 2)
        centers.append(center)
        roots.append(np.linalg.inv(np.linalg.cholesky(inner)).T)
    logs = np.transpose(log_evidence)
    shares = np.exp(logs - log_sum_exp(logs, axis=1, keepdims=True)).cumsum(axis=1)
    chosen = (generator.random((len(anchors), 1)) > shares).sum(axis=1)
    chosen = np.minimum(chosen, len(roots) - 1)
    normals = generator.standard_normal((len(anchors), free.shape[1]))
    turned = np.einsum("nf,nef->ne", normals, np.array(roots)[chosen])
    return np.array(centers)[chosen, np.arange(len(anchors))] + turned


@compiled
def _walk(field: ScoreField, free: Any, anchors: Any, start: Any, seed: Any) -> Any:
    times = jnp.linspace(field.knots[-1], field.knots[0], _N_LEVELS)

    def one_step(carry: Any, time: Any) -> Any:
        points, key = carry
        key, used = jax.random.split(key)
        variance = jnp.exp(2 * time)
        slope = field.score(anchors + points @ free.T, time) @ free
        noise = jax.random.normal(used, points.shape)
        points = points + _STEP * variance * slope + jnp.sqrt(2 * _STEP * variance) * noise
        return (points, key), None

    carry = jnp.asarray(start), jax.random.key(seed)
    (points, _), _ = jax.lax.scan(one_step, carry, jnp.repeat(times, _N_STEPS))
    return points
