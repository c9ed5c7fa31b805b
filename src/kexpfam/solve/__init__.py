"""Stage 6: coefficients from the quadratic objective."""

from kexpfam.solve.path import ridge_path
from kexpfam.solve.ridge import penalty_matrix_of, solve_ridge, system_at
from kexpfam.solve.whiten import unwhitened, whitened

__all__ = [
    "penalty_matrix_of",
    "ridge_path",
    "solve_ridge",
    "system_at",
    "unwhitened",
    "whitened",
]
