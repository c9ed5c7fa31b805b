"""Where chains start: defensive draws of the base density, resampled by importance weight.

A draw z_i that stands for the share u_i of q0 stands for the share v_i ∝ u_i exp f(z_i) of the
model (see `kexpfam.base.defensive`). Chains that start from draws with these shares start close to
the distribution they are meant to reach, and modes that no chain can travel between are already
occupied in proportion to their mass.

Systematic resampling along the first column: the draws with quantiles (U + c)/n of v, for one
uniform U. Each chain still starts from the distribution v, and neighboring regions get their shares
to within one chain rather than to within a binomial standard deviation (Gerber, Chopin and
Whiteley, "Negative association, ordering and convergence of resampling methods", 2019).

| symbol | name   | shape  |
|--------|--------|--------|
| z_i    | rows   | (n, d) |
| v      | shares | (n,)   |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from kexpfam.base import draw_defensively
from kexpfam.sampling.target import Target

__all__ = ["Starts", "draw_starts"]

_N_DRAWS = 8192


class Starts(NamedTuple):
    """Standardized rows to start from, and a length to begin the search for a step size with."""

    rows: Float[np.ndarray, "chains d"]
    spread: float


def draw_starts(density: Target, n_chains: int, generator: np.random.Generator) -> Starts:
    """Starting points for `n_chains` chains."""
    draws = draw_defensively(density.base, max(_N_DRAWS, 8 * n_chains), generator)
    shares = softmax(draws.log_proportions + density.tilt(draws.rows))
    order = np.argsort(draws.rows[:, 0])
    quantiles = (generator.uniform() + np.arange(n_chains)) / n_chains
    # The last cumulated share may fall short of one by rounding.
    cumulated = np.cumsum(shares[order]) / shares.sum()
    chosen = order[np.minimum(np.searchsorted(cumulated, quantiles), len(order) - 1)]
    return Starts(
        rows=draws.rows[generator.permutation(chosen)],
        spread=float(draws.rows.std(axis=0).min()),
    )
