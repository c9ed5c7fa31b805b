"""Which frequencies the levels get, and whether any: trials of small bases on held-out rows.

A trial solves a few levels with a few functions; its held-out losses, in nats along the flow (see
`kexpfam.solve.levels`), say what the tilt may gain and up to which noise scale. Noisy copies of the
rows and the base density's scores there are prepared once for all trials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.smoothed import SmoothedMixture
from kexpfam.features.interactions import InteractionFeatures
from kexpfam.moments.level_sums import fold_parts, n_held_out
from kexpfam.moments.levels import PreparedBlock, node_scales, prepared_blocks, sum_moments
from kexpfam.progress import Progress
from kexpfam.solve.levels import solve_levels

__all__ = ["N_COMPONENTS", "Frequencies", "Trial", "choose_frequencies"]

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
_FIRST, _HOPELESS = 2, 0.015
_SHORTER, _LONGER = (0.2, 0.1), (0.8,)
# How many functions are fitted unless told, and the nats a row that the search must gain by them:
# below, the base density is left alone, which is exact and many times faster.
N_COMPONENTS, _WORTH_A_TILT = 1024, 0.04
# A stretch of noise scales that brings less of the whole gain is left to the base density.
_SHARE_OF_GAIN = 0.01


class Trial(NamedTuple):
    """What the search for frequencies starts from: a base density and rows to judge by."""

    whitened: Float[np.ndarray, "k d"]
    weights: Float[np.ndarray, " k"]
    numbers: Int[np.ndarray, " k"]
    root: Float[np.ndarray, "d d"]
    base: SmoothedMixture
    noise_range: tuple[float, float]


class Frequencies(NamedTuple):
    """What a search has found.

    Up to the noise scale `highest` the tilt pays; `gain` is what the trial gained, in nats a row.
    """

    features: InteractionFeatures
    n_components: int
    highest: float
    gain: float


def choose_frequencies(
    trial: Trial,
    chosen: InteractionFeatures | str,
    n_components: int | str,
    generator: np.random.Generator,
    progress: Progress,
) -> Frequencies:
    """Orders, range and number of the frequencies, by what small bases gain along the flow."""
    some = slice(0, int(np.clip(_SEARCH_NUMBERS // trial.whitened.shape[1], *_SEARCH_ROWS)))
    whitened = trial.whitened[some]
    held_out = n_held_out(len(whitened))
    noise_scales = np.geomspace(*trial.noise_range, _SEARCH_LEVELS)
    folds = [
        list(blocks)
        for blocks in _prepared_folds(
            trial.base, noise_scales, whitened, trial.weights[some], trial.numbers[some], held_out
        )
    ]
    seed = int(generator.integers(2**31))
    count = min(_SEARCH_COMPONENTS, N_COMPONENTS if isinstance(n_components, str) else n_components)

    def gains(features: InteractionFeatures) -> Float[np.ndarray, " l"]:
        basis = features.build(count, trial.root, np.random.default_rng(seed))
        parts = [sum_moments(basis, blocks) for blocks in folds]
        return -solve_levels(basis, noise_scales, parts, held_out, Progress()).losses

    candidates = _FREQUENCIES if isinstance(chosen, str) else (chosen,)
    found: list[np.ndarray] = []
    for features in progress.track(candidates, "frequencies"):
        found.append(gains(features))
        if len(found) == _FIRST and max(map(np.sum, found)) < _HOPELESS:
            break
    place = int(np.argmax([one.sum() for one in found]))
    gained, best = found[place], candidates[place]
    if isinstance(chosen, str) and gained.sum() > _WORTH_A_TILT:
        for direction in (_LONGER, _SHORTER):
            start = gained
            for shortest in direction:
                other = replace(best, shortest=shortest)
                tried = gains(other)
                if tried.sum() <= gained.sum():
                    break
                gained, best = tried, other
            if gained.sum() > start.sum():
                break
    total = float(gained.sum())
    if isinstance(n_components, str):
        n_components = N_COMPONENTS if total > _WORTH_A_TILT else 0
    return Frequencies(best, n_components, _highest_worth_it(noise_scales, gained), total)


def _highest_worth_it(
    noise_scales: Float[np.ndarray, " l"], gains: Float[np.ndarray, " l"]
) -> float:
    """The upper end of the highest stretch that gains a real share of the whole."""
    worth = np.flatnonzero(gains[:-1] > _SHARE_OF_GAIN * max(float(gains.sum()), 0.0))
    return float(noise_scales[worth[-1] + 1 if len(worth) else -1])


def _prepared_folds(
    base: SmoothedMixture,
    noise_scales: Float[np.ndarray, " l"],
    whitened: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    numbers: Int[np.ndarray, " n"],
    n_held_out: int,
) -> Iterator[Iterator[PreparedBlock]]:
    """Blocks of each fold that is held out, and of all others together."""
    parts = fold_parts(numbers, int(numbers.max()) + 1, n_held_out)
    labels = parts[numbers]
    for part in np.unique(labels):
        rows, shares = whitened[labels == part], weights[labels == part]
        # One direction of noise is enough to compare by.
        yield prepared_blocks(base, node_scales(noise_scales), rows, shares, n_directions=1)
