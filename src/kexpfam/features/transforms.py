"""Non-uniform fast Fourier transforms of several real strengths at the same points, by finufft.

    T_s(k) = Σ_a strength_sa exp(i k·angle_a),   integers |k_j| ≤ reach

Real strengths travel in pairs u + iv: their transforms have U(−k) = conj U(k), which tells them
apart, so two cost one transform, and the points are sorted once for all.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from jaxtyping import Complex, Float

__all__ = ["lattice_transforms", "require_finufft"]

_ACCURACY = 1e-12


def lattice_transforms(
    angles: Float[np.ndarray, "n d"], strengths: Float[np.ndarray, "s n"], reach: int
) -> Complex[np.ndarray, "s l"]:
    """Σ_a strength_a exp(i k·angle_a) for all integers |k_j| ≤ reach, in lexicographic order."""
    # At equal sizes neither of a pair drowns in the other's rounding.
    sizes = np.abs(strengths).sum(axis=1)
    sizes[sizes == 0] = 1.0
    count, n_rows = strengths.shape
    pairs = np.zeros((count + count % 2, n_rows))
    np.divide(strengths, sizes[:, None], out=pairs[:count])
    packed = pairs[::2] + 1j * pairs[1::2]
    n_columns = angles.shape[1]
    plan = require_finufft().Plan(1, (2 * reach + 1,) * n_columns, len(packed), _ACCURACY, isign=1)
    plan.setpts(*np.ascontiguousarray(angles.T))
    found = plan.execute(packed if len(packed) > 1 else packed[0]).reshape(len(packed), -1)
    mirrored = found[:, ::-1].conj()
    table = np.empty((len(pairs), found.shape[1]), complex)
    table[::2], table[1::2] = (found + mirrored) / 2, (found - mirrored) / 2j
    return table[:count] * sizes[:, None]


def require_finufft() -> Any:
    """The module, or an error that says how to get it."""
    try:
        return importlib.import_module("finufft")
    except ImportError as error:
        raise ImportError(
            "basis='grid' needs finufft, for its Fourier transforms: pip install 'kexpfam[grid]'. "
            "Or take basis='fourier'."
        ) from error
