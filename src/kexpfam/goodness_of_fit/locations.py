"""Test locations: draws of a Gaussian fitted to the rows, or locations with high power.

The power of the test grows with the ratio (Jitkrittum et al. 2017, Proposition 4)

    FSSD² / (σ_H1 + γ),        σ_H1² = 4 μᵀ Σ μ,   μ = E τ,   Σ = cov τ.

It is maximized over the locations and the kernel's width by Adam, from Gaussian draws and the given
width. The rows that choose the locations must not take part in the test.

| symbol | name           | shape  |
|--------|----------------|--------|
| v      | locations      | (J, d) |
| width  | exp(log_width) | ()     |
| γ      | _FLOOR         | ()     |

Inside, lengths are measured in starting widths, so that γ means the same in any unit, and the
steps of a location in each column's standard deviation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from kexpfam.data.blocks import block_size_for, padded
from kexpfam.goodness_of_fit.kernels import RadialKernel
from kexpfam.goodness_of_fit.observed import Observed
from kexpfam.goodness_of_fit.stein_features import stein_features, unbiased_square
from kexpfam.precision import compiled

__all__ = ["MOST_TRAINING_ROWS", "gaussian_locations", "optimized_locations", "power_criterion"]

# Every step of the optimization passes over all of them: power against time.
MOST_TRAINING_ROWS = 8192

# Where the rows show no clear difference, the ratio of two small numbers is largest for a narrow
# kernel at some accident of the rows. γ stops that: with 0.01 in place of 0.2 a shift of 0.2
# deviations is found in 63 samples of 100 instead of 89 (600 rows, 3 columns).
_FLOOR = 0.2
_LEARNING_RATE = 0.05
_WIDTH_RANGE = (0.05, 20.0)


class Place(NamedTuple):
    """What is optimized: locations in standard deviations from the mean, and a log width."""

    deviations: Any
    log_width: Any


def gaussian_locations(
    rows: Float[np.ndarray, "n d"], n_locations: int, generator: np.random.Generator
) -> Float[np.ndarray, "j d"]:
    """Draws of a Gaussian with the rows' mean and covariance."""
    center = rows.mean(axis=0)
    # A random mixture of the rows has their covariance exactly: nothing to factorize, and
    # columns that repeat each other do no harm.
    mixtures = generator.standard_normal((n_locations, len(rows))) / np.sqrt(len(rows) - 1)
    return center + mixtures @ (rows - center)


def power_criterion(
    rows: Any, gradients: Any, weights: Any, locations: Any, width: Any, kernel: RadialKernel
) -> Any:
    """FSSD² / (σ_H1 + γ) on rows of weight one; rows of weight zero are padding."""
    features = stein_features(rows, gradients, locations, width, kernel) * weights[:, None]
    count, total = weights.sum(), features.sum(axis=0)
    square = unbiased_square(count, total, (features**2).sum())
    along = features @ (total / count)
    variance = weights @ (along - weights @ along / count) ** 2 / count
    # The tiny number keeps the root's derivative finite where the variance is zero.
    return square / (2 * jnp.sqrt(variance + 1e-16) + _FLOOR)


@compiled(static=("kernel",))
def _ascend(
    data: Any, start: Place, bounds: tuple[Place, Place], n_steps: Any, kernel: RadialKernel
) -> Place:
    """Adam from `start`, to the best place that it meets."""
    rows, gradients, weights, deviation = data
    optimizer = optax.adam(_LEARNING_RATE)

    def criterion(place: Place) -> Any:
        locations, width = deviation * place.deviations, jnp.exp(place.log_width)
        return power_criterion(rows, gradients, weights, locations, width, kernel)

    def step(_: Any, carry: Any) -> Any:
        place, state, best, best_value = carry
        value, slope = jax.value_and_grad(criterion)(place)
        # A value that is not a number is never greater.
        best, best_value = jax.tree.map(
            lambda new, old: jnp.where(value > best_value, new, old),
            (place, value),
            (best, best_value),
        )
        downhill = jax.tree.map(lambda leaf: -jnp.nan_to_num(leaf), slope)
        updates, state = optimizer.update(downhill, state)
        place = jax.tree.map(jnp.clip, optax.apply_updates(place, updates), *bounds)
        return place, state, best, best_value

    carry = start, optimizer.init(start), start, -jnp.inf
    return jax.lax.fori_loop(0, n_steps, step, carry)[2]


def optimized_locations(
    observed: Observed,
    n_locations: int,
    width: float,
    tune_width: bool,
    kernel: RadialKernel,
    n_steps: int,
    generator: np.random.Generator,
) -> tuple[Float[np.ndarray, "j d"], float]:
    """Locations and a width where the criterion is large, the width from `width` or equal to it."""
    center = observed.rows.mean(axis=0)
    shifted = (observed.rows - center) / width
    deviation = shifted.std(axis=0)
    size = block_size_for(len(shifted), MOST_TRAINING_ROWS)
    data = (
        padded(shifted, size),
        padded(observed.gradients * width, size),
        padded(np.ones(len(shifted)), size),
        deviation,
    )
    # A constant column has deviation zero: whatever is divided by it is zero too.
    scale = np.where(deviation > 0, deviation, 1.0)
    start = Place(gaussian_locations(shifted, n_locations, generator) / scale, np.array(0.0))
    reach = _WIDTH_RANGE if tune_width else (1.0, 1.0)
    # A standard deviation beyond the rows, the features carry little information.
    bounds = (
        Place(shifted.min(axis=0) / scale - 1, np.log(reach[0])),
        Place(shifted.max(axis=0) / scale + 1, np.log(reach[1])),
    )
    place = _ascend(data, start, bounds, n_steps, kernel=kernel)
    return center + width * deviation * place.deviations, width * float(np.exp(place.log_width))
