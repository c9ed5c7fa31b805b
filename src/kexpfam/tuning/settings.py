"""What is tuned, and how hard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["Hyperparameters", "Tuned", "Tuning"]


class Hyperparameters(NamedTuple):
    """λ, σ and the length-scales, in standardised units; None where still to be tuned."""

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
    """λ, σ and the length-scales, all settled."""

    penalty: float
    noise_scale: float
    length_scale: Float[np.ndarray, " d"]


_OPEN = Hyperparameters(None, None, None)


@dataclass(frozen=True)
class Tuning:
    """Settings of the tuning (the paper's Algorithm 1, then cross-validation).

    Parameters
    ----------
    n_steps : int
        Adam steps over the hyper-parameters; 0 leaves the starting values.
    learning_rate : float
        Adam's rate, in the logarithms of the hyper-parameters.
    batch_size : int
        Rows in each of the two mini-batches of a step.
    n_folds : int
        Folds of the cross-validation that re-chooses λ and σ afterwards; 0 leaves it out.
    sketch_size : int
        Distinct rows from which mini-batches are drawn and the base density is fitted.
    start : Hyperparameters
        Where to start; what is None is taken from a rule of thumb.
    """

    n_steps: int = 60
    learning_rate: float = 0.1
    batch_size: int = 1024
    n_folds: int = 5
    sketch_size: int = 20_000
    start: Hyperparameters = _OPEN

    def __post_init__(self) -> None:
        if self.n_steps < 0 or self.batch_size < 2 or self.sketch_size < 2:
            raise ValueError(
                "Tuning needs n_steps ≥ 0, batch_size ≥ 2 and sketch_size ≥ 2; got "
                f"n_steps={self.n_steps}, batch_size={self.batch_size}, "
                f"sketch_size={self.sketch_size}."
            )
        if self.n_folds == 1 or self.n_folds < 0:
            raise ValueError(f"n_folds must be 0 or at least 2; got {self.n_folds}.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive; got {self.learning_rate}.")
