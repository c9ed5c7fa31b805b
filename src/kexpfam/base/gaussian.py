"""Gaussian base density: the rows' weighted mean and covariance.

Its score −Σ0⁻¹(x − μ0) is affine, so the noise term of the fit is exact.

The covariance of hardly more rows than columns, or of fewer, is nearly singular, and says of new
rows that they cannot be. With fewer than three rows per column it is shrunk toward equal variances
(`kexpfam.data.coordinates.shrunk_covariance`). With two, this gained 2 to 100 nats on new rows of
four tables of scikit-learn's and of three synthetic ones; with three, one of the seven lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kexpfam.base.density import require_rows
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.data.coordinates import shrunk_covariance
from kexpfam.data.sketch import Sketch

__all__ = ["GaussianBase", "too_few_for_covariances"]

_FEWEST_PER_COLUMN = 3


def too_few_for_covariances(rows: Float[np.ndarray, "n d"]) -> bool:
    """Whether a covariance of these rows says little of others."""
    return len(rows) < _FEWEST_PER_COLUMN * rows.shape[1]


@dataclass(frozen=True)
class GaussianBase:
    """A Gaussian with the rows' moments; with fewer than three rows per column, a rounder one.

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
        if too_few_for_covariances(sketch.rows):
            covariance = shrunk_covariance(covariance, float(1 / (shares**2).sum()))
        covariance += self.regularization * np.eye(len(mean))
        return GaussianMixtureDensity(np.ones(1), mean[None], covariance[None])
