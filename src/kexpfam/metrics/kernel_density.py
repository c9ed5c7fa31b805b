"""Estimators of other libraries to measure ourselves by."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

__all__ = ["cross_validated_kernel_density"]


def cross_validated_kernel_density(X: Float[np.ndarray, "n d"]) -> KernelDensity:
    """scikit-learn's kernel density estimate with its bandwidth chosen by five folds.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)

    Returns
    -------
    sklearn.neighbors.KernelDensity
        Fitted.

    Examples
    --------
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.metrics import cross_validated_kernel_density
    >>> peer = cross_validated_kernel_density(make_density("ring").sample(100, random_state=0))
    >>> peer.score_samples([[4.0, 0.0]]).shape
    (1,)
    """
    spread = float(X.std(axis=0).mean())
    search = GridSearchCV(KernelDensity(), {"bandwidth": spread * np.geomspace(0.03, 1.0, 25)})
    return search.fit(X).best_estimator_
