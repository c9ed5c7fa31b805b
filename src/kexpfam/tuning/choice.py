"""The penalty and noise scale, chosen on the cross-validated surface.

The noise-free score matching loss alone can be fooled: on bounded support it falls without limit
as f bends at the edge (integration by parts leaves a boundary term there), and it does not see
mass misplaced between separated modes. So a setting must first hold its own on held-out
likelihood: at least the base density's (up to the standard error of log Z, and never more than
0.01 below), and within one standard error (of the paired difference over folds) of the best.
Among such settings the criterion decides. Where there are none, the base density itself is the
best model: f = 0, an infinite penalty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.tuning.surface import LossSurface

__all__ = ["EXCUSED_LOSS", "Choice", "choose"]


# The largest loss in mean log-likelihood that an uncertain log Z may excuse.
EXCUSED_LOSS = 0.01


class Choice(NamedTuple):
    """The chosen setting; an infinite penalty stands for the base density."""

    noise_scale: float
    penalty: float


def choose(surface: LossSurface, criterion: str) -> Choice:
    """The best admissible setting of a surface."""
    admissible = _admissible(surface)
    figures = surface.losses if criterion == "score_matching" else -surface.gains
    admissible &= np.isfinite(figures)
    row, column = np.unravel_index(np.argmin(np.where(admissible, figures, np.inf)), figures.shape)
    noise_scale = float(surface.noise_scales[row])
    if not admissible.any():
        return Choice(noise_scale, float("inf"))
    return Choice(noise_scale, float(surface.penalties[column]))


def _admissible(surface: LossSurface) -> Bool[np.ndarray, "s l"]:
    """No worse than the base on either figure, and not clearly below the best likelihood."""
    excused = np.minimum(surface.gain_errors, EXCUSED_LOSS)
    sound = ~(surface.losses >= 0) & (surface.gains > -excused)
    if not sound.any():
        return sound
    best = np.unravel_index(np.argmax(np.where(sound, surface.gains, -np.inf)), sound.shape)
    return sound & (surface.gains >= surface.gains[best] - _paired_error(surface, best))


def _paired_error(surface: LossSurface, best: tuple[np.intp, ...]) -> Float[np.ndarray, "s l"]:
    """Standard error over folds of the difference in gain to the best setting."""
    differences = surface.fold_gains - surface.fold_gains[:, best[0], best[1]][:, None, None]
    return differences.std(axis=0, ddof=1) / np.sqrt(len(differences))
