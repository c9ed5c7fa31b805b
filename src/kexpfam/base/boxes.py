"""Mixtures of boxes with soft edges: densities that are flat and end abruptly.

A row of component k is uniform on a box, plus logistic noise of a scale s that may be tiny. Column
by column, with t = (x − c)/s and w = h/s for the box [c − h, c + h],

    density   sinh(w) / (2h (cosh w + cosh t))
    ∂ log     −u,     ∂²  u² − v,     ∂³  −u + 3uv − 2u³    (times s⁻¹, s⁻², s⁻³)
              with u = sinh t/(cosh w + cosh t),  v = cosh t/(cosh w + cosh t).

For s → 0 that is the box itself; for h → 0 a logistic bell. Tails fall like exp(−|x|/s): beyond the
outermost of n rows the predictive density of a uniform distribution with unknown ends falls like
exp(−n |x|/2h), so s is kept above 2h/n. With L_k the component's log density, s_k = ∇L_k and
diagonal second and third derivatives D_k and E_k, the derivatives of the mixture are those of
`kexpfam.base.mixture` with

    A = Σ_k r_k (s_k s_kᵀ + D_k)
    T = Σ_k r_k [(s_kᵀ C s_k + tr C D_k) s_k + 2 D_k C s_k + diag(C) E_k].

| symbol | name         | shape  |
|--------|--------------|--------|
|        | weights      | (k,)   |
| c      | centers      | (k, d) |
| h      | half_widths  | (k, d) |
| s      | softness     | (k, d) |
| r_k    | shares       | (n, k) |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

__all__ = ["BoxMixtureDensity", "log_cosh", "log_sinh"]

# Softnesses beyond the box at which a component's mass ends, to double precision.
_REACH = 40.0
# An edge is one where the softness is below this share of the half width.
_SHARP = 0.25


def log_cosh(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """log cosh without overflow."""
    return np.logaddexp(values, -values) - np.log(2)


def log_sinh(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """log sinh of positive numbers without overflow."""
    return values + np.log(-np.expm1(-2 * values)) - np.log(2)


@dataclass(frozen=True)
class BoxMixtureDensity:
    """A mixture of boxes with soft edges."""

    weights: Float[np.ndarray, " k"]
    centers: Float[np.ndarray, "k d"]
    half_widths: Float[np.ndarray, "k d"]
    softness: Float[np.ndarray, "k d"]

    def component_log_densities(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """log of weight times density, of each component."""
        flatness = self.half_widths / self.softness
        heights = log_sinh(flatness) - np.log(2 * self.half_widths)
        places = (rows[:, None] - self.centers) / self.softness
        logs = heights - np.logaddexp(log_cosh(flatness), log_cosh(places))
        return logs.sum(axis=2) + np.log(self.weights)

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return np.asarray(logsumexp(self.component_log_densities(rows), axis=1))

    def _derivatives(self, rows: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "..."], ...]:
        """Shares of the components, and their first, second and third derivatives."""
        logs = self.component_log_densities(rows)
        shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        places = (rows[:, None] - self.centers) / self.softness
        log_even = log_cosh(places)
        even = np.exp(log_even - np.logaddexp(log_cosh(self.half_widths / self.softness), log_even))
        odd = even * np.tanh(places)
        first = -odd / self.softness
        second = (odd**2 - even) / self.softness**2
        third = (3 * odd * even - odd - 2 * odd**3) / self.softness**3
        return shares, first, second, third

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        shares, first, *_ = self._derivatives(rows)
        return np.einsum("nk,nki->ni", shares, first)

    def hessian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d d"]:
        shares, first, second, _ = self._derivatives(rows)
        gradient = np.einsum("nk,nki->ni", shares, first)
        return self._relative(shares, first, second) - gradient[:, :, None] * gradient[:, None, :]

    def _relative(
        self,
        shares: Float[np.ndarray, "n k"],
        first: Float[np.ndarray, "n k d"],
        second: Float[np.ndarray, "n k d"],
    ) -> Float[np.ndarray, "n d d"]:
        """∇²q0 / q0."""
        curved = np.einsum("nk,nki,nkj->nij", shares, first, first, optimize=True)
        places = np.arange(first.shape[2])
        curved[:, places, places] += np.einsum("nk,nki->ni", shares, second)
        return curved

    def bend(
        self, rows: Float[np.ndarray, "n d"], covariance: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, "n d"]:
        shares, first, second, third = self._derivatives(rows)
        gradient = np.einsum("nk,nki->ni", shares, first)
        variances = np.diagonal(covariance)
        turned = first @ covariance
        along = (turned * first).sum(axis=2) + second @ variances
        bent = along[:, :, None] * first + 2 * second * turned + variances * third
        relative = self._relative(shares, first, second)
        slope = gradient @ covariance
        square = (gradient * slope).sum(axis=1, keepdims=True)
        trace = np.einsum("nij,ij->n", relative, covariance)[:, None]
        return (
            np.einsum("nk,nki->ni", shares, bent)
            - 2 * np.einsum("nij,nj->ni", relative, slope)
            + (2 * square - trace) * gradient
        )

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        chosen = generator.choice(len(self.weights), n_samples, p=self.weights)
        shape = n_samples, self.centers.shape[1]
        inside = generator.uniform(-1, 1, shape) * self.half_widths[chosen]
        return (
            self.centers[chosen] + inside + self.softness[chosen] * generator.logistic(size=shape)
        )

    def widened(self, factor: float) -> BoxMixtureDensity:
        """The same mixture with every component stretched about its center."""
        return BoxMixtureDensity(
            self.weights, self.centers, factor * self.half_widths, factor * self.softness
        )

    def box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Corners of a box that holds the density's mass to double precision."""
        reach = self.half_widths + _REACH * self.softness
        return (self.centers - reach).min(axis=0), (self.centers + reach).max(axis=0)

    def edges(self) -> list[Float[np.ndarray, " e"]]:
        """Where the density falls steeply, for each column."""
        found = []
        for center, half, soft in zip(
            self.centers.T, self.half_widths.T, self.softness.T, strict=True
        ):
            sharp = soft < _SHARP * half
            found.append(np.concatenate([(center - half)[sharp], (center + half)[sharp]]))
        return found
