"""The library's own base densities as JAX sees them, inside compiled code.

Base densities are NumPy, so that users can bring their own. Those of the library have a counterpart
here, found by their exact type, that gives the log density of one row, for Markov chains, and the
derivatives at a block of rows, for moments (see `kexpfam.base.mixture` for the formulas):

    mixture    log q0(z) = logsumexp_k [c_k − ½|L_k (z − μ_k)|²],  L_kᵀL_k = P_k,
               c_k = log π_k + log|L_k| − (d/2) log 2π
    box        log q0(z) = −Σ_j log(high_j − low_j) inside, −∞ outside
    boxes      log q0(z) = logsumexp_k [c_k − Σ_j log(cosh w_kj + cosh t_kj)],
               t = (z − center)/softness, w = half width/softness
    rescaled   log q0(z) = log q((z − center)/scale) − Σ_j log scale_j

Everything is a record of arrays (a pytree), so that one compilation serves every fit of the same
shape.

| symbol | name         | shape     |
|--------|--------------|-----------|
| c_k    | log_heights  | (k,)      |
| μ_k    | means        | (k, d)    |
| L_k    | roots        | (k, d, d) |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.base.boxes import BoxMixtureDensity, log_cosh, log_sinh
from kexpfam.base.mixture import GaussianMixtureDensity, padded_size
from kexpfam.base.rescaled import RescaledDensity
from kexpfam.base.uniform import BoxDensity

__all__ = [
    "BaseDerivatives",
    "TracedDensity",
    "TracedRescaled",
    "traced_density",
]


class BaseDerivatives(NamedTuple):
    """∇log q0, ∇²log q0 and the bend at rows; the Hessian may be one for all."""

    gradient: Float[Any, "n d"]
    hessian: Float[Any, "*n d d"]
    bend: Float[Any, "n d"]


@runtime_checkable
class TracedDensity(Protocol):
    """A density inside compiled code."""

    def __call__(self, row: Any) -> Any:
        """log q0 at one row."""
        ...

    def derivatives(self, rows: Any, covariance: Any) -> BaseDerivatives:
        """At a block of rows."""
        ...


def traced_density(density: Any) -> TracedDensity | None:
    """The counterpart of a density of the library; None for others."""
    # By exact type: a subclass may have changed what the density is.
    made = _COUNTERPARTS.get(type(density))
    return None if made is None else made(density)


@register_dataclass
@dataclass(frozen=True)
class _Mixture:
    """Counterpart of `GaussianMixtureDensity`."""

    log_heights: Float[Any, " k"]
    means: Float[Any, "k d"]
    roots: Float[Any, "k d d"]

    @classmethod
    def from_numpy(cls, mixture: GaussianMixtureDensity) -> _Mixture:
        """Padded with empty components to one of few sizes, so that few shapes are compiled."""
        count, n_columns = mixture.means.shape
        roots = np.linalg.inv(np.linalg.cholesky(mixture.covariances))
        log_volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        with np.errstate(divide="ignore"):
            log_heights = np.log(mixture.weights) + log_volumes - n_columns / 2 * np.log(2 * np.pi)
        empty = padded_size(count) - count
        return cls(
            np.pad(log_heights, (0, empty), constant_values=-np.inf),
            np.pad(mixture.means, ((0, empty), (0, 0))),
            np.pad(roots, ((0, empty), (0, 0), (0, 0))),
        )

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        whitened = jnp.einsum("kij,kj->ki", self.roots, row - self.means)
        return logsumexp(self.log_heights - (whitened**2).sum(axis=1) / 2)

    def derivatives(
        self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]
    ) -> BaseDerivatives:
        rows, roots = jnp.asarray(rows), jnp.asarray(self.roots)
        count, n_columns = self.means.shape
        precisions = jnp.einsum("kji,kjl->kil", roots, roots)
        if count == 1:
            gradient = (self.means[0] - rows) @ precisions[0]
            return BaseDerivatives(gradient, -precisions[0], jnp.zeros_like(rows))
        scores = self._turned(-precisions, rows)
        logs = self.log_heights - (self._turned(roots, rows) ** 2).sum(axis=2) / 2
        shares = jnp.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        weighted = shares[:, :, None] * scores
        gradient = weighted.sum(axis=1)
        # As sums of products: XLA's product of many small matrices is slow on a CPU.
        second = (weighted[:, :, :, None] * scores[:, :, None, :]).sum(axis=1)
        second -= (shares @ precisions.reshape(count, -1)).reshape(-1, n_columns, n_columns)
        turned = (scores.reshape(-1, n_columns) @ covariance).reshape(scores.shape)
        trace = jnp.einsum("ij,kji->k", covariance, precisions)
        excess = shares * ((turned * scores).sum(axis=2) - trace)
        third = (excess[:, :, None] * scores).sum(axis=1)
        stacked = (shares[:, :, None] * turned).reshape(len(rows), -1)
        third -= 2 * stacked @ precisions.reshape(-1, n_columns)
        slope = gradient @ covariance
        third -= 2 * (second * slope[:, None, :]).sum(axis=2)
        square = (gradient * slope).sum(axis=1, keepdims=True)
        bend = third + (2 * square - excess.sum(axis=1, keepdims=True)) * gradient
        hessian = second - gradient[:, :, None] * gradient[:, None, :]
        return BaseDerivatives(gradient, hessian, bend)

    def _turned(self, matrices: Array, rows: Array) -> Array:
        """M_k (x − μ_k) for all components by one matrix product."""
        count, n_columns = self.means.shape
        offsets = jnp.einsum("kij,kj->ki", matrices, self.means)
        products = rows @ matrices.reshape(-1, n_columns).T
        return products.reshape(-1, count, n_columns) - offsets


@register_dataclass
@dataclass(frozen=True)
class _Box:
    """Counterpart of `BoxDensity`."""

    low: Float[Any, " d"]
    high: Float[Any, " d"]

    @classmethod
    def from_numpy(cls, box: BoxDensity) -> _Box:
        return cls(box.low, box.high)

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        inside = ((row >= self.low) & (row <= self.high)).all()
        return jnp.where(inside, -jnp.log(self.high - self.low).sum(), -jnp.inf)

    def derivatives(
        self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]
    ) -> BaseDerivatives:
        zeros = jnp.zeros_like(rows)
        return BaseDerivatives(zeros, jnp.zeros_like(covariance), zeros)


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

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        places = (row - self.centers) / self.softness
        log_even = jnp.logaddexp(places, -places) - jnp.log(2.0)
        falls = jnp.logaddexp(self.log_flat, log_even).sum(axis=1)
        return logsumexp(self.log_heights - falls)

    def derivatives(
        self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]
    ) -> BaseDerivatives:
        rows = jnp.asarray(rows)

        def spread(row: Array) -> Array:
            return (covariance * jax.hessian(self)(row)).sum()

        return BaseDerivatives(
            jax.vmap(jax.grad(self))(rows),
            jax.vmap(jax.hessian(self))(rows),
            jax.vmap(jax.grad(spread))(rows),
        )


@register_dataclass
@dataclass(frozen=True)
class TracedRescaled:
    """Counterpart of `RescaledDensity` over a density of the library."""

    density: Any
    center: Float[Any, " d"]
    scale: Float[Any, " d"]

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        return self.density((row - self.center) / self.scale) - jnp.log(self.scale).sum()

    def derivatives(
        self, rows: Float[Any, "n d"], covariance: Float[Any, "d d"]
    ) -> BaseDerivatives:
        squares = self.scale[:, None] * self.scale
        inner = (rows - self.center) / self.scale
        gradient, hessian, bend = self.density.derivatives(inner, covariance / squares)
        return BaseDerivatives(gradient / self.scale, hessian / squares, bend / self.scale)


def _rescaled(density: RescaledDensity) -> TracedRescaled | None:
    inner = traced_density(density.density)
    return None if inner is None else TracedRescaled(inner, density.center, density.scale)


_COUNTERPARTS: dict[type, Callable[[Any], Any]] = {
    GaussianMixtureDensity: _Mixture.from_numpy,
    BoxDensity: _Box.from_numpy,
    BoxMixtureDensity: _Boxes.from_numpy,
    RescaledDensity: _rescaled,
}
