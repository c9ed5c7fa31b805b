"""Which frequencies a ladder gets, and whether any: trials of small bases on held-out rows.

A trial solves a few levels with a few functions and sums the held-out denoising losses J as
−2σ²J dt, which is the gain in log-likelihood along the flow. Noisy copies of the rows and the base
density's scores there are prepared once for all trials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.features.interactions import InteractionFeatures
from kexpfam.ladder.levels import solve_levels
from kexpfam.ladder.mixture import SmoothedMixture
from kexpfam.ladder.moments import LadderMoments, PreparedBlock, prepared_blocks, sum_moments
from kexpfam.ladder.sums import fold_parts, n_directions, n_held_out
from kexpfam.progress import Progress

__all__ = ["N_COMPONENTS", "Trial", "choose_features"]

# Rows times columns, within limits.
_SEARCH_NUMBERS, _SEARCH_ROWS = 100_000, (2500, 10_000)
_SEARCH_COMPONENTS = 512
_SEARCH_LEVELS = 5
_FREQUENCIES = (
    InteractionFeatures(orders=(1, 2, 3), along_axes=0.0),
    InteractionFeatures(orders=(2,), along_axes=0.0),
    InteractionFeatures(),
    InteractionFeatures(orders=(1, 2), shortest=0.1, along_axes=0.25),
)
# Where the first ones gain less than this, the others will not gain enough.
_FIRST, _HOPELESS = 2, 0.03
_SHORTER, _LONGER = (0.2, 0.1), (0.8,)
# How many functions are fitted unless told, and the nats a row that the search must gain by them:
# below, the base density is left alone, which is exact and many times faster.
N_COMPONENTS, _WORTH_A_TILT = 1024, 0.1


class Trial(NamedTuple):
    """What the search for frequencies starts from: a base density and rows to judge by."""

    whitened: Float[np.ndarray, "k d"]
    weights: Float[np.ndarray, " k"]
    numbers: Int[np.ndarray, " k"]
    root: Float[np.ndarray, "d d"]
    base: SmoothedMixture
    noise_range: tuple[float, float]


def choose_features(
    trial: Trial,
    chosen: InteractionFeatures | str,
    n_components: int | str,
    generator: np.random.Generator,
    progress: Progress,
) -> tuple[InteractionFeatures, int]:
    """Orders, range and number of the frequencies, by what small bases gain along the flow."""
    if not isinstance(chosen, str) and not isinstance(n_components, str):
        return chosen, n_components
    some = slice(0, int(np.clip(_SEARCH_NUMBERS // trial.whitened.shape[1], *_SEARCH_ROWS)))
    whitened = trial.whitened[some]
    held_out = n_held_out(len(whitened))
    noise_scales = np.geomspace(*trial.noise_range, _SEARCH_LEVELS)
    step = np.log(noise_scales[1] / noise_scales[0])
    folds = [
        list(blocks)
        for blocks in _prepared_folds(
            trial.base, noise_scales, whitened, trial.weights[some], trial.numbers[some], held_out
        )
    ]
    seed = int(generator.integers(2**31))
    count = min(_SEARCH_COMPONENTS, N_COMPONENTS if isinstance(n_components, str) else n_components)

    def gain(features: InteractionFeatures) -> float:
        basis = features.build(count, trial.root, np.random.default_rng(seed))
        parts: list[LadderMoments] = [sum_moments(basis, blocks) for blocks in folds]
        levels = solve_levels(basis, noise_scales, parts, held_out, Progress())
        return -2 * step * float(np.minimum(levels.losses, 0) @ noise_scales**2)

    candidates = _FREQUENCIES if isinstance(chosen, str) else (chosen,)
    gains: list[float] = []
    for features in progress.track(candidates, "frequencies"):
        gains.append(gain(features))
        if len(gains) == _FIRST and max(gains) < _HOPELESS:
            break
    gained, best = max(gains), candidates[int(np.argmax(gains))]
    if isinstance(chosen, str) and gained > _WORTH_A_TILT:
        for direction in (_LONGER, _SHORTER):
            start = gained
            for shortest in direction:
                other = replace(best, shortest=shortest)
                found = gain(other)
                if found <= gained:
                    break
                gained, best = found, other
            if gained > start:
                break
    if isinstance(n_components, str):
        n_components = N_COMPONENTS if gained > _WORTH_A_TILT else 0
    return best, n_components


def _prepared_folds(
    base: SmoothedMixture,
    noise_scales: Float[np.ndarray, " l"],
    whitened: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    numbers: Int[np.ndarray, " n"],
    n_held_out: int,
) -> Iterator[Iterator[PreparedBlock]]:
    """Blocks of each fold that is held out, and of all others together."""
    labels, copies = fold_parts(numbers, n_held_out)[numbers], n_directions(len(whitened))
    for part in np.unique(labels):
        rows, shares = whitened[labels == part], weights[labels == part]
        yield prepared_blocks(base, noise_scales, rows, shares, copies)
