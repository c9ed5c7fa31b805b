"""A mixture's conditionals along its columns, with their derivatives in the last columns.

With z_k the residual of a column under component k and t_ki its derivative in column i, the log
weight of a component after the columns so far, and its derivatives, are sums over these columns,

    ℓ_k = log π_k − Σ (z_k²/2 + log s_k + ½ log 2π)
    ∂_i ℓ_k = −Σ z_k t_ki        ∂²_i ℓ_k = −Σ t_ki²

so that the log density of the columns so far, T = logsumexp ℓ with shares w = softmax ℓ, has

    ∂_i T = Σ_k w_k ∂_i ℓ_k       ∂²_i T = Σ_k w_k (∂²_i ℓ_k + (∂_i ℓ_k)²) − (∂_i T)²,

and a mass V = Σ_k w_k Φ(z_k) has the derivatives, with λ_ki = ∂_i ℓ_k − ∂_i T,

    ∂_i V = Σ_k w_k [φ t_ki + Φ λ_ki]
    ∂²_i V = Σ_k w_k [−φ z_k t_ki² + 2 φ t_ki λ_ki + Φ (∂²_i ℓ_k − ∂²_i T + λ_ki²)].

All are products over components with the derivatives ∂ℓ, which are the only large array.

| symbol | name   | shape     |
|--------|--------|-----------|
| ℓ      | logs   | (n, k)    |
| ∂ℓ     | moved  | (n, s, k), in s columns so far |
| ∂²ℓ    | bent   | (s, k)    |
| T      | total  | a jet of shape (n,) |
| w      | shares | (n, k)    |
| z, t   | places, slopes | (n, k), (s + 1, k) |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from kexpfam.jets import Jet

__all__ = ["MixtureSoFar"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class MixtureSoFar(NamedTuple):
    """Rows under a mixture after some of the columns; `bent` is None without second derivatives."""

    logs: Float[np.ndarray, "n k"]
    moved: Float[np.ndarray, "n s k"]
    bent: Float[np.ndarray, "s k"] | None
    shares: Float[np.ndarray, "n k"]
    total: Jet

    @classmethod
    def of(
        cls,
        logs: Float[np.ndarray, "n k"],
        moved: Float[np.ndarray, "n s k"],
        bent: Float[np.ndarray, "s k"] | None,
    ) -> MixtureSoFar:
        """With log densities of the columns so far."""
        top = logs.max(axis=1)
        shares = np.exp(logs - top[:, None])
        sums = shares.sum(axis=1)
        shares /= sums[:, None]
        first, second = _weighed(moved, shares), None
        if bent is not None:
            second = (_weighed(moved**2, shares) + shares @ bent.T - first**2).T
        return cls(logs, moved, bent, shares, Jet(top + np.log(sums), first.T, second))

    def after(
        self,
        places: Float[np.ndarray, "n k"],
        slopes: Float[np.ndarray, "t k"],
        deviations: Float[np.ndarray, " k"],
    ) -> MixtureSoFar:
        """With one more column, in which the rows move, too."""
        logs = self.logs - places**2 / 2 - (np.log(deviations) + _HALF_LOG_TWO_PI)
        moved = -places[:, None] * slopes
        moved[:, :-1] += self.moved
        bent = None
        if self.bent is not None:
            bent = -(slopes**2)
            bent[:-1] += self.bent
        return MixtureSoFar.of(logs, moved, bent)

    def mass(self, places: Float[np.ndarray, "n k"], slopes: Float[np.ndarray, "t k"]) -> Jet:
        """Σ_k w_k Φ(z_k), for places in the next column."""
        told = self.total.first.T
        below = self.shares * ndtr(places)
        heights = self.shares * np.exp(-(places**2) / 2 - _HALF_LOG_TWO_PI)
        value, along, moved = below.sum(axis=1), heights @ slopes.T, _weighed(self.moved, below)
        first = along.copy()
        first[:, :-1] += moved - value[:, None] * told
        if self.bent is None or self.total.second is None:
            return Jet(value, first.T)
        second = -(heights * places) @ (slopes**2).T
        second[:, :-1] += 2 * (_weighed(self.moved * slopes[:-1], heights) - along[:, :-1] * told)
        second[:, :-1] += below @ self.bent.T + _weighed(self.moved**2, below) - 2 * told * moved
        second[:, :-1] += value[:, None] * (told**2 - self.total.second.T)
        return Jet(value, first.T, second.T)


def _weighed(
    values: Float[np.ndarray, "n s k"], weights: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n s"]:
    """Sums over components."""
    return np.matmul(values, weights[:, :, None])[:, :, 0]
