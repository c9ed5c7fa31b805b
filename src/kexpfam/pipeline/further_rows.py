"""Rows beyond the sketch, and the mixtures of a diffusion that are fitted to them.

Their keys are larger than the last one of the sketch. They are whitened once and stored
(`kexpfam.pipeline.prepare.stored_rows`). Mixtures are fitted to them and to the rows of the sketch
except one fold, which judges sizes (`kexpfam.tuning.growing`).

| name     | shape  | meaning                              |
|----------|--------|--------------------------------------|
| whitened | (k, d) | rows of the sketch that do not judge the density |
| folds    | (k,)   | their folds                          |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.averaged import Average, AverageSearch, fit_average
from kexpfam.data.coordinates import Coordinates
from kexpfam.data.rows import ArrayRows, Chunk, RowSource, make_chunk
from kexpfam.data.sketch import Sketching
from kexpfam.data.ties import spread_ties
from kexpfam.progress import Progress
from kexpfam.tuning.growing import SizeJudges, grown_average

__all__ = ["Further", "grown_by"]

# Components of a mixture at most: every step of a flow meets all of them.
_LARGEST = 512


@dataclass(frozen=True)
class Further:
    """A function of chunks: rows beyond the sketch, spread over their ties and whitened."""

    sketching: Sketching
    gaps: Float[np.ndarray, " d"]
    coordinates: Coordinates
    last_key: int

    def __call__(self, chunk: Chunk) -> Chunk:
        keys = self.sketching.keys(chunk.rows)
        kept = (keys > np.uint64(self.last_key)) & (chunk.weights > 0)
        if not kept.any():
            return make_chunk(chunk.rows[:0], np.zeros(0))
        rows = spread_ties(chunk.rows[kept], keys[kept], self.gaps)
        return make_chunk(self.coordinates.forward(rows), chunk.weights[kept])


def grown_by(
    further: RowSource,
    average: Average,
    search: AverageSearch,
    whitened: Float[np.ndarray, "k d"],
    weights: Float[np.ndarray, " k"],
    folds: Int[np.ndarray, " k"],
    seed: int,
    progress: Progress,
) -> tuple[Average, AverageSearch]:
    """Mixtures of further rows and of those of the sketch but the first fold, which judges."""
    judging = folds == folds.min()
    judges, own, shares = whitened[judging], whitened[~judging], weights[~judging]

    def begun(larger: AverageSearch) -> Average:
        return fit_average(own, shares, larger, seed)

    def logs(one: Average) -> Float[np.ndarray, " j"]:
        return one.density(far=True).log_density(judges)

    return grown_average(
        average,
        search,
        [further, ArrayRows(own, shares)],
        begun,
        SizeJudges(logs, weights[judging]),
        _LARGEST,
        progress,
    )
