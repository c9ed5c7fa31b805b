"""From a statistic and draws of its distribution under the model to a p-value.

    p = (1 + #{draws ≥ statistic}) / (1 + #draws)

is never zero, and under the model at most α with probability α, whatever the number of draws
(Davison and Hinkley, "Bootstrap methods and their application", 1997, section 4.2).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kexpfam.goodness_of_fit.observed import Observed

__all__ = ["checked_statistic", "tail_share"]


def tail_share(statistic: float, null_draws: Float[np.ndarray, " draws"]) -> float:
    """The share of draws at or above the statistic, itself counted among them."""
    return float((1 + np.count_nonzero(null_draws >= statistic)) / (1 + len(null_draws)))


def checked_statistic(statistic: float, observed: Observed) -> float:
    """The statistic, if the numbers it is made of did not overflow."""
    if not np.isfinite(statistic):
        raise ValueError(
            "Expected gradients whose squares can be summed; with entries up to "
            f"{np.abs(observed.gradients).max():.3g} they overflow. Bring the columns to a scale "
            "near one, or remove the rows where the model's density is steepest."
        )
    return statistic
