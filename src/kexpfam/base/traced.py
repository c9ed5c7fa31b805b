"""The library's own base densities inside compiled code.

Base densities are NumPy, so that users can bring their own. Those of the library give their log
density and their derivatives (see `kexpfam.base.mixture`) for arrays that JAX traces as well, in
the same formulas; a mixture is padded with empty components first. Everything is a record of arrays
(a pytree), so that one compilation serves every fit of the same shape.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from kexpfam.base.mixture import BaseDerivatives, Components, GaussianMixtureDensity
from kexpfam.base.rescaled import RescaledDensity
from kexpfam.base.uniform import BoxDensity

__all__ = ["TracedDensity", "traced_density"]


@runtime_checkable
class TracedDensity(Protocol):
    """A density inside compiled code."""

    def log_density(self, rows: Any) -> Any:
        """log q0."""
        ...

    def derivatives(self, rows: Any, covariance: Any) -> BaseDerivatives:
        """∇log q0, ∇²log q0 and the bend."""
        ...


def traced_density(density: Any) -> TracedDensity | None:
    """A density of the library as compiled code takes it; None for others."""
    # By exact type: a subclass may have changed what the density is.
    if type(density) is GaussianMixtureDensity:
        return Components.padded(density)
    if type(density) is BoxDensity:
        return density
    if type(density) is RescaledDensity:
        inner = traced_density(density.density)
        return inner and RescaledDensity(inner, density.center, density.scale)
    return None
