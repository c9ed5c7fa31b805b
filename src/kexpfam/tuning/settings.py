"""What is tuned, and how hard."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.choices import positive_number, whole

__all__ = ["Hyperparameters", "Tuned", "Tuning"]


class Hyperparameters(NamedTuple):
    """λ, σ and the length-scales, in standardized units; None where still to be tuned.

    Parameters
    ----------
    penalty, noise_scale : float or None
    length_scale : array of shape (n_features,) or None

    Examples
    --------
    >>> from kexpfam import Hyperparameters, Tuning
    >>> tuning = Tuning(start=Hyperparameters(penalty=1e-4, noise_scale=None, length_scale=None))
    """

    penalty: float | None
    noise_scale: float | None
    length_scale: Float[np.ndarray, " d"] | None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to tune."""
        return all(value is not None for value in self)

    def filled(self, others: Tuned) -> Tuned:
        """`self`, with what is None taken from `others`."""
        return Tuned(
            others.penalty if self.penalty is None else self.penalty,
            others.noise_scale if self.noise_scale is None else self.noise_scale,
            others.length_scale if self.length_scale is None else self.length_scale,
        )


class Tuned(NamedTuple):
    """λ, σ and the length-scales, all of them known."""

    penalty: float
    noise_scale: float
    length_scale: Float[np.ndarray, " d"]


_OPEN = Hyperparameters(None, None, None)


@dataclass(frozen=True)
class Tuning:
    """Settings of the tuning (the paper's Algorithm 1, then cross-validation).

    Parameters
    ----------
    n_steps : int, default=60
        Adam steps over the hyperparameters; 0 leaves the starting values.
    learning_rate : float, default=0.1
        Adam's rate, in the logarithms of the hyperparameters.
    batch_size : int, default=1024
        Rows in each of the two mini-batches of a step.
    n_folds : int, default=5
        Folds of the cross-validation that re-chooses λ and σ afterwards; 0 leaves it out.
    sketch_size : int, default=20_000
        Distinct rows from which mini-batches are drawn and the base density is fitted.
    start : Hyperparameters, default=Hyperparameters(None, None, None)
        Where to start; what is None is taken from a rule of thumb.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, Tuning
    >>> model = KernelExponentialFamily(tuning=Tuning(n_steps=30, n_folds=10))
    """

    n_steps: int = 60
    learning_rate: float = 0.1
    batch_size: int = 1024
    n_folds: int = 5
    sketch_size: int = 20_000
    start: Hyperparameters = _OPEN

    def __repr__(self) -> str:
        """With what differs from the defaults, as scikit-learn's estimators are written."""
        given = [
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)
            if getattr(self, one.name) is not one.default and getattr(self, one.name) != one.default
        ]
        return f"Tuning({', '.join(given)})"

    def __post_init__(self) -> None:
        whole("n_steps", self.n_steps, least=0)
        whole("batch_size", self.batch_size, least=2)
        whole("sketch_size", self.sketch_size, least=2)
        if self.n_folds != 0:
            whole("n_folds", self.n_folds, least=2, otherwise="0")
        positive_number("learning_rate", self.learning_rate)
        if not isinstance(self.start, Hyperparameters):
            raise ValueError(
                "start must be Hyperparameters(penalty, noise_scale, length_scale), with None for "
                f"a rule of thumb; got {self.start!r}."
            )
