"""Stage 6: coefficients from the quadratic objective."""

from kexpfam.solve.path import RidgePath, ridge_path
from kexpfam.solve.ridge import solve_ridge, system_at

__all__ = ["RidgePath", "ridge_path", "solve_ridge", "system_at"]
