"""The mixture under a chain of very many rows: chosen on some, judged by some, fitted to all.

Coordinates, size and shrinkage come from a sample of the rows (`kexpfam.tuning.table_base`). The
mixtures continue from there with the rows that do not judge (`kexpfam.tuning.growing`): with some
hundred thousand rows at first, and with all at the size that was found. So no judge has a part in a
mixture that it judges, and places in conditionals are out of sample without folds. At last the
judges join the other rows.

Missing values are drawn given the values that are present, by the sample's mixture and from a hash
of the row: every pass meets the same rows.

| symbol | name         | shape  |
|--------|--------------|--------|
| z      | rows         | (n, w), z = A⁻¹(t − shift) of noisy scores and mapped numbers t |
| A⁻¹    | inverse_root | (w, w) |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kexpfam.base.averaged import Average, AverageSearch, fit_average
from kexpfam.base.ordered import OrderedMixture
from kexpfam.data.layout import Layout
from kexpfam.data.marginals import Marginals
from kexpfam.data.rows import Chunk, RowSource, make_chunk
from kexpfam.data.sketch import content_keys
from kexpfam.model.chain_terms import Scores
from kexpfam.model.number_maps import NumberMaps
from kexpfam.progress import Progress
from kexpfam.tuning.growing import SizeJudges, grown_average
from kexpfam.tuning.table_base import BaseChoice, noisy_scores, redrawn
from kexpfam.tuning.table_rows import TableRows, table_rows

__all__ = ["Whitening", "grown_on_all", "number_logs"]

# Components of a mixture at most, and rows that judge sizes.
_LARGEST, _JUDGES = 4096, 4096


@dataclass(frozen=True)
class Whitening:
    """A function of chunks: a table's numbers as rows that mixtures are fitted to.

    Rows with keys up to that of the last judge are left out, and those beyond the last key.
    """

    layout: Layout
    gaps: Float[np.ndarray, " m"]
    scores: Scores
    marginals: Marginals
    shift: Float[np.ndarray, " w"]
    inverse_root: Float[np.ndarray, "w w"]
    mixture: OrderedMixture
    last_judge: int
    last_key: int = 2**64 - 1

    @classmethod
    def by(
        cls, choice: BaseChoice, layout: Layout, gaps: Float[np.ndarray, " m"], last_judge: int
    ) -> Whitening:
        """With the coordinates and the mixture of a choice."""
        assert choice.marginals is not None
        assert choice.average is not None
        return cls(
            layout,
            gaps,
            choice.scores,
            choice.marginals,
            choice.shift,
            np.linalg.inv(choice.root),
            choice.ordered(choice.average),
            last_judge,
        )

    def __call__(self, chunk: Chunk) -> Chunk:
        keys = content_keys(chunk.rows)
        kept = (keys > np.uint64(self.last_judge)) & (keys <= np.uint64(self.last_key))
        kept &= chunk.weights > 0
        if not kept.any():
            return make_chunk(np.zeros((0, len(self.shift))), np.zeros(0))
        folds = np.zeros(int(kept.sum()), np.int64)
        rows = table_rows(
            self.layout, chunk.rows[kept], chunk.weights[kept], keys[kept], folds, self.gaps
        )
        return make_chunk(self.of(rows), rows.weights)

    def of(self, rows: TableRows) -> Float[np.ndarray, "n w"]:
        """Rows whitened, and complete."""
        gone = np.isnan(rows.numbers)
        maps = NumberMaps(self.layout.heaps, self.marginals)
        complete = maps.scored(rows.numbers)
        filled = np.concatenate(
            [noisy_scores(rows, self.scores), self.marginals.forward(complete)], axis=1
        )
        if gone.any():
            filled = redrawn(rows, filled, self.mixture)
        return (filled - self.shift) @ self.inverse_root.T


def number_logs(
    rows: TableRows, choice: BaseChoice, mixture: OrderedMixture
) -> Float[np.ndarray, " n"]:
    """Log densities of all numbers of rows, given their categories."""
    density = choice.density(rows.layout, mixture)
    return density.number_logs(rows.parts).sum(axis=1)


def grown_on_all(
    choice: BaseChoice,
    sample: TableRows,
    rows: RowSource,
    judges: TableRows,
    progress: Progress,
) -> tuple[Average, AverageSearch]:
    """Mixtures of rows that do not judge, of a size that the judges prefer."""
    assert choice.average is not None
    few = judges.where(np.flatnonzero(judges.folds > 0)[:_JUDGES])
    white = choice.whitened()[0]

    def begun(search: AverageSearch) -> Average:
        return fit_average(white, sample.weights, search, choice.seed)

    def judged(average: Average) -> Float[np.ndarray, " j"]:
        return number_logs(few, choice, choice.ordered(average))

    return grown_average(
        choice.average,
        choice.search,
        [rows],
        begun,
        SizeJudges(judged, few.weights),
        _LARGEST,
        progress,
    )
