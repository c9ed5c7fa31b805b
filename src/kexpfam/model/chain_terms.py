"""What the terms of a chain are made of: scores of indicators, categories, numbers, their inputs.

See `kexpfam.model.chain` for the formulas.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from kexpfam.base.bell import WIDTHS
from kexpfam.base.location import Location
from kexpfam.features.inputs import InputFunctions
from kexpfam.model.level_frequencies import LevelFrequencies

__all__ = ["CategoryTerm", "Holes", "Inputs", "NumberTerm", "Scores", "Terms"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class Scores(NamedTuple):
    """A few directions in which the indicators vary most, in units of their standard deviation."""

    center: Float[np.ndarray, " u"]
    directions: Float[np.ndarray, "u s"]

    def __call__(self, indicators: Float[np.ndarray, "n u"]) -> Float[np.ndarray, "n s"]:
        return (indicators - self.center) @ self.directions


class Holes(NamedTuple):
    """Which columns were missing together in rows, and how often; of columns with flags."""

    patterns: Bool[np.ndarray, "p f"]
    shares: Float[np.ndarray, " p"]

    def drawn(self, n_rows: int, generator: np.random.Generator) -> Bool[np.ndarray, "n f"]:
        """Patterns of rows."""
        return self.patterns[generator.choice(len(self.shares), n_rows, p=self.shares)]


class CategoryTerm(NamedTuple):
    """Shares of the levels, and perhaps how they depend on the columns before."""

    log_shares: Float[np.ndarray, " k"]
    functions: InputFunctions | None
    coefficients: Float[np.ndarray, "m k"] | None

    def log_probabilities(self, inputs: Float[np.ndarray, "n i"]) -> Float[np.ndarray, "n k"]:
        """Log probabilities of all levels at rows."""
        logs = np.broadcast_to(self.log_shares, (len(inputs), len(self.log_shares)))
        if self.functions is not None and self.coefficients is not None:
            logs = logs + self.functions.combined(inputs, self.coefficients)
        return logs - logsumexp(logs, axis=1, keepdims=True)


class NumberTerm(NamedTuple):
    """What a column has beside the mixture: a bell around a location, and a tilt.

    Both are functions of the numbers before after their monotone maps, or of the `plain` ones,
    which are only standardized: a function that is smooth in a column need not be in its map.
    `share` is that of the bell beside the mixture, `wide_share` that of the bell's wide part.
    `frequencies` are those of a whole number's values with a category, beside all that.
    """

    location: Location | None = None
    factor: float = 1.0
    share: float = 0.0
    wide_share: float = 0.0
    functions: InputFunctions | None = None
    coefficients: Float[np.ndarray, "m k"] | None = None
    plain: bool = False
    frequencies: LevelFrequencies | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the column is the mixture's alone."""
        return self.location is None and self.functions is None and self.frequencies is None

    @property
    def bell_shares(self) -> Float[np.ndarray, " b"]:
        """Weights of the bell's two parts."""
        return np.array([1 - self.wide_share, self.wide_share])

    def mean_and_scale(
        self, inputs: Float[np.ndarray, "n i"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Where the bell stands, and how wide it is."""
        assert self.location is not None
        mean, variance = self.location.predict(inputs)
        return mean, self.factor * np.sqrt(variance + self.location.noise)

    def bell(
        self, inputs: Float[np.ndarray, "n i"]
    ) -> tuple[Float[np.ndarray, "n b"], Float[np.ndarray, "n b"], Float[np.ndarray, "n b"]]:
        """Log weights, centers and standard deviations of the bell's two components."""
        mean, scale = self.mean_and_scale(inputs)
        ones = np.ones((len(mean), len(WIDTHS)))
        with np.errstate(divide="ignore"):
            logs = np.log(self.bell_shares) * ones
        return logs, mean[:, None] * ones, scale[:, None] * WIDTHS

    def bell_log_density(
        self, inputs: Float[np.ndarray, "n i"], points: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """The logarithm of the bell's density at a point for each row."""
        mean, scale = self.mean_and_scale(inputs)
        squares = ((points - mean) / scale) ** 2 / 2
        with np.errstate(divide="ignore"):
            heights = np.log(self.bell_shares / WIDTHS) - _HALF_LOG_TWO_PI
        narrow, wide = (
            height - squares / width**2 for height, width in zip(heights, WIDTHS, strict=True)
        )
        return np.logaddexp(narrow, wide) - np.log(scale)

    def slopes(self, inputs: Float[np.ndarray, "n i"]) -> Float[np.ndarray, "n k"]:
        """Aᵀψ at rows."""
        assert self.functions is not None
        assert self.coefficients is not None
        return self.functions.combined(inputs, self.coefficients)


class Inputs(NamedTuple):
    """What the terms of a row depend on.

    `known` says of each number whether the columns before it are all present (then the bell
    counts); `familiar` whether those that are not were missing in training, too (then the tilt
    counts).
    """

    indicators: Float[np.ndarray, "n u"]
    mapped: Float[np.ndarray, "n m"]
    plain: Float[np.ndarray, "n m"]
    known: Bool[np.ndarray, "n m"]
    familiar: Bool[np.ndarray, "n m"]

    def before(self, number: int, plain: bool) -> Float[np.ndarray, "n i"]:
        """Indicators, and the numbers before one; zero where they are not there."""
        earlier = (self.plain if plain else self.mapped)[:, :number]
        return np.concatenate(
            [self.indicators, np.where(np.isnan(earlier), 0.0, earlier)], axis=1
        )  # fmt: skip


class Terms(NamedTuple):
    """Terms of the chain, zero where a value is missing, and numerical errors of their sums."""

    categories: Float[np.ndarray, "n c"]
    numbers: Float[np.ndarray, "n m"]
    errors: Float[np.ndarray, " n"]
