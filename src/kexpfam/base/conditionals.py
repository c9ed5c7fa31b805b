"""Every column of a Gaussian mixture given all others: one-dimensional mixtures, in closed form.

With r_k = P_k(x − μ_k) for a component of precision P_k, its column j given the others has

    mean x_j − r_kj/P_kjj,      variance 1/P_kjj,      and the weight
    log w_kj = log π_k N(x; μ_k, Σ_k) + ½ r_kj²/P_kjj + ½ log(2π/P_kjj),

the density of the other columns. One product with the precisions serves all columns.

| symbol  | name                | shape     |
|---------|---------------------|-----------|
| w       | log_weights         | (n, d, k), normalized over k, heaviest first |
|         | means, deviations   | (n, d, k) |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.logarithms import log_sum_exp

__all__ = ["ColumnMixtures", "column_mixtures"]

# Components this many nats below the heaviest one have no part in a conditional.
_NEGLIGIBLE = 18.0


class ColumnMixtures(NamedTuple):
    """A mixture for each row and column: that column given the row's others."""

    log_weights: Float[np.ndarray, "n d k"]
    means: Float[np.ndarray, "n d k"]
    deviations: Float[np.ndarray, "n d k"]

    def log_density(self, places: Float[np.ndarray, "n d q"]) -> Float[np.ndarray, "n d q"]:
        """At several places of each column; −∞ where the density is not a number any more."""
        log_heights = self.log_weights - np.log(self.deviations) - np.log(2 * np.pi) / 2
        n_parts = self.means.shape[2]
        flat = [part.reshape(-1, n_parts) for part in (log_heights, self.means, self.deviations)]
        alive = (self.log_weights.reshape(-1, n_parts) > -_NEGLIGIBLE).sum(axis=1)
        # Those with most components first: what is left of them is always at the beginning.
        order = np.argsort(-alive)
        heights, means, deviations = (part[order] for part in flat)
        wanted = places.reshape(len(order), -1)[order]
        density = np.zeros(wanted.shape)
        for part, count in enumerate((alive[:, None] > np.arange(n_parts)).sum(axis=0)):
            units = (wanted[:count] - means[:count, part, None]) / deviations[:count, part, None]
            density[:count] += np.exp(heights[:count, part, None] - units**2 / 2)
        found = np.empty(density.shape)
        with np.errstate(divide="ignore"):
            found[order] = np.log(density)
        return found.reshape(places.shape)

    def own_log_density(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """At one value of each column, however far out."""
        units = (values[:, :, None] - self.means) / self.deviations
        logs = self.log_weights - np.log(self.deviations) - units**2 / 2
        return log_sum_exp(logs, axis=2) - np.log(2 * np.pi) / 2

    def log_tail(self, places: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Logarithm of the probability beyond a place, on the nearer side."""
        units = (places[:, :, None] - self.means) / self.deviations
        sides = [log_sum_exp(self.log_weights + log_ndtr(sign * units), axis=2) for sign in (1, -1)]
        return np.asarray(np.minimum(*sides))


def column_mixtures(
    mixture: GaussianMixtureDensity, rows: Float[np.ndarray, "n d"]
) -> ColumnMixtures:
    """The conditional mixtures at some rows; components of no weight are left out."""
    precisions = mixture.precisions
    diagonals = np.diagonal(precisions, axis1=1, axis2=2)
    pulls = np.stack(
        [
            (rows - mean) @ precision
            for mean, precision in zip(mixture.means, precisions, strict=True)
        ],
        axis=2,
    )
    logs = mixture.component_log_densities(rows)[:, None, :]
    log_weights = logs + pulls**2 / (2 * diagonals.T) + np.log(2 * np.pi / diagonals.T) / 2
    means = rows[:, :, None] - pulls / diagonals.T
    kept = np.argsort(-log_weights, axis=2)
    log_weights = np.take_along_axis(log_weights, kept, axis=2)
    alive = log_weights > log_weights[:, :, :1] - _NEGLIGIBLE
    most = int(alive.sum(axis=2).max())
    # Those that others are kept for stand where the heaviest does: rows know nothing of each other.
    kept, alive = np.where(alive, kept, kept[:, :, :1])[:, :, :most], alive[:, :, :most]
    log_weights = np.where(alive, log_weights[:, :, :most], -np.inf)
    deviations = np.broadcast_to(diagonals.T**-0.5, means.shape)
    return ColumnMixtures(
        log_weights - log_sum_exp(log_weights, axis=2, keepdims=True),
        np.take_along_axis(means, kept, axis=2),
        np.take_along_axis(deviations, kept, axis=2),
    )
