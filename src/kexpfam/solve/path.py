"""Ridge solutions for many penalties from one reduction of the system.

With R = LLᵀ the whitened H = QTQᵀ, T tridiagonal and Q orthogonal, gives

    β(λ) = −L⁻ᵀ Q (T + λI)⁻¹ Qᵀ L⁻¹h,

O(m²) for each λ after O(m³) once. (An eigendecomposition would do as well, and takes twice as long:
it starts with this reduction.)

| symbol   | name                     | shape      |
|----------|--------------------------|------------|
| λ        | penalties                | (l,)       |
| T        | diagonal, beside         | (m,), (m−1,) |
| Q        | reflectors, scales       | (m, m), (m−1,) |
| β        | coefficients, as columns | (m, l)     |
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import linalg
from jaxtyping import Array, Float

from kexpfam.precision import compiled
from kexpfam.quadratic import QuadraticSystem
from kexpfam.solve.whiten import unwhitened, whitened

__all__ = ["ridge_path"]


@compiled(tuned=False)
def ridge_path(
    system: QuadraticSystem,
    penalties: Float[Any, " l"],
    penalty_matrix: Float[Any, "m m"] | None = None,
) -> Float[Array, "m l"]:
    """β for each penalty, as columns."""
    inner, root = whitened(system, penalty_matrix)
    if len(inner.linear) == 1:
        return unwhitened(root, -inner.linear[:, None] / (inner.quadratic + penalties))
    reflectors, diagonal, beside, scales = linalg.tridiagonal(inner.quadratic, lower=True)
    turned = _rotated(reflectors, scales, inner.linear[:, None], back=True)
    below, above = jnp.pad(beside, (1, 0)), jnp.pad(beside, (0, 1))

    def solved(penalty: Any) -> Float[Array, " m"]:
        return linalg.tridiagonal_solve(below, diagonal + penalty, above, turned)[:, 0]

    solutions = jax.vmap(solved, out_axes=1)(penalties)
    return unwhitened(root, -_rotated(reflectors, scales, solutions))


def _rotated(
    reflectors: Any, scales: Any, columns: Float[Array, "m c"], back: bool = False
) -> Float[Array, "m c"]:
    """Q times columns, or Qᵀ: by the reflectors one after the other, Q itself is never made."""
    turned = linalg.ormqr(reflectors[1:, :-1], scales, columns[1:], transpose=back)
    return jnp.concatenate([columns[:1], turned])
