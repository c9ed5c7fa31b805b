"""Coefficients of the tilt from sums of rows: in closed form, or the likeliest ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.base import BaseDensity
from kexpfam.exceptions import SingularSystemError
from kexpfam.features import Basis
from kexpfam.noise import Noise
from kexpfam.solve import penalty_matrix_of, solve_ridge, system_at
from kexpfam.solve.joint import joint_problem

__all__ = ["Coefficients", "require_means"]


class Coefficients:
    """β as a function of the penalty."""

    def __init__(
        self,
        basis: Basis,
        base: BaseDensity,
        moments: Any,
        noise: Noise,
        noise_scale: float,
        solution: str,
    ) -> None:
        self._system = system_at(basis, moments, noise, noise_scale)
        self._matrix = penalty_matrix_of(basis)
        self._problem = None
        if solution == "likelihood":
            require_means(basis, noise)
            self._problem = joint_problem(basis, base)
            self._mean = basis.mean_features(moments)

    def __call__(self, penalty: float) -> Float[np.ndarray, " m"]:
        """For a penalty; zeros for an infinite one."""
        if self._problem is None or np.isinf(penalty):
            return solve_ridge(self._system, penalty, self._matrix)
        try:
            start = solve_ridge(self._system, penalty, self._matrix)
        except SingularSystemError:
            start = np.zeros(len(self._mean))
        return self._problem.likeliest(self._mean, penalty, start)


def require_means(basis: Basis, noise: Noise) -> None:
    """Raise where the rows' sums do not hold the means that a likelihood is made of."""
    if basis.keeps_means and noise.enters == "in closed form":
        return
    raise ValueError(
        "solution='likelihood' needs basis='fourier' or 'grid', and a noise that is averaged in "
        "closed form or none: the means of these functions over the rows are all that it takes. "
        f"Got {type(basis).__name__} and {type(noise).__name__}. Use one of these, or "
        "solution='closed_form'."
    )
