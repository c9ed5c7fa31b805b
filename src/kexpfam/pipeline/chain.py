"""From a table of mixed columns to its density, one column after the other.

rows → kinds of columns, numbers (`kexpfam.data.mixed`) → distinct rows, in the order of their keys
     → one fold to judge by; of the others: coordinates, size and shrinkage of a mixture
     → out-of-sample places of every number in its conditional
     → category by category, number by number: what pays beside the mixture
     → the gate: held-out rows under the chain and under its base density
     → mixture and terms of all rows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.averaged import AverageSearch
from kexpfam.base.line import OnLine
from kexpfam.data.content_sketch import ContentSketching
from kexpfam.data.degenerate import warn_of_degeneracies
from kexpfam.data.layout import Layout, layout_of
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.mixed import MixedTable
from kexpfam.data.rows import RowSource
from kexpfam.data.sketch import number_folds, row_keys, sketch_rows
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import NumberTerm
from kexpfam.model.health import Health, nothing_compared
from kexpfam.progress import Progress
from kexpfam.threads import in_turn
from kexpfam.tuning.categories import CategoryChoice, choose_category, fit_category
from kexpfam.tuning.chain import NumberChoice, choose_number, fit_number, number_problem
from kexpfam.tuning.gate import Weighted, compare
from kexpfam.tuning.table_base import (
    BaseChoice,
    TableRows,
    choose_base,
    crossed_lines,
    final_mixture,
    table_rows,
)

__all__ = [
    "MOST_ROWS",
    "N_FOLDS",
    "ChainFit",
    "ChainSettings",
    "distinct_rows",
    "fit_chain",
    "require_distinct_rows",
]

# Distinct rows that are fitted to.
MOST_ROWS = 50_000
N_FOLDS = 5
# Fewer distinct rows cannot be fitted; with fewer than the second, none are held out to judge.
_FEWEST_ROWS, _FEWEST_ROWS_OF_NUMBERS, _FEWEST_TO_JUDGE = 2, 4, 50
_JUDGES, _TRAINING, _DRAWS = 2048, 256, 256
# What stands for a missing value in a row's key.
_HOLE = 12345.678


class ChainSettings(NamedTuple):
    """What users choose, checked."""

    marginals: MarginalKind | Literal["auto"]
    gate: bool


class ChainFit(NamedTuple):
    """A fitted density, what the table's columns are, and what was chosen on the way."""

    density: ChainDensity
    table: MixedTable
    base_search: AverageSearch
    marginals: MarginalKind
    health: Health

    def summary(self, names: Sequence[str]) -> dict[str, Any]:
        """What was fitted, for people; `names` are those of the columns."""
        found = self.density.terms_in_words()
        return {
            "marginals": self.marginals,
            "base_components": self.base_search.n_components,
            "order": [names[column] for column in self.density.layout.order],
            "beside_the_mixture": {names[column]: words for column, words in found.items()},
        }


@in_turn
def fit_chain(
    table: MixedTable,
    source: RowSource,
    settings: ChainSettings,
    seed: int,
    progress: Progress,
) -> ChainFit:
    """Fit the density of a table to its rows, as numbers."""
    layout = layout_of(table.kinds)
    sketching = ContentSketching(MOST_ROWS)
    sketch = source.total(sketching, sketching.combine, "sketch")
    rows, _ = distinct_rows(layout, sketch.rows, sketch.weights, seed)
    _warn_of_planes(table, rows, sketch.n_rows)
    require_distinct_rows(rows, "KernelChain")
    judged = len(rows.weights) >= _FEWEST_TO_JUDGE
    everything = np.ones(len(rows.weights), bool)
    others = rows.folds > 0 if judged else everything
    base = choose_base(rows, others, settings.marginals, seed, progress)
    lines = crossed_lines(rows, base, progress) if judged else []
    choices = _chosen(rows, base, lines, others, progress) if judged else _nothing(layout)
    comparison = nothing_compared()
    if judged:
        density = _density(rows, base, lines, choices, others)
        judging, training = (_weighted(rows, members) for members in (~others, others))
        comparison, _ = compare(
            density,
            _some(judging, _JUDGES),
            _some(training, _TRAINING),
            _DRAWS,
            np.random.default_rng(seed),
            gated=settings.gate,
        )
        if settings.gate and not comparison.wins:
            choices = _nothing(layout)
    density = _density(rows, base, lines, choices, everything)
    health = Health(density.has_tilt, comparison)
    return ChainFit(density, table, base.search, base.kind, health)


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
    codes, whole = codes[first], whole[first]
    # In units of the largest magnitude, so that no square overflows.
    whole = whole / np.maximum(np.abs(whole).max(axis=0), 1e-300)
    scale = whole.std(axis=0)
    keys = row_keys((whole - whole.mean(axis=0)) / np.where(scale > 0, scale, 1.0), seed)
    sketch = sketch_rows(codes, totals, keys, MOST_ROWS)
    numbered = number_folds(sketch.keys, N_FOLDS)
    folds = numbered.numbers(sketch.keys)
    of_all = np.empty(len(order), np.int64)
    of_all[order] = numbered.numbers(keys)[np.cumsum(first) - 1]
    return table_rows(layout, sketch.rows, sketch.weights, sketch.keys, folds), of_all


def require_distinct_rows(rows: TableRows, name: str) -> None:
    """Refuse a table with too few rows for a density."""
    fewest = min(_FEWEST_ROWS + len(rows.layout.numerics), _FEWEST_ROWS_OF_NUMBERS)
    if len(rows.weights) < fewest:
        raise ValueError(
            f"{name} needs at least {fewest} distinct rows; got {len(rows.weights)}. Give "
            "more rows."
        )


def _warn_of_planes(table: MixedTable, rows: TableRows, n_rows: int) -> None:
    """Raise or warn where columns with densities follow from each other."""
    smooth = np.flatnonzero(~rows.layout.is_lattice)
    numbers = rows.parts.numbers[:, smooth]
    complete = ~np.isnan(numbers).any(axis=1)
    if len(smooth) > 1 and complete.sum() > 2 * len(smooth):
        labels = table.labels()
        names = [labels[rows.layout.numerics[number]] for number in smooth]
        warn_of_degeneracies(numbers[complete], rows.weights[complete], names, n_rows, stacklevel=4)


class _Choices(NamedTuple):
    categories: tuple[CategoryChoice, ...]
    numbers: tuple[NumberChoice, ...]


def _nothing(layout: Layout) -> _Choices:
    """The base density alone."""
    return _Choices(
        tuple(CategoryChoice(None) for _ in layout.categories),
        tuple(NumberChoice() for _ in layout.numerics),
    )


def _chosen(
    rows: TableRows,
    base: BaseChoice,
    lines: list[OnLine],
    members: Bool[np.ndarray, " n"],
    progress: Progress,
) -> _Choices:
    """What pays, column by column."""
    held = rows.folds == 1
    categories = tuple(
        choose_category(rows, place, members, held)
        for place in progress.track(range(len(rows.layout.categories)), "categories")
    )
    density = base.density(rows.layout, None)
    inputs = density.inputs(rows.parts)
    numbers = []
    for number in progress.track(range(len(rows.layout.numerics)), "numbers"):
        problem = number_problem(rows, density, inputs, lines, number, members)
        numbers.append(choose_number(problem, held[problem.places]))
    return _Choices(categories, tuple(numbers))


def _density(
    rows: TableRows,
    base: BaseChoice,
    lines: list[OnLine],
    choices: _Choices,
    members: Bool[np.ndarray, " n"],
) -> ChainDensity:
    """The chain of some rows, with what was chosen."""
    categories = tuple(
        fit_category(rows, place, members, choice)
        for place, choice in enumerate(choices.categories)
    )
    density = base.density(rows.layout, None)
    inputs = density.inputs(rows.parts)
    numbers = []
    for number, choice in enumerate(choices.numbers):
        term = NumberTerm()
        if choice.share > 0 or choice.tilt is not None:
            problem = number_problem(rows, density, inputs, lines, number, members)
            term = fit_number(problem, choice)
        numbers.append(term)
    if members.all():
        mixture = final_mixture(rows, base)
    else:
        mixture = None if base.average is None else base.ordered(base.average)
    gone = np.isnan(inputs.mapped) | ~members[:, None]
    seen = np.stack(
        [
            np.where(gone, np.inf, inputs.mapped).min(axis=0),
            np.where(gone, -np.inf, inputs.mapped).max(axis=0),
        ]
    )
    return ChainDensity(
        rows.layout, base.scores, base.marginals, mixture, categories, tuple(numbers), seen
    )


def _weighted(rows: TableRows, members: Bool[np.ndarray, " n"]) -> Weighted:
    joined = rows.layout.join(rows.parts.codes, rows.parts.numbers)
    return Weighted(joined[members], rows.weights[members])


def _some(rows: Weighted, count: int) -> Weighted:
    return Weighted(rows.rows[:count], rows.weights[:count])
