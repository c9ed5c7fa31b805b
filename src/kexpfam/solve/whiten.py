"""Coordinates in which the penalty is the identity.

With R = LLᵀ and γ = Lᵀβ the objective hᵀβ + ½βᵀHβ + (λ/2)βᵀRβ becomes

    (L⁻¹h)ᵀγ + ½ γᵀ(L⁻¹HL⁻ᵀ)γ + (λ/2)|γ|².

The condition number is then that of H relative to R, (μ + λ)/λ, and not also R's own, which for
kernel sections at close points is as bad as float64 allows.

| symbol | name   | shape  |
|--------|--------|--------|
| L      | factor | (m, m) |
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from kexpfam.quadratic import QuadraticSystem

__all__ = ["unwhitened", "whitened"]


def whitened(
    system: QuadraticSystem, penalty_matrix: Float[Any, "m m"] | None
) -> tuple[QuadraticSystem, Float[Array, "m m"] | None]:
    """The system in coordinates where R is the identity, and the factor that leads back."""
    if penalty_matrix is None:
        return system, None
    factor = jnp.linalg.cholesky(penalty_matrix)
    half = solve_triangular(factor, system.quadratic, lower=True)
    quadratic = solve_triangular(factor, half.T, lower=True)
    linear = solve_triangular(factor, system.linear, lower=True)
    return QuadraticSystem((quadratic + quadratic.T) / 2, linear), factor


def unwhitened(
    factor: Float[Any, "m m"] | None, coefficients: Float[Any, "..."]
) -> Float[Array, "..."]:
    """β from γ."""
    if factor is None:
        return coefficients
    return solve_triangular(factor, coefficients, lower=True, trans=1)
