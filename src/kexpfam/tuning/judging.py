"""Choices on held-out rows: the penalty of a tilt, and whether to tilt at all.

Penalties are walked from strong to weak; the best is taken. What a tilt is worth is judged by log
densities of held-out rows under the density with and without it, each with the penalty that rows of
*other* folds chose, so that no row judges what it has chosen. A tilt makes bells narrower where
rows look alike; the tilted density is stretched until nine tenths of the held-out rows lie inside
its 90 % intervals again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.model.at_rows import AtRows, location_at_rows
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.health import beyond_doubt
from kexpfam.progress import Progress
from kexpfam.tuning.gate import mean_and_error
from kexpfam.tuning.held_out import COVERAGE, PENALTIES, Fold, Ground, covering

__all__ = ["Judged", "judge", "log_densities"]

# Rows of a single fold take turns: one part chooses the penalty that judges the others.
_TURNS = 4
# A path is left when so many penalties in a row gained no more than this number of nats.
_PATIENCE, _LEAST_GAIN = 2, 1e-3


class Judged(NamedTuple):
    """Log densities of held-out rows, with and without a tilt.

    Rows of one turn judge together. `densities` are those of the folds with the best tilt, and
    `at` what they stand on at the rows of their folds.
    """

    penalty: float
    stretch: float
    tilted: Float[np.ndarray, " n"]
    base: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    turns: Int[np.ndarray, " n"]
    densities: list[ConditionalDensity]
    at: list[AtRows]

    @property
    def start(self) -> Float[np.ndarray, "m k"]:
        """Where the tilt of all rows begins: the mean of the folds' tilts."""
        return np.mean([density.coefficients for density in self.densities], axis=0)

    def gain(self) -> tuple[float, float]:
        """What the tilt gains per row, and its standard error."""
        return mean_and_error(self.tilted - self.base, self.weights)

    @property
    def wins(self) -> bool:
        """Whether the tilt is better significantly, as `Comparison` says of all models."""
        return beyond_doubt(*self.gain())


def judge(folds: list[Fold], ground: Ground, progress: Progress) -> Judged:
    """The penalty that held-out rows prefer, and its worth to rows that did not choose it."""
    places = np.concatenate([fold.places for fold in folds])
    weights = np.concatenate([fold.judges.weights for fold in folds])
    if len(folds) > 1:
        turns = np.repeat(np.arange(len(folds)), [len(fold.places) for fold in folds])
    else:
        turns = places % _TURNS
    logs: list[Float[np.ndarray, " n"]] = []
    densities: list[list[ConditionalDensity]] = []
    at = [
        location_at_rows(fold.left.location, ground.functions, fold.judges.inputs) for fold in folds
    ]
    # Folds go along the path side by side.
    paths = [_path(fold, ground) for fold in folds]
    for _ in progress.track(range(1 + len(PENALTIES)), "penalties"):
        densities.append([next(path) for path in paths])
        logs.append(log_densities(densities[-1], folds, at))
        if _stopped_gaining([float(np.average(one, weights=weights)) for one in logs[1:]]):
            break
    tilted = np.stack(logs[1:], axis=1)
    chosen = np.zeros(len(turns), int)
    for turn in np.unique(turns):
        others = turns != turn
        if others.any():
            chosen[~others] = _best(tilted[others], weights[others])
    picked = np.take_along_axis(tilted, chosen[:, None], 1)[:, 0]
    best = _best(tilted, weights)
    ratios = [
        density.stretches(seen, fold.judges.y, COVERAGE)
        for density, fold, seen in zip(densities[1 + best], folds, at, strict=True)
    ]
    stretch = max(1.0, covering(np.concatenate(ratios), weights))
    # What the stretch costs is counted.
    stretched = [replace(one, stretch=stretch) for one in densities[1 + best]]
    picked = picked + log_densities(stretched, folds, at) - tilted[:, best]
    return Judged(PENALTIES[best], stretch, picked, logs[0], weights, turns, stretched, at)


def log_densities(
    densities: list[ConditionalDensity], folds: list[Fold], at: list[AtRows]
) -> Float[np.ndarray, " n"]:
    """Log densities of the rows of every fold, by the density fitted without them."""
    return np.concatenate(
        [
            density.log_density(seen, fold.judges.y)
            for density, fold, seen in zip(densities, folds, at, strict=True)
        ]
    )


def _stopped_gaining(means: list[float]) -> bool:
    """Whether the last penalties were hardly better than those before."""
    before, last = means[:-_PATIENCE], means[-_PATIENCE:]
    return bool(before) and max(last) < max(before) + _LEAST_GAIN


def _best(logs: Float[np.ndarray, "n p"], weights: Float[np.ndarray, " n"]) -> int:
    return int((weights @ logs).argmax())


def _path(fold: Fold, ground: Ground) -> Iterator[ConditionalDensity]:
    """The base density without the fold's rows, then one for each penalty."""
    density = ground.density(fold.left.location, ground.no_tilt)
    yield density
    for coefficients in ground.tilts(fold.others, fold.left.rescaled(ground.factor), PENALTIES):
        yield replace(density, coefficients=coefficients)
