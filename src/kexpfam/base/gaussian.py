"""Gaussian base density: the rows' weighted mean and covariance.

Its score −Σ0⁻¹(x − μ0) is affine, so the noise term of the fit is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kexpfam.base.density import require_rows
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.data.sketch import Sketch

__all__ = ["GaussianBase"]


@dataclass(frozen=True)
class GaussianBase:
    """A Gaussian with the rows' moments.

    Parameters
    ----------
    regularization : float, default=1e-6
        Added to its variances, in standardized units.

    Examples
    --------
    >>> from kexpfam import GaussianBase, KernelExponentialFamily
    >>> model = KernelExponentialFamily(base=GaussianBase(regularization=1e-4))
    """

    regularization: float = 1e-6

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> GaussianMixtureDensity:
        """Fit to the sketch's weighted moments."""
        require_rows(len(sketch.rows), 2, "A Gaussian base density", "Add rows.")
        shares = sketch.weights / sketch.weights.sum()
        mean = shares @ sketch.rows
        centered = sketch.rows - mean
        covariance = (centered * shares[:, None]).T @ centered
        covariance += self.regularization * np.eye(len(mean))
        return GaussianMixtureDensity(np.ones(1), mean[None], covariance[None])
