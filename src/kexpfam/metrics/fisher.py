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
    X : array or data frame of shape (n_samples, n_features)
        Rows drawn from the true density.
    true_gradient : array of shape (n_samples, n_features)
        ∇log p of the true density at those rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.metrics import fisher_divergence
    >>> banana = make_density("banana")
    >>> X = banana.sample(100, random_state=0)
    >>> fisher_divergence(banana, X, banana.gradient(X))
    0.0
    """
    if not callable(getattr(model, "gradient", None)):
        raise TypeError(
            f"model must have a method gradient(X); got an object of type {type(model).__name__}. "
            "Are the arguments in the order model, X, true_gradient?"
        )
    found = np.asarray(model.gradient(X))
    if np.shape(true_gradient) != found.shape:
        raise ValueError(
            f"true_gradient must be an array with the shape of the rows, {found.shape}; got "
            f"{_described(true_gradient)}. It holds ∇log p of the true density at the rows of X."
        )
    difference = found - np.asarray(true_gradient)
    return float((difference**2).sum(axis=1).mean() / 2)


def _described(value: Any) -> str:
    """A shape, or what has none."""
    shape = np.shape(value)
    return f"the shape {shape}" if shape else f"an object of type {type(value).__name__}"
