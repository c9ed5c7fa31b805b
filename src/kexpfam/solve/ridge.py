"""The minimizer of hᵀβ + ½βᵀHβ + (λ/2)βᵀRβ:  β = −(H + λR)⁻¹ h.

In whitened coordinates (see `kexpfam.solve.whiten`) by Cholesky, with the reciprocal condition
number looked at: an indefinite or nearly singular system gives an error and never a vector of
noise. (The paper's equivalent form (1/λ)(H+nλI)⁻¹Hh − (1/λ)h cancels catastrophically for
small λ.)
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, lapack

from kexpfam.exceptions import SingularSystemError
from kexpfam.noise import Noise
from kexpfam.precision import compiled
from kexpfam.quadratic import QuadraticSystem
from kexpfam.solve.whiten import unwhitened, whitened

__all__ = ["minimizer", "penalty_matrix_of", "solve_ridge", "system_at"]


@compiled
def system_at(basis: Any, moments: Any, noise: Noise, noise_scale: Any) -> QuadraticSystem:
    """H and h at a noise scale, from moments alone."""
    return noise.system(basis, moments, noise_scale)


def _penalty_matrix(basis: Any) -> Any:
    return basis.penalty_matrix()


_compiled_penalty_matrix = compiled(_penalty_matrix)


def penalty_matrix_of(basis: Any) -> Any:
    """R of a basis, or None for the identity."""
    # To see that there is nothing to compute, nothing need be compiled.
    nothing = jax.eval_shape(_penalty_matrix, basis) is None
    return None if nothing else _compiled_penalty_matrix(basis)


_whitened = compiled(whitened)
_unwhitened = compiled(unwhitened)


def solve_ridge(
    system: QuadraticSystem,
    penalty: float,
    penalty_matrix: Float[np.ndarray, "m m"] | None = None,
) -> Float[np.ndarray, " m"]:
    """β for one penalty; an infinite penalty gives zeros, i.e. the base density."""
    if np.isinf(penalty):
        return np.zeros(len(system.linear))
    if penalty_matrix is None:
        return minimizer(system, penalty)
    inner, root = _whitened(system, penalty_matrix)
    return _unwhitened(root, minimizer(inner, penalty))


def minimizer(system: QuadraticSystem, penalty: float) -> Float[np.ndarray, " m"]:
    """−(H + λI)⁻¹h, or an error where that would be a vector of rounding noise."""
    # The transpose of a copy is what LAPACK reads without another one; the matrix is symmetric.
    matrix = np.array(system.quadratic, order="C").T
    matrix[np.diag_indices_from(matrix)] += penalty
    size = float(np.abs(matrix).sum(axis=0).max())
    if not np.isfinite(size):
        raise SingularSystemError(
            "The linear system for the coefficients contains values that are not finite. Check "
            "the base density, the noise's covariance and the length-scales, which may be too "
            "small."
        )
    factor, failed = lapack.dpotrf(matrix, lower=True, overwrite_a=True)
    condition = 0.0 if failed else lapack.dpocon(factor, size, uplo="L")[0]
    if condition < np.finfo(float).eps:
        enough = max(1e-12, 10 * penalty, 1e-13 * size)
        raise SingularSystemError(
            "The linear system for the coefficients is singular to working precision with "
            f"penalty={penalty:g} and {len(matrix)} functions (reciprocal condition number "
            f"{condition:.1e}). Use a larger penalty, say {enough:.0e} or more, or fewer "
            "components."
        )
    return -cho_solve((factor, True), system.linear)
