"""What was found to pay for a number of a chain beside its mixture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.location import LeftOut, LocationSums
from kexpfam.features.inputs import InputFunctions
from kexpfam.model.chain_terms import NumberTerm
from kexpfam.solve.conditional import TiltProblem

__all__ = [
    "FAST",
    "LEAST_GAIN",
    "LEAST_STEP",
    "POINTS",
    "STEPS",
    "THOROUGH",
    "Effort",
    "FrequencyChoice",
    "NumberChoice",
    "SolvedSums",
    "TiltChoice",
]

# Points of a location, steps for each penalty, and nats a row that a bell or a tilt must gain.
POINTS, STEPS, LEAST_GAIN = 256, 25, 0.003
# A step that gains less is the last one for a penalty: the next continues from there, and a fit to
# more rows begins where one to most of them ended.
LEAST_STEP = 1e-4


class Effort(NamedTuple):
    """How much is tried for numbers.

    `further_points` are more points of a location, and the nats a row that the last step must have
    gained for them; `tuning_rows` is how many rows tune a kernel at most; `rival_gain` is what a
    bell must gain so that rivals of its kernel are tried; `orders` says whether another order of
    the numbers is compared with that of the table.
    """

    further_points: tuple[tuple[int, float], ...]
    tuning_rows: int
    rival_gain: float
    orders: bool


# What the last step must have gained is about twice what the next one gains.
THOROUGH = Effort(((512, 0.0), (1024, 0.02), (2048, 0.1)), 1000, 0.3, True)
FAST = Effort((), 320, 1.0, False)


class TiltChoice(NamedTuple):
    """A penalty that held-out rows prefer, what they gain, and where a fit to more rows begins."""

    functions: InputFunctions
    penalty: float
    coefficients: Float[np.ndarray, "m k"]
    gain: float

    def fitted_to(self, problem: TiltProblem) -> Float[np.ndarray, "m k"]:
        """The coefficients of a problem with these functions."""
        path = problem.turned().path([self.penalty], STEPS, self.coefficients, LEAST_STEP)
        return next(path)


class SolvedSums(NamedTuple):
    """Sums of a location with points, and axes along which k(P, P) is the identity.

    `left_out` is where the others predict each of the rows of the sums.
    """

    sums: LocationSums
    axes: Float[np.ndarray, "p q"]
    left_out: LeftOut


class FrequencyChoice(NamedTuple):
    """A category whose frequencies of values pay, and how far they are trusted."""

    place: int
    discount: float
    strength: float


class NumberChoice(NamedTuple):
    """What was found to pay for a number.

    `term` is what it was found with: a bell of the rows that were used, and a tilt of those
    that were not held out. `sums` are those of its location, if that has fewer points than rows.
    `gain` is what bell and tilt gained on rows that were left or held out, in nats a row.
    """

    share: float = 0.0
    wide_share: float = 0.0
    tilt: TiltChoice | None = None
    term: NumberTerm = NumberTerm()
    sums: SolvedSums | None = None
    frequencies: FrequencyChoice | None = None
    gain: float = 0.0
