"""The interface of every fitted density.

Estimators make one from their settings and rows. Commands, reports, plots, tests of fit and the
gate use nothing else of a model. How reliable a density is takes rows that it has not seen, and is
kept separately (`kexpfam.model.health`).

| class         | rows                                        | densities                       |
|---------------|---------------------------------------------|---------------------------------|
| `Density`     | numbers, or places among a column's levels  | `ChainDensity`, and those below |
| `RealDensity` | real numbers                                | `TiltedDensity`, `FlowDensity`  |
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float

from kexpfam.model.surprise import ColumnGrids
from kexpfam.model.traced import LogDensityFunction

__all__ = ["Density", "RealDensity"]


class Density(ABC):
    """A normalized density in the units of the data: a base density, and perhaps a tilt of it."""

    @property
    @abstractmethod
    def has_tilt(self) -> bool:
        """Whether it differs from its base density."""

    @abstractmethod
    def untilted(self) -> Density:
        """The base density alone."""

    @abstractmethod
    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """log p."""

    def log_density_and_error(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """log p, and estimates of its numerical error: none, where it is in closed form."""
        return self.log_density(rows), np.zeros(len(rows))

    @abstractmethod
    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """∇log p: the derivative of `log_density`."""

    @abstractmethod
    def laplacian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Δlog p: the sum of the second derivatives of `log_density`."""

    @abstractmethod
    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Draws."""

    @abstractmethod
    def draws_log_density(
        self, n_draws: int, generator: np.random.Generator
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """log p at draws, and the draws' shares: good enough to compare rows with."""

    def support_box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]] | None:
        """The corners of the box beyond which log p is −∞; None where there is no such box."""
        return None


class RealDensity(Density):
    """A density of real columns: a JAX form, and each column's density given the others."""

    @abstractmethod
    def untilted(self) -> RealDensity:
        """The base density alone."""

    @abstractmethod
    def jax_function(self) -> LogDensityFunction:
        """log p of one row as a function that JAX can compile, map and differentiate."""

    @abstractmethod
    def column_grids(self, rows: Float[np.ndarray, "n d"]) -> ColumnGrids:
        """The density of every column given the row's others, in coordinates of the density's."""

    @abstractmethod
    def from_columns(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Values of columns in those coordinates, in the units of the data."""
