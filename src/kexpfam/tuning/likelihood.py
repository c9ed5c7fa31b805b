"""Length-scale and penalty of the likeliest tilt, on folds of rows.

The rows of every fold judge the tilt that the others find likeliest (see `kexpfam.solve.joint`), by
the mean of its log density over the base density's. Penalties are walked from strong to weak until
held-out rows stop gaining, and length-scales from a middling one toward the better neighbor.
Where nothing gains, the penalty is infinite: the base density is the best model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base import BaseDensity
from kexpfam.data.sketch import Sketch, number_folds
from kexpfam.features import Basis
from kexpfam.features.at_rows import features_at
from kexpfam.progress import Progress
from kexpfam.solve.joint import joint_problem
from kexpfam.tuning.settings import Hyperparameters, Tuned

__all__ = ["choose_likeliest"]

# Length-scales that are tried, as multiples of a rule of thumb; the search begins in the middle.
# It goes two steps at a time as long as that is better, and at last one.
_FACTORS = tuple(1.6 ** (k / 2) for k in range(-8, 9))
_STRIDES = (2, 1)
_PENALTIES = tuple(10.0 ** (-1 - k / 2) for k in range(11))
# A path of at least this many penalties is left when so many in a row gained no more than so many
# nats.
_FEWEST, _PATIENCE, _LEAST_GAIN = 5, 2, 3e-4
_ROWS_AT_A_TIME = 4096


class _Best(NamedTuple):
    """The best penalty for a length-scale, and what it gained on held-out rows."""

    gain: float
    penalty: float


def choose_likeliest(
    unit_basis: Basis,
    base: BaseDensity,
    sketch: Sketch,
    given: Hyperparameters,
    thumb: Tuned,
    n_folds: int,
    progress: Progress,
) -> Tuned:
    """What is given, and the rest by held-out likelihood."""
    start = given.filled(thumb)
    if not n_folds or (given.length_scale is not None and given.penalty is not None):
        return start
    numbers = number_folds(sketch.keys, n_folds).numbers(sketch.keys)
    folds = [sketch.where(numbers == number) for number in sorted(set(numbers.tolist()))]
    length_scales, place = [start.length_scale], 0
    if given.length_scale is None:
        place = len(_FACTORS) // 2
        length_scales = [factor * start.length_scale for factor in _FACTORS]

    # Length-scales that suit some of the functions suit all of them.
    some = unit_basis.for_batch(sketch.rows[:1])  # type: ignore[arg-type]

    def best_at(number: int) -> _Best:
        return _best(some.rescaled(length_scales[number]), base, folds, given.penalty)

    found, number = _climbed(best_at, place, len(length_scales), progress)
    if found.gain > 0 and some.n_features < unit_basis.n_features:
        basis = unit_basis.rescaled(length_scales[number])
        found = _best(basis, base, folds, given.penalty)
    penalty = start.penalty
    if given.penalty is None:
        penalty = found.penalty if found.gain > 0 else float("inf")
    return Tuned(penalty, start.noise_scale, length_scales[number])


def _climbed(
    best_at: Callable[[int], _Best], place: int, count: int, progress: Progress
) -> tuple[_Best, int]:
    """The best of the places, by going from one to its better neighbor."""
    tried: dict[int, _Best] = {}
    strides = iter(_STRIDES)
    stride = next(strides)
    for _ in progress.track(range(count), "likelihood"):
        ahead = [one for one in (place - stride, place, place + stride) if 0 <= one < count]
        for one in ahead:
            if one not in tried:
                tried[one] = best_at(one)
        better = max(ahead, key=lambda one: tried[one].gain)
        if better == place:
            stride = next(strides, 0)
        place = better
        # Where nothing gains there is no direction to go in.
        if not stride or tried[place].gain <= 0:
            break
    return tried[place], place


def _best(basis: Basis, base: BaseDensity, folds: Sequence[Sketch], given: float | None) -> _Best:
    """The penalty that held-out rows gain most by, or what they gain by the given one."""
    problem = joint_problem(basis, base)
    if not problem.resolved and given is None:
        return _Best(-np.inf, np.inf)
    means = np.stack([_mean_features(basis, fold) for fold in folds])
    weights = np.array([fold.weights.sum() for fold in folds])
    shares = (1 - np.eye(len(folds))) * weights
    others = shares / shares.sum(axis=1, keepdims=True) @ means
    penalties = _PENALTIES
    if given is not None:
        penalties = (*(one for one in _PENALTIES if one > given), given)
    gains: list[float] = []
    for coefficients in problem.path(others, penalties):
        gains.append(float(np.average(problem.gains(means, coefficients), weights=weights)))
        if given is None and _stopped_gaining(gains):
            break
    if given is not None:
        return _Best(gains[-1], given)
    return _Best(max(gains), penalties[int(np.argmax(gains))])


def _stopped_gaining(gains: list[float]) -> bool:
    """Whether the last penalties were hardly better than those before."""
    before, last = gains[:-_PATIENCE], gains[-_PATIENCE:]
    return len(gains) >= _FEWEST and max(last) < max(before) + _LEAST_GAIN


def _mean_features(basis: Basis, fold: Sketch) -> Float[np.ndarray, " m"]:
    """The mean of φ, some rows at a time."""
    sums = np.zeros(basis.n_features)
    for first in range(0, len(fold.rows), _ROWS_AT_A_TIME):
        some = slice(first, first + _ROWS_AT_A_TIME)
        sums += fold.weights[some] @ features_at(basis, fold.rows[some])
    return sums / fold.weights.sum()
