"""Draws that look for mass where the base density has little.

The model is exp(f) q0 / Z, and nothing but the penalty holds f down where there are no rows. A
spike of f a few standard deviations out can carry real mass that draws of q0 would practically
never meet: log Z would come out too small, and every log density too large. So half of the draws
come from q0 and half from widened copies of it (defensive importance sampling, Hesterberg 1995),

    r = ½ q0 + ⅛ (q0 widened 1.5-fold + 2-fold + 3-fold + 4-fold),

each draw carrying log q0 − log r. With u_i = q0/r normalized to sum to one, and so exact where f
is constant,

    log Z ≈ log Σ_i u_i exp f(x_i)        error² = Σ_i (v_i − u_i)²,  v_i ∝ u_i exp f(x_i).

| symbol | name            | shape  |
|--------|-----------------|--------|
| x_i    | rows            | (n, d) |
| log u  | log_proportions | (n,)   |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from kexpfam.base.density import BaseDensity
from kexpfam.base.mixture import GaussianMixtureDensity

__all__ = ["BaseDraws", "draw_defensively"]

_FACTORS = (1.5, 2.0, 3.0, 4.0)
_SHARES = (0.5, 0.125, 0.125, 0.125, 0.125)


class BaseDraws(NamedTuple):
    """Points with proportions that stand for the base density."""

    rows: Float[np.ndarray, "n d"]
    log_proportions: Float[np.ndarray, " n"]


def draw_defensively(base: BaseDensity, n_draws: int, generator: np.random.Generator) -> BaseDraws:
    """Draws of q0 and of its widened copies, with their proportions."""
    widened = [base, *(base.widened(factor) for factor in _FACTORS)]
    counts = np.diff(np.rint(np.cumsum((0.0, *_SHARES)) * n_draws).astype(int))
    rows = np.concatenate(
        [density.sample(int(n), generator) for density, n in zip(widened, counts, strict=True)]
    )
    if isinstance(base, GaussianMixtureDensity):
        logs = base.widened_log_densities(rows, (1.0, *_FACTORS))
    else:
        logs = np.stack([density.log_density(rows) for density in widened], axis=1)
    log_ratios = logs[:, 0] - logsumexp(logs, axis=1, b=counts / n_draws)
    return BaseDraws(rows, log_ratios - logsumexp(log_ratios))
