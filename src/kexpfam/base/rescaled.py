"""A density read in other units: that of center + scale·X where X has the given density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

__all__ = ["RescaledDensity"]


@dataclass(frozen=True)
class RescaledDensity:
    """The density of y = center + scale·x, column by column, for x distributed as `density`."""

    density: Any
    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    def _inner(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return (rows - self.center) / self.scale

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return self.density.log_density(self._inner(rows)) - np.log(self.scale).sum()

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return self.density.gradient(self._inner(rows)) / self.scale

    def hessian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "*n d d"]:
        return self.density.hessian(self._inner(rows)) / np.outer(self.scale, self.scale)

    def bend(
        self, rows: Float[np.ndarray, "n d"], covariance: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, "n d"]:
        inner = covariance / np.outer(self.scale, self.scale)
        return self.density.bend(self._inner(rows), inner) / self.scale

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        return self.density.sample(n_samples, generator) * self.scale + self.center

    def widened(self, factor: float) -> RescaledDensity:
        """The wider copy of the inner density, in these units."""
        return RescaledDensity(self.density.widened(factor), self.center, self.scale)

    def box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Corners of a box that holds the density's mass."""
        low, high = self.density.box()
        return low * self.scale + self.center, high * self.scale + self.center
