"""The small interface behind which every basis stands.

f(x) = φ(x)ᵀβ is linear in m functions. Whatever they are, the score matching objective with
symmetric noise is the quadratic

    J(β) = hᵀβ + ½ βᵀHβ + (λ/2) βᵀRβ.

A basis knows how to evaluate f and its derivatives, how to sum up a block of rows, and how to
turn such sums into (H, h).

| symbol | name         | shape  |
|--------|--------------|--------|
| β      | coefficients | (m,)   |
| H      | quadratic    | (m, m) |
| h      | linear       | (m,)   |
| R      | penalty_matrix() | (m, m), or None for the identity |
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float

from kexpfam.data.blocks import Block
from kexpfam.noise import Noise

__all__ = ["Basis", "DirectMoments", "QuadraticSystem"]


class DirectMoments(NamedTuple):
    """Weighted sums of H and h themselves, for bases whose sums depend on the noise."""

    weight: Float[Any, ""]
    quadratic: Float[Any, "m m"]
    linear: Float[Any, " m"]


class QuadraticSystem(NamedTuple):
    """The objective's quadratic and linear parts, per unit of weight."""

    quadratic: Float[Array, "m m"]
    linear: Float[Array, " m"]


@runtime_checkable
class Basis(Protocol):
    """m functions of a row. Records of arrays (pytrees): all methods can be compiled."""

    @property
    def n_features(self) -> int:
        """m."""
        ...

    def rescaled(self, length_scale: Any) -> Basis:
        """The same basis for a kernel with other length-scales, one per column."""
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

    def penalty_matrix(self) -> Any:
        """R, or None for the identity."""
        ...
