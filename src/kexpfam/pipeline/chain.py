"""From a table of mixed columns to its density, one column after the other.

rows → kinds of columns, numbers (`kexpfam.data.mixed`) → distinct rows, or a sample of them by keys
     → rows to judge by; of the others: coordinates, size and shrinkage of a mixture
     → out-of-sample places of every number in its conditional (`kexpfam.pipeline.chain_ground`)
     → category by category, number by number: what pays beside the mixture
     → the gate: held-out rows under the chain and under its base density
     → mixture and terms of all rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.averaged import AverageSearch
from kexpfam.base.line import OnLine
from kexpfam.data.content_sketch import ContentSketching
from kexpfam.data.degenerate import warn_of_degeneracies
from kexpfam.data.layout import Layout, layout_of
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.mixed import MixedTable
from kexpfam.data.rows import RowSource
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import CategoryTerm, NumberTerm
from kexpfam.model.health import Health, nothing_compared
from kexpfam.pipeline.chain_ground import (
    MOST_ROWS,
    Ground,
    all_rows_ground,
    copies_apart,
    distinct_rows,
    judging_rows,
    large_ground,
    require_distinct_rows,
)
from kexpfam.progress import Progress
from kexpfam.threads import in_threads, in_turn, one_blas_thread
from kexpfam.tuning.categories import CategoryChoice, choose_category, fit_category
from kexpfam.tuning.chain import choose_number, fit_number
from kexpfam.tuning.gate import Weighted, compare
from kexpfam.tuning.number_choices import NumberChoice
from kexpfam.tuning.number_problem import number_problem
from kexpfam.tuning.table_base import BaseChoice
from kexpfam.tuning.table_rows import TableRows

__all__ = ["MOST_ROWS", "ChainFit", "ChainSettings", "fit_base_alone", "fit_chain"]

Choice = TypeVar("Choice", CategoryChoice, NumberChoice)

_JUDGES, _TRAINING, _DRAWS = 2048, 256, 256


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


# The cores share columns, folds and blocks of rows; within those, matrices are small.
@in_turn
@one_blas_thread()
def fit_chain(
    table: MixedTable,
    source: RowSource,
    settings: ChainSettings,
    seed: int,
    progress: Progress,
) -> ChainFit:
    """Fit the density of a table to its rows, as numbers."""
    layout = layout_of(table.kinds)
    sketching = ContentSketching(2 * MOST_ROWS)
    sketch = source.total(sketching, sketching.combine, "sketch")
    if len(sketch.rows) > MOST_ROWS:
        rows = judging_rows(layout, sketch)
        _warn_of_planes(table, rows, sketch.n_rows)
        ground = large_ground(rows, sketch, source, settings.marginals, seed, progress)
        return _fitted_beside(ground, table, rows, settings, seed, progress)
    rows, _ = distinct_rows(layout, sketch.rows, sketch.weights, seed)
    _warn_of_planes(table, rows, sketch.n_rows)
    require_distinct_rows(rows, "KernelChain")
    rows = copies_apart(rows)
    ground = all_rows_ground(rows, settings.marginals, seed, progress)
    return _fitted_beside(ground, table, rows, settings, seed, progress)


def _fitted_beside(
    ground: Ground,
    table: MixedTable,
    rows: TableRows,
    settings: ChainSettings,
    seed: int,
    progress: Progress,
) -> ChainFit:
    """Column by column, what pays beside the mixture; then the gate, and a last fit."""
    layout = rows.layout
    base, lines, judged = ground.base, ground.lines, ground.judged
    others = rows.folds > 0 if judged else np.ones(len(rows.weights), bool)
    choices = _chosen(rows, base, lines, others, progress) if judged else _nothing(layout)
    comparison = nothing_compared()
    if judged:
        density = _density(rows, ground, choices, others)
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
    density = _density(rows, ground, choices, np.ones(len(rows.weights), bool))
    health = Health(density.has_tilt, comparison)
    return ChainFit(density, table, base.search, base.kind, health)


@in_turn
@one_blas_thread()
def fit_base_alone(table: MixedTable, codes: Float[np.ndarray, "n d"], seed: int) -> ChainDensity:
    """The base density of a table: a mixture of its numbers, and shares of its categories."""
    layout = layout_of(table.kinds)
    rows, _ = distinct_rows(layout, codes, np.ones(len(codes)), seed)
    require_distinct_rows(rows, "A base density")
    rows = copies_apart(rows)
    ground = all_rows_ground(rows, "auto", seed, Progress(), base_alone=True)
    return _density(rows, ground, _nothing(layout), np.ones(len(rows.weights), bool))


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
    density = base.density(rows.layout, None)
    inputs = density.inputs(rows.parts)

    def category(place: int) -> CategoryChoice:
        return choose_category(rows, place, members, held)

    def number(place: int) -> NumberChoice:
        problem = number_problem(rows, density, inputs, lines, place, members)
        return choose_number(problem, held[problem.places])

    def tracked(choose: Callable[[int], Choice], count: int, name: str) -> tuple[Choice, ...]:
        each = in_threads(choose, range(count))
        return tuple(
            choice for _, choice in zip(progress.track(range(count), name), each, strict=True)
        )

    return _Choices(
        tracked(category, len(rows.layout.categories), "categories"),
        tracked(number, len(rows.layout.numerics), "numbers"),
    )


def _density(
    rows: TableRows, ground: Ground, choices: _Choices, members: Bool[np.ndarray, " n"]
) -> ChainDensity:
    """The chain of some rows, with what was chosen."""
    base = ground.base
    density = base.density(rows.layout, None)
    inputs = density.inputs(rows.parts)

    def category(place: int) -> CategoryTerm:
        return fit_category(rows, place, members, choices.categories[place])

    def number(place: int) -> NumberTerm:
        choice = choices.numbers[place]
        if choice.share == 0 and choice.tilt is None:
            return NumberTerm()
        problem = number_problem(rows, density, inputs, ground.lines, place, members)
        return fit_number(problem, choice)

    categories = tuple(in_threads(category, range(len(choices.categories))))
    numbers = tuple(in_threads(number, range(len(choices.numbers))))
    mixture = ground.last if members.all() else ground.judged_mixture
    seen = ground.seen
    if seen is None:
        gone = np.isnan(inputs.mapped) | ~members[:, None]
        seen = np.stack(
            [
                np.where(gone, np.inf, inputs.mapped).min(axis=0),
                np.where(gone, -np.inf, inputs.mapped).max(axis=0),
            ]
        )
    return ChainDensity(
        rows.layout, base.scores, base.marginals, mixture, categories, numbers, seen
    )


def _weighted(rows: TableRows, members: Bool[np.ndarray, " n"]) -> Weighted:
    joined = rows.layout.join(rows.parts.codes, rows.parts.numbers)
    return Weighted(joined[members], rows.weights[members])


def _some(rows: Weighted, count: int) -> Weighted:
    return Weighted(rows.rows[:count], rows.weights[:count])
