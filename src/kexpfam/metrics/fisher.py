"""Fisher divergence ½ E|∇log p − ∇log p_model|², where the true gradient is known."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["fisher_divergence"]


def fisher_divergence(model: Any, X: Any, true_gradient: Any) -> float:
    """Half the mean squared distance between the model's gradient and the true one.

    Parameters
    ----------
    model : object with a method ``gradient(X)``
    X : array of shape (n_samples, n_features)
        Rows drawn from the true density.
    true_gradient : array of shape (n_samples, n_features)
        ∇log p of the true density at those rows.

    Examples
    --------
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.metrics import fisher_divergence
    >>> banana = make_density("banana")
    >>> X = banana.sample(100, random_state=0)
    >>> fisher_divergence(banana, X, banana.gradient(X))
    0.0
    """
    difference = np.asarray(model.gradient(X)) - np.asarray(true_gradient)
    return float((difference**2).sum(axis=1).mean() / 2)
