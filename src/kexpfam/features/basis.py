"""The small interface behind which every basis stands.

f(x) = φ(x)ᵀβ is linear in m functions. Whatever they are, the score matching objective with
symmetric noise is the quadratic

    J(β) = hᵀβ + ½ βᵀHβ + (λ/2) βᵀRβ.

A basis knows how to evaluate f and its derivatives, how to sum up a block of rows, and how to
turn such sums into (H, h). A `PointwiseBasis` need only know φ: the rest follows by
differentiation, without noise

    H = mean_a ∇φ(x_a) ∇φ(x_a)ᵀ        h = mean_a Δφ(x_a) + ∇φ(x_a)·∇log q0(x_a).

| symbol | name         | shape  |
|--------|--------------|--------|
| φ      | features     | (n, m) |
| β      | coefficients | (m,)   |
| H      | quadratic    | (m, m) |
| h      | linear       | (m,)   |
| R      | penalty_matrix() | (m, m), or None for the identity |
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kexpfam.data.blocks import Block
from kexpfam.noise import Noise, NoNoise
from kexpfam.quadratic import QuadraticSystem, along, twice_along

__all__ = ["Basis", "DirectMoments", "PointwiseBasis"]


class DirectMoments(NamedTuple):
    """Weighted sums of H and h themselves, for bases whose sums depend on the noise."""

    weight: Float[Any, ""]
    quadratic: Float[Any, "m m"]
    linear: Float[Any, " m"]


@runtime_checkable
class Basis(Protocol):
    """m functions of a row. Records of arrays (pytrees): all methods can be compiled."""

    @property
    def n_features(self) -> int:
        """m."""
        ...

    @property
    def summed_by(self) -> Literal["compiled code", "products", "itself"]:
        """What makes the sums over a block of rows.

        Compiled code, by `moments`; products of matrices that the basis gives as `parts`; or the
        basis itself, by `host_moments`, in blocks of its `block_size`.
        """
        ...

    @property
    def n_derivatives(self) -> float:
        """How often the functions can be differentiated (weakly): score matching needs two."""
        ...

    def averages(self, noise: Noise) -> bool:
        """Whether `moments` and `system` average over this noise in closed form."""
        ...

    def rescaled(self, length_scale: Any) -> Basis:
        """The same basis for a kernel with other length-scales, one per column."""
        ...

    def for_batch(self, rows: Array) -> Basis:
        """The basis that a mini-batch of tuning is fitted with: itself, if it has a fixed size."""
        ...

    def features(self, rows: Array) -> Array:
        """φ at each row."""
        ...

    def values(self, coefficients: Array, rows: Array) -> Array:
        """f at each row."""
        ...

    def gradient(self, coefficients: Array, rows: Array) -> Array:
        """∇f at each row."""
        ...

    def laplacian(self, coefficients: Array, rows: Array, metric: Array) -> Array:
        """Σ_j metric_j ∂²f/∂x_j² at each row."""
        ...

    @property
    def moments_follow_noise(self) -> bool:
        """Whether `moments` depend on the noise, so that each scale costs a pass."""
        ...

    def moments(self, block: Block, noise: Noise, noise_scale: Any) -> Any:
        """Sums over a block's rows; they add."""
        ...

    def system(self, moments: Any, noise: Noise, noise_scale: Any) -> QuadraticSystem:
        """H and h under the noise, from the sums alone."""
        ...

    @property
    def keeps_means(self) -> bool:
        """Whether `moments` hold the means of the functions, which a likelihood is made of."""
        ...

    def mean_features(self, moments: Any) -> Any:
        """The mean of φ over the rows, where it is kept."""
        ...

    def penalty_matrix(self) -> Any:
        """R, or None for the identity."""
        ...


class PointwiseBasis:
    """A basis known by its `features`; derivatives and noise-free sums follow from them."""

    summed_by: ClassVar[Literal["compiled code", "products", "itself"]] = "compiled code"
    keeps_means: ClassVar[bool] = False

    def mean_features(self, moments: Any) -> Any:
        raise NotImplementedError

    def features(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        raise NotImplementedError

    @property
    def n_derivatives(self) -> float:
        return math.inf

    @property
    def moments_follow_noise(self) -> bool:
        return False

    def averages(self, noise: Noise) -> bool:
        return isinstance(noise, NoNoise)

    def for_batch(self, rows: Float[Any, "n d"]) -> PointwiseBasis:
        return self

    def penalty_matrix(self) -> Any:
        return None

    def values(self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        return self.features(rows) @ coefficients

    def gradient(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]
    ) -> Float[Array, "n d"]:
        def partial(direction: Array) -> Array:
            return along(lambda x: self.values(coefficients, x), rows, direction)[1]

        return jax.lax.map(partial, jnp.eye(rows.shape[1])).T

    def laplacian(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"], metric: Float[Any, " d"]
    ) -> Float[Array, " n"]:
        def curvature(direction: Array) -> Array:
            return twice_along(lambda x: self.values(coefficients, x), rows, direction)[2]

        return metric @ jax.lax.map(curvature, jnp.eye(rows.shape[1]))

    def moments(self, block: Block, noise: Noise, noise_scale: Any) -> DirectMoments:
        # Column by column: an array of all derivatives, (n, m, d), is never held.
        def one_column(sums: Any, column: Any) -> Any:
            direction, base_slope = column
            _, slope, curvature = twice_along(self.features, block.rows, direction)
            quadratic, linear = sums
            weighted = slope * block.weights[:, None]
            linear += block.weights @ curvature + (block.weights * base_slope) @ slope
            return (quadratic + weighted.T @ slope, linear), None

        directions = jnp.eye(block.rows.shape[1])
        count = jax.eval_shape(self.features, block.rows).shape[1]
        start = jnp.zeros((count, count)), jnp.zeros(count)
        (quadratic, linear), _ = jax.lax.scan(
            one_column, start, (directions, jnp.asarray(block.base_gradient).T)
        )
        return DirectMoments(block.weights.sum(), quadratic, linear)

    def system(self, moments: DirectMoments, noise: Noise, noise_scale: Any) -> QuadraticSystem:
        return QuadraticSystem(moments.quadratic / moments.weight, moments.linear / moments.weight)
