"""Values of a whole number that go with a category, beside its distribution given all columns.

A category can name the value of a number (a degree its years of school), or make a few values
frequent (a tax bracket some gains). Where a category z was seen n_z times, c_zl of them with the
value l, and q(l | x) is what mixture, bell and tilt say,

    P(l | z, x) = [max(c_zl − δ, 0) + (θ + δ k_z) q(l | x)] / (n_z + θ)

is what a Pitman–Yor process around q foresees that has seen the k_z values of z which are kept;
rows with other values are left to q. Where the category is not known it is q itself.

| symbol            | name   | shape  |
|-------------------|--------|--------|
| l                 | values | (v,)   |
| max(c_zl − δ, 0)  | masses | (z, v) |
| n_z + θ           | totals | (z,)   |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["LevelFrequencies"]


class LevelFrequencies(NamedTuple):
    """What was seen with each level of the category that has this place."""

    place: int
    values: Float[np.ndarray, " v"]
    masses: Float[np.ndarray, "z v"]
    totals: Float[np.ndarray, " z"]

    def stacked(
        self,
        logs: Float[np.ndarray, " n"],
        codes: Float[np.ndarray, "n c"],
        numbers: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, " n"]:
        """log P of numbers with these log masses under q."""
        levels, known = self._levels(codes)
        column = np.minimum(np.searchsorted(self.values, np.rint(numbers)), len(self.values) - 1)
        seen = known & (self.values[column] == np.rint(numbers))
        own = np.where(seen, self.masses[levels, column], 0.0) / self.totals[levels]
        left = np.where(known, self._left[levels], 1.0)
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(own), np.log(left) + logs)

    def drawn(
        self, codes: Float[np.ndarray, "n c"], uniform: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Values, NaN where q draws; and uniform numbers that q draws by."""
        levels, known = self._levels(codes)
        left = np.where(known, self._left[levels], 1.0)
        by_level = uniform < 1 - left
        column = np.empty(len(levels), np.int64)
        for level in np.unique(levels):
            own, sums = levels == level, np.cumsum(self.masses[level])
            column[own] = np.searchsorted(sums, uniform[own] * self.totals[level], side="right")
        values = self.values[np.minimum(column, len(self.values) - 1)]
        rest = np.clip((uniform - (1 - left)) / np.maximum(left, 1e-300), 0.0, 1.0)
        return np.where(by_level, values, np.nan), rest

    @property
    def _left(self) -> Float[np.ndarray, " z"]:
        """The share of q."""
        return np.maximum(1 - self.masses.sum(axis=1) / self.totals, 0.0)

    def _levels(self, codes: Float[np.ndarray, "n c"]) -> tuple[np.ndarray, np.ndarray]:
        own = codes[:, self.place]
        known = ~np.isnan(own)
        return np.where(known, own, 0.0).astype(int), known
