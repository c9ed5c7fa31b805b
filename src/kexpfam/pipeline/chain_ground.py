"""What a chain stands on: its rows, the mixture under it, and places in the conditionals.

Of up to 50 000 distinct rows all are used: one fold judges, and places are out of sample by folds.
Of more, a quarter (up to 50 000) judge: the terms of the chain are fitted to them and to where they
lie under mixtures of all other rows, which have not seen them (`kexpfam.tuning.large_base`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from kexpfam.base.line import OnLine
from kexpfam.base.ordered import OrderedMixture
from kexpfam.data.content_sketch import ContentSketch
from kexpfam.data.layout import Layout
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.data.sketch import number_folds, row_keys, sketch_rows
from kexpfam.data.weights import refuse_lone_weight
from kexpfam.pipeline.prepare import stored_rows
from kexpfam.progress import Progress
from kexpfam.tuning.growing import PASSES, refitted_average
from kexpfam.tuning.large_base import Whitening, grown_on_all
from kexpfam.tuning.table_base import (
    BaseChoice,
    choose_base,
    crossed_lines,
    crossed_mixtures,
    final_mixture,
)
from kexpfam.tuning.table_rows import TableRows, cell_gaps, table_rows

__all__ = [
    "MOST_ROWS",
    "N_FOLDS",
    "Ground",
    "all_rows_ground",
    "copies_apart",
    "distinct_rows",
    "judging_rows",
    "large_ground",
    "require_distinct_rows",
]

# Distinct rows that choices are made on, and that terms are fitted to.
MOST_ROWS = 50_000
N_FOLDS = 5
# Of more rows, one in this many is a judge.
_ONE_JUDGE_OF = 4
# Rows that sizes are tried with; all, if these are nearly all. Passes when the judges have joined.
_GROWING_ROWS, _NEARLY_ALL, _LAST_PASSES = 200_000, 0.8, 2
# Fewer distinct rows cannot be fitted; with fewer than the second, none are held out to judge.
_FEWEST_ROWS, _FEWEST_ROWS_OF_NUMBERS, _FEWEST_TO_JUDGE = 2, 4, 50
# Components of a mixture at most, where rows are in memory.
_LARGEST = 2048
# Rows that are copies are kept apart from so many on average, in so many parts at the most.
_COPIES_PER_ROW, _MOST_PARTS = 2, 50
# What stands for a missing value in a row's key.
_HOLE = 12345.678


class Ground(NamedTuple):
    """What the terms of a chain are fitted beside.

    `judged_mixture` has not seen fold 0, `last` has seen all rows, and `mixtures` are for the rows
    of each fold, which they have not seen. `seen` are the smallest and the largest of the mapped
    numbers, where rows are more than those here.
    """

    base: BaseChoice
    judged: bool
    judged_mixture: OrderedMixture | None
    last: OrderedMixture | None
    mixtures: dict[int, OrderedMixture]
    seen: Float[np.ndarray, "two m"] | None = None

    def lines(self, rows: TableRows) -> list[OnLine]:
        """Where each number of some rows lies in its conditional, out of sample."""
        return crossed_lines(rows, self.base, self.mixtures) if self.judged else []

    def in_order(self, order: Sequence[int]) -> Ground:
        """The same with the numbers in another order."""
        places = self.base.places_in(order)

        def ordered(mixture: OrderedMixture | None) -> OrderedMixture | None:
            return None if mixture is None else mixture.in_order(places)

        return Ground(
            self.base.in_order(order),
            self.judged,
            ordered(self.judged_mixture),
            ordered(self.last),
            {fold: mixture.in_order(places) for fold, mixture in self.mixtures.items()},
            None if self.seen is None else self.seen[:, order],
        )


def all_rows_ground(
    rows: TableRows,
    marginals: MarginalKind | Literal["auto"],
    seed: int,
    progress: Progress,
    *,
    crossed: bool = True,
) -> Ground:
    """From rows that are all there are, with mixtures for the rows of each fold if wanted."""
    judged = len(rows.weights) >= _FEWEST_TO_JUDGE
    others = rows.folds > 0 if judged else np.ones(len(rows.weights), bool)
    base = choose_base(rows, others, marginals, seed, progress, _LARGEST)
    mixtures = crossed_mixtures(rows, base, progress) if judged and crossed else {}
    mixture = None if base.average is None else base.ordered(base.average)
    return Ground(base, judged, mixture, final_mixture(rows, base), mixtures)


def judging_rows(layout: Layout, sketch: ContentSketch) -> TableRows:
    """The rows of a sketch that judge."""
    most = int(min(MOST_ROWS, _distinct_count(sketch) / _ONE_JUDGE_OF))
    return _as_table(layout, sketch, slice(0, most))


def _distinct_count(sketch: ContentSketch) -> float:
    """About how many distinct rows there are: their keys are spread evenly."""
    return len(sketch.keys) / (float(sketch.keys[-1]) / 2.0**64)


def _as_table(layout: Layout, sketch: ContentSketch, chosen: slice) -> TableRows:
    some = sketch.where(chosen)
    folds = number_folds(some.keys, N_FOLDS).numbers(some.keys)
    return table_rows(
        layout, some.rows, some.weights, some.keys, folds, cell_gaps(layout, sketch.rows)
    )


def large_ground(
    judges: TableRows,
    sketch: ContentSketch,
    source: RowSource,
    marginals: MarginalKind | Literal["auto"],
    seed: int,
    progress: Progress,
) -> Ground:
    """From more rows than are looked at one by one."""
    layout, n_judges = judges.layout, len(judges.keys)
    sample = _as_table(layout, sketch, slice(n_judges, n_judges + MOST_ROWS))
    everything = np.ones(len(sample.weights), bool)
    base = choose_base(sample, everything, marginals, seed, progress, _LARGEST)
    if base.average is None:
        return Ground(base, True, None, None, {})
    gaps = cell_gaps(layout, sketch.rows)
    whitening = Whitening.by(base, layout, gaps, int(judges.keys[-1]))
    outside = stored_rows(source, whitening, progress)
    growing = outside
    share = (n_judges + _GROWING_ROWS) / _distinct_count(sketch)
    if share < _NEARLY_ALL:
        some = replace(whitening, last_key=int(share * 2.0**64))
        growing = stored_rows(source, some, progress)
    average, search = grown_on_all(base, sample, growing, judges, progress)
    if growing is not outside:
        average = refitted_average(average, search, [outside], PASSES)
    own = ArrayRows(whitening.of(judges), judges.weights)
    last = base.ordered(refitted_average(average, search, [outside, own], _LAST_PASSES))
    mixture = base.ordered(average)
    base = base._replace(search=search)
    box = np.stack([sketch.low, sketch.high])[:, np.array(layout.numerics, int)]
    seen = base.density(layout, None).mapped(box)
    return Ground(base, True, mixture, last, dict.fromkeys(range(N_FOLDS), mixture), seen)


def distinct_rows(
    layout: Layout, codes: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], seed: int
) -> tuple[TableRows, Int[np.ndarray, " k"]]:
    """Copies of a row are one, with the sum of their weights; and the folds of all rows that have
    a weight.
    """
    kept = weights > 0
    codes, weights = codes[kept], weights[kept]
    whole = np.where(np.isnan(codes), _HOLE, codes)
    # Sorted before anything is summed, so that the order of the rows changes no last digit.
    order = np.lexsort(whole.T)
    codes, weights, whole = codes[order], weights[order], whole[order]
    first = np.append(True, (np.diff(whole, axis=0) != 0).any(axis=1))
    totals = np.add.reduceat(weights, np.flatnonzero(first))
    codes = codes[first]
    keys = _keys_of_distinct(codes, seed)
    sketch = sketch_rows(codes, totals, keys, MOST_ROWS)
    numbered = number_folds(sketch.keys, N_FOLDS)
    folds = numbered.numbers(sketch.keys)
    of_all = np.empty(len(order), np.int64)
    of_all[order] = numbered.numbers(keys)[np.cumsum(first) - 1]
    return table_rows(layout, sketch.rows, sketch.weights, sketch.keys, folds), of_all


def _keys_of_distinct(codes: Float[np.ndarray, "n d"], seed: int) -> UInt64[np.ndarray, " n"]:
    """Keys of rows that all differ, from standardized values.

    A hole stands at a number of its own. Where values are so near to each other, beside that, that
    keys do not tell them apart, it stands beside the largest of them.
    """
    gone = np.isnan(codes)
    low, high = (np.where(gone, end, codes) for end in (np.inf, -np.inf))
    smallest, largest = low.min(axis=0), high.max(axis=0)
    # Relative to the values, so that no difference overflows.
    beside = np.where(largest > smallest, 2 * largest - smallest, largest + 1.0)
    for hole in (_HOLE, np.where(np.isfinite(beside), beside, largest)):
        whole = np.where(gone, hole, codes)
        # In units of the largest magnitude, so that no square overflows.
        whole = whole / np.maximum(np.abs(whole).max(axis=0), 1e-300)
        scale = whole.std(axis=0)
        keys = row_keys((whole - whole.mean(axis=0)) / np.where(scale > 0, scale, 1.0), seed)
        if not gone.any() or len(np.unique(keys)) == len(keys):
            break
    return keys


def copies_apart(rows: TableRows) -> TableRows:
    """Rows that occur often, in parts with a share of their weight each, spread over all folds.

    In a table of categories and whole numbers most rows may be copies of a few: these are
    observations like any other, and a fold without all copies of a row would know nothing of it.
    """
    layout = rows.layout
    if not layout.is_lattice.all() or rows.weights.mean() < _COPIES_PER_ROW:
        return rows
    most = min(_MOST_PARTS, MOST_ROWS // len(rows.weights))
    counts = np.clip(rows.weights, 1, most).astype(int)
    places = np.repeat(np.arange(len(counts)), counts)
    parts = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    codes = layout.join(rows.parts.codes, rows.parts.numbers)[places]
    keys = row_keys(parts[:, None].astype(float), 0) ^ rows.keys[places]
    folds = (rows.folds[places] + parts) % N_FOLDS
    order = np.argsort(keys, kind="stable")
    weights = (rows.weights / counts)[places]
    return table_rows(layout, codes[order], weights[order], keys[order], folds[order])


def require_distinct_rows(rows: TableRows, name: str) -> None:
    """Refuse a table with too few rows for a density, or with one that has all the weight."""
    fewest = min(_FEWEST_ROWS + len(rows.layout.numerics), _FEWEST_ROWS_OF_NUMBERS)
    if len(rows.weights) < fewest:
        raise ValueError(
            f"{name} needs at least {fewest} distinct rows; got {len(rows.weights)}. Give "
            "more rows."
        )
    refuse_lone_weight(float((rows.weights / rows.weights.max()).sum()))
