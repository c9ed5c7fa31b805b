"""Mixtures of very many rows: improved with all of them, and enlarged while that pays.

The mixtures of a sample are continued by expectation–maximization, with sums over rows that are
read chunk by chunk, in a few passes. Twice the size is tried as long as rows that have no part in
the mixtures gain from it.

| name   | shape | meaning                                            |
|--------|-------|----------------------------------------------------|
| logs   | (j,)  | log densities of the rows that judge sizes         |
| gain   |       | what twice as many components add to them, in nats a row |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.averaged import Average, AverageSearch
from kexpfam.base.monomial_tables import StreamedTable
from kexpfam.base.shrunk import improved_mixtures
from kexpfam.data.rows import RowSource
from kexpfam.progress import Progress
from kexpfam.tuning.gate import mean_and_error

__all__ = ["PASSES", "SizeJudges", "grown_average", "refitted_average"]

# Passes over the rows for each size.
PASSES = 4
# Rows for each component at least, and nats a row that twice as many components must gain: every
# row that is scored later meets them.
_ROWS_PER_COMPONENT, _LEAST_GAIN = 32, 0.01


class SizeJudges(NamedTuple):
    """Rows that have no part in the mixtures: their log densities, as a function, and weights."""

    logs: Callable[[Average], Float[np.ndarray, " j"]]
    weights: Float[np.ndarray, " j"]


def grown_average(
    average: Average,
    search: AverageSearch,
    sources: Sequence[RowSource],
    begun: Callable[[AverageSearch], Average],
    judges: SizeJudges,
    largest: int,
    progress: Progress,
) -> tuple[Average, AverageSearch]:
    """Mixtures of the rows of sources, of a size that the judges prefer.

    `begun` fits mixtures of another size to the sample, `largest` is the most components of one.
    """
    table = StreamedTable(sources, search.pseudo_rows)
    best = _improved(average, table, search, PASSES)
    logs = judges.logs(best)
    while 2 * search.n_components <= min(largest, table.count / _ROWS_PER_COMPONENT):
        larger = search._replace(n_components=2 * search.n_components)
        progress.stage(f"{larger.n_components} components")
        average = _improved(begun(larger), table, larger, PASSES)
        others = judges.logs(average)
        gain, error = mean_and_error(others - logs, judges.weights)
        if gain <= max(error, _LEAST_GAIN):
            break
        held_out = float(np.average(others, weights=judges.weights))
        best, logs, search = average, others, larger._replace(held_out=held_out)
    return best, search


def refitted_average(
    average: Average, search: AverageSearch, sources: Sequence[RowSource], passes: int
) -> Average:
    """The mixtures, improved with the rows of sources."""
    return _improved(average, StreamedTable(sources, search.pseudo_rows), search, passes)


def _improved(
    average: Average, table: StreamedTable, search: AverageSearch, passes: int
) -> Average:
    return Average(tuple(improved_mixtures(average.mixtures, table, search.shrinkage, passes)))
