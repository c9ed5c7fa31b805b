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
from jaxtyping import Bool

from kexpfam.base.averaged import AverageSearch
from kexpfam.base.ordered import OrderedMixture
from kexpfam.data.content_sketch import ContentSketching
from kexpfam.data.degenerate import warn_of_degeneracies
from kexpfam.data.layout import Layout, layout_of
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.mixed import MixedTable
from kexpfam.data.rows import RowSource
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import CategoryTerm, Holes, NumberTerm
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
from kexpfam.tuning.categories import (
    CategoryChoice,
    choose_category,
    chosen_category,
    fit_category,
)
from kexpfam.tuning.chain import choose_number, fit_number
from kexpfam.tuning.gate import Weighted, compare
from kexpfam.tuning.number_choices import THOROUGH, Effort, NumberChoice
from kexpfam.tuning.number_order import promising_order
from kexpfam.tuning.number_problem import NumberProblems
from kexpfam.tuning.table_rows import TableRows

__all__ = ["MOST_ROWS", "ChainFit", "ChainSettings", "fit_chain"]

Choice = TypeVar("Choice", CategoryChoice, NumberChoice)

_JUDGES, _TRAINING, _DRAWS, _FEWEST_DRAWS = 2048, 256, 128, 64
# Rows that orders of the columns are compared on; of up to twice as many all, because what pays is
# then known for the better order; and nats a row for which the table's is left.
_TRIAL_ROWS, _ORDER_GAIN = 2000, 0.02
# With fewer rows, threads would wait for Python's lock longer than for each other's matrices.
_FEWEST_FOR_THREADS = 250
# Patterns of missing values that are kept at most.
_MOST_HOLES = 1000


class ChainSettings(NamedTuple):
    """What users choose, checked."""

    marginals: MarginalKind | Literal["auto"]
    gate: bool
    effort: Effort | None = THOROUGH


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
    ground = all_rows_ground(
        rows, settings.marginals, seed, progress, crossed=settings.effort is not None
    )
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
    judged = ground.judged
    others = rows.folds > 0 if judged else np.ones(len(rows.weights), bool)
    comparison = nothing_compared()
    if judged and settings.effort is not None:
        ground, problems, choices = _in_better_order(ground, rows, settings.effort, progress)
        rows = problems.table
    else:
        problems, choices = _problems(ground, rows, tilt=False), _nothing(rows.layout)
    if judged:
        density = _chosen_density(problems, ground, choices, others)
        judging, training = (_weighted(rows, members) for members in (~others, others))
        comparison, _ = compare(
            density,
            _some(judging, _JUDGES),
            _some(training, _TRAINING),
            # As many as rows judge, beside which more would say little.
            int(np.clip(len(judging.weights), _FEWEST_DRAWS, _DRAWS)),
            np.random.default_rng(seed),
            gated=settings.gate,
        )
        if settings.gate and not comparison.wins:
            choices = _nothing(rows.layout)
    density = _last_density(problems, ground, choices, others)
    health = Health(density.has_tilt, comparison)
    return ChainFit(density, table, ground.base.search, ground.base.kind, health)


def _problems(ground: Ground, rows: TableRows, *, tilt: bool = True) -> NumberProblems:
    """What terms are fitted to; without places in conditionals where there are to be none."""
    density = ground.base.density(rows.layout, None)
    lines = ground.lines(rows) if tilt else []
    return NumberProblems.of(rows, density, density.inputs(rows.parts), lines)


class _Choices(NamedTuple):
    categories: tuple[CategoryChoice, ...]
    numbers: tuple[NumberChoice, ...]


class _Trial(NamedTuple):
    """The numbers in one order, and what pays beside the mixture."""

    ground: Ground
    problems: NumberProblems
    choices: _Choices

    @classmethod
    def of(
        cls,
        ground: Ground,
        rows: TableRows,
        effort: Effort,
        progress: Progress,
        known: _Choices | None = None,
    ) -> _Trial:
        """`known` are choices that are the same: all categories, and the first of the numbers."""
        problems = _problems(ground, rows)
        others = rows.folds > 0 if ground.judged else np.ones(len(rows.weights), bool)
        return cls(ground, problems, _chosen(problems, others, effort, progress, known))

    def first(self, count: int) -> _Choices:
        """The choices for columns that have the same columns before them in another order."""
        return self.choices._replace(numbers=self.choices.numbers[:count])

    @property
    def gain(self) -> float:
        """Nats a row that locations and tilts gained where they were chosen, without fold 0."""
        rows = self.problems.table
        others = rows.folds > 0
        there = ~np.isnan(rows.parts.numbers[others])
        shares = rows.weights[others] @ there / rows.weights[others].sum()
        return float(shares @ [choice.gain for choice in self.choices.numbers])


def _in_better_order(ground: Ground, rows: TableRows, effort: Effort, progress: Progress) -> _Trial:
    """What pays with the numbers in the order in which they gain more.

    The table's order is compared with one in which what follows from other columns comes after
    them (`kexpfam.tuning.number_order`), if that promises anything, on some of the rows.
    """
    order = promising_order(rows) if effort.orders else None
    if order is None:
        return _Trial.of(ground, rows, effort, progress)
    count = len(rows.weights)
    some = rows.where(np.arange(count if count <= 2 * _TRIAL_ROWS else _TRIAL_ROWS))
    as_it_is = _Trial.of(ground, some, effort, progress)
    moved = next(place for place, column in enumerate(order) if place != column)
    same = as_it_is.first(moved)
    other = _Trial.of(ground.in_order(order), some.in_order(order), effort, progress, same)
    better = other if other.gain > as_it_is.gain + _ORDER_GAIN else as_it_is
    if len(some.weights) == count:
        return better
    rows = rows.in_order(order) if better is other else rows
    return _Trial.of(better.ground, rows, effort, progress)


def _warn_of_planes(table: MixedTable, rows: TableRows, n_rows: int) -> None:
    """Raise or warn where columns with densities follow from each other."""
    smooth = np.flatnonzero(~rows.layout.is_lattice)
    numbers = rows.parts.numbers[:, smooth]
    complete = ~np.isnan(numbers).any(axis=1)
    if len(smooth) > 1 and complete.sum() > 2 * len(smooth):
        labels = table.labels()
        names = [labels[rows.layout.numerics[number]] for number in smooth]
        warn_of_degeneracies(numbers[complete], rows.weights[complete], names, n_rows, stacklevel=4)


def _nothing(layout: Layout) -> _Choices:
    """The base density alone."""
    return _Choices(
        tuple(CategoryChoice(None) for _ in layout.categories),
        tuple(NumberChoice() for _ in layout.numerics),
    )


def _chosen(
    problems: NumberProblems,
    members: Bool[np.ndarray, " n"],
    effort: Effort,
    progress: Progress,
    known: _Choices | None = None,
) -> _Choices:
    """What pays, column by column, as far as it is not known."""
    rows = problems.table
    held = rows.folds == 1

    def category(place: int) -> CategoryChoice:
        return choose_category(rows, place, members, held)

    def number(place: int) -> NumberChoice:
        problem = problems.of_number(place, members)
        return choose_number(problem, held[problem.places], effort)

    def tracked(
        choose: Callable[[int], Choice], count: int, name: str, first: tuple[Choice, ...]
    ) -> tuple[Choice, ...]:
        places = range(len(first), count)
        each = in_threads(choose, places, worth=_worth_threads(rows))
        tracked_places = progress.track(places, name)
        return first + tuple(choice for _, choice in zip(tracked_places, each, strict=True))

    known = known or _Choices((), ())
    return _Choices(
        tracked(category, len(rows.layout.categories), "categories", known.categories),
        tracked(number, len(rows.layout.numerics), "numbers", known.numbers),
    )


def _worth_threads(rows: TableRows) -> bool:
    """Whether the matrices of a column are large enough for columns side by side."""
    return len(rows.weights) >= _FEWEST_FOR_THREADS


def _chosen_density(
    problems: NumberProblems,
    ground: Ground,
    choices: _Choices,
    members: Bool[np.ndarray, " n"],
) -> ChainDensity:
    """The chain of the rows that choices were made on, as they were made.

    Its tilts have not seen the rows that chose among them: the gate looks at a little less than
    what comes out in the end.
    """
    categories = tuple(
        chosen_category(problems.table, place, members, choice)
        for place, choice in enumerate(choices.categories)
    )
    numbers = tuple(choice.term for choice in choices.numbers)
    return _density(problems, ground, ground.judged_mixture, categories, numbers, members)


def _last_density(
    problems: NumberProblems, ground: Ground, choices: _Choices, seen: Bool[np.ndarray, " n"]
) -> ChainDensity:
    """The chain of all rows, with what was chosen on those that were seen."""
    everything = np.ones(len(problems.table.weights), bool)

    def category(place: int) -> CategoryTerm:
        return fit_category(problems.table, place, everything, choices.categories[place])

    def number(place: int) -> NumberTerm:
        choice = choices.numbers[place]
        if choice.term.is_empty:
            return NumberTerm()
        problem = problems.of_number(place, everything)
        return fit_number(problem, choice, seen[problem.places])

    worth = _worth_threads(problems.table)
    categories = tuple(in_threads(category, range(len(choices.categories)), worth=worth))
    numbers = tuple(in_threads(number, range(len(choices.numbers)), worth=worth))
    return _density(problems, ground, ground.last, categories, numbers, everything)


def _density(
    problems: NumberProblems,
    ground: Ground,
    mixture: OrderedMixture | None,
    categories: tuple[CategoryTerm, ...],
    numbers: tuple[NumberTerm, ...],
    members: Bool[np.ndarray, " n"],
) -> ChainDensity:
    """Terms beside a mixture; drawn numbers end near those of some rows."""
    base, seen = ground.base, ground.seen
    if seen is None:
        mapped = problems.inputs.mapped
        gone = np.isnan(mapped) | ~members[:, None]
        seen = np.stack(
            [
                np.where(gone, np.inf, mapped).min(axis=0),
                np.where(gone, -np.inf, mapped).max(axis=0),
            ]
        )
    rows = problems.table
    return ChainDensity(
        rows.layout, base.scores, base.marginals, mixture, categories, numbers, seen, _holes(rows)
    )


def _holes(rows: TableRows) -> Holes | None:
    """What is missing together, in all rows or, where hardly two are alike, in the first ones."""
    flags = rows.parts.missing[:, list(rows.layout.flagged)]
    if not flags.any():
        return None
    for some in (slice(None), slice(_MOST_HOLES)):
        patterns, places = np.unique(flags[some], axis=0, return_inverse=True)
        if len(patterns) <= _MOST_HOLES:
            break
    shares = np.bincount(places.ravel(), rows.weights[some], minlength=len(patterns))
    return Holes(patterns, shares / shares.sum())


def _weighted(rows: TableRows, members: Bool[np.ndarray, " n"]) -> Weighted:
    joined = rows.layout.join(rows.parts.codes, rows.parts.numbers)
    return Weighted(joined[members], rows.weights[members])


def _some(rows: Weighted, count: int) -> Weighted:
    return Weighted(rows.rows[:count], rows.weights[:count])
