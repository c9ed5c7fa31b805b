"""The library's own base densities inside compiled code.

Base densities are NumPy, so that users can bring their own. Those of the library give their log
density and their derivatives (see `kexpfam.base.mixture`) for arrays that JAX traces as well, in
the same formulas; a mixture is padded with empty components first. Mixtures of boxes have a
counterpart here,

    log q0(z) = logsumexp_k [c_k − Σ_j log(cosh w_kj + cosh t_kj)],
    t = (z − center)/softness,      w = half width/softness,

whose derivatives are left to JAX. Everything is a record of arrays (a pytree), so that one
compilation serves every fit of the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.base.boxes import BoxMixtureDensity, log_cosh, log_sinh
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
    if type(density) is BoxMixtureDensity:
        return _Boxes.from_numpy(density)
    if type(density) is RescaledDensity:
        inner = traced_density(density.density)
        return inner and RescaledDensity(inner, density.center, density.scale)
    return None


@register_dataclass
@dataclass(frozen=True)
class _Boxes:
    """Counterpart of `BoxMixtureDensity`, differentiated by JAX."""

    log_heights: Float[Any, " k"]
    centers: Float[Any, "k d"]
    softness: Float[Any, "k d"]
    log_flat: Float[Any, "k d"]

    @classmethod
    def from_numpy(cls, boxes: BoxMixtureDensity) -> _Boxes:
        flatness = boxes.half_widths / boxes.softness
        heights = (log_sinh(flatness) - np.log(2 * boxes.half_widths)).sum(axis=1)
        return cls(
            heights + np.log(boxes.weights), boxes.centers, boxes.softness, log_cosh(flatness)
        )

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        return jax.vmap(self._of_row)(jnp.asarray(rows))

    def _of_row(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        places = (row - self.centers) / self.softness
        log_even = jnp.logaddexp(places, -places) - jnp.log(2.0)
        falls = jnp.logaddexp(self.log_flat, log_even).sum(axis=1)
        return logsumexp(self.log_heights - falls)

    def derivatives(
        self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]
    ) -> BaseDerivatives:
        def spread(row: Array) -> Array:
            return (covariance * jax.hessian(self._of_row)(row)).sum()

        each = (jax.grad(self._of_row), jax.hessian(self._of_row), jax.grad(spread))
        return BaseDerivatives(*(jax.vmap(one)(jnp.asarray(rows)) for one in each))
