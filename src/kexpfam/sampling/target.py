"""What Markov chains need to know of a density to draw from it.

    log p(z) = f(z) + log q0(z) + constant

in standardized units, with a base density q0 that is drawn from directly.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from kexpfam.base import BaseDensity
from kexpfam.data.standardize import Standardizer

__all__ = ["Target"]


@runtime_checkable
class Target(Protocol):
    """A tilted base density, in units of its own."""

    @property
    def base(self) -> BaseDensity:
        """q0."""

    @property
    def standardizer(self) -> Standardizer:
        """From the user's units to those of the chains, and back."""

    def tilt(self, standardized: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """f."""

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """log p in the user's units."""

    def standardized_function(self) -> Any:
        """f(z) + log q0(z) as a JAX function of one row, with f alone as its method `tilt`."""
