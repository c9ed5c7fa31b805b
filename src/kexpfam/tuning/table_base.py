"""The mixture under a chain: its columns made whole, its coordinates and size, and its folds.

A mixture is fitted to complete rows without ties: whole numbers are spread over their cells, values
of coarsely written columns over theirs, and missing values are drawn given the values that are
present (`kexpfam.tuning.incomplete_base`). Scores of the indicators stand before the numbers, with
noise added, so that no component can shrink to a single category.

Residuals under a mixture are out of sample: rows of every fold are looked at by a mixture fitted to
the other folds.

| name    | shape  | meaning                                        |
|---------|--------|------------------------------------------------|
| numbers | (n, m) | spread over their cells; NaN where missing     |
| copies  | (c, n, w) | noisy scores and mapped numbers, complete, one or more times |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.average_search import LARGEST, choose_average
from kexpfam.base.averaged import Average, AverageSearch, fit_average, refit_average
from kexpfam.base.incomplete import choose_gaussian
from kexpfam.base.line import OnLine
from kexpfam.base.monomial_tables import worth_threads
from kexpfam.base.ordered import OrderedMixture, normal_numbers
from kexpfam.base.shrunk import CONVERGED, nearly_converged
from kexpfam.data.coordinates import Coordinates, whitening
from kexpfam.data.layout import Layout
from kexpfam.data.marginals import MarginalKind, Marginals
from kexpfam.data.standardize import Standardizer
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import NumberTerm, Scores
from kexpfam.model.number_maps import scored
from kexpfam.progress import Progress
from kexpfam.threads import in_threads
from kexpfam.tuning.coordinates import COMPARED_ROWS, HeldOut, choose_coordinates
from kexpfam.tuning.incomplete_base import (
    drawn_copies,
    filled_in,
    held_out_logs,
    holed,
    in_own_coordinates,
    incomplete_search,
    widening,
)
from kexpfam.tuning.table_rows import TableRows, normal_scores

__all__ = [
    "BaseChoice",
    "choose_base",
    "crossed_lines",
    "crossed_mixtures",
    "final_mixture",
    "noisy_scores",
    "redrawn",
]

# Directions of the indicators that the mixture sees, their least variance, how many times the
# strength of chance they need, and the noise on them.
_MOST_SCORES, _LEAST_VARIANCE, _BEYOND_CHANCE, _SCORE_NOISE = 6, 1e-6, 3.0, 0.2
# The same where chance has many flags of missing values to choose from.
_BEYOND_MANY = 1.5
# Directions in which the rows vary less than this, relative to the widest, are as wide as this.
_THINNEST = 1e-6
# Rows whose places in conditionals one core finds at a time.
_PLACED_AT_ONCE = 512


class BaseChoice(NamedTuple):
    """Coordinates, size and shrinkage, and the mixtures of the rows that they were chosen on.

    With incomplete rows, the standard deviations of the components are widened by a factor.
    """

    scores: Scores
    marginals: Marginals | None
    kind: MarginalKind
    search: AverageSearch
    shift: Float[np.ndarray, " w"]
    root: Float[np.ndarray, "w w"]
    copies: Float[np.ndarray, "c n w"]
    average: Average | None
    seed: int
    widening: float = 1.0

    @property
    def filled(self) -> Float[np.ndarray, "n w"]:
        """Complete rows."""
        return self.copies[0]

    def whitened(self) -> Float[np.ndarray, "c n w"]:
        """Rows as mixtures are fitted to."""
        return (self.copies - self.shift) @ np.linalg.inv(self.root).T

    def ordered(self, average: Average) -> OrderedMixture:
        """Averaged mixtures of whitened rows, in the columns' own coordinates, and widened."""
        average = average if self.widening == 1 else average.widened(self.widening)
        return in_own_coordinates(average.density(far=True), self.shift, self.root)

    def fitted_average(
        self,
        table: TableRows,
        members: Bool[np.ndarray, " n"],
        start: Average | None = None,
        converged: float = CONVERGED,
    ) -> Average:
        """Mixtures of some rows, from their own start or going on from another."""
        white = self.whitened()[:, members]
        weights, copies = np.tile(table.weights[members], len(white)), len(white)
        stacked = white.reshape(-1, white.shape[2])
        if start is None:
            return fit_average(
                stacked, weights, self.search, self.seed, copies=copies, converged=converged
            )
        return refit_average(start, stacked, weights, self.search, copies)

    def fitted_to(
        self, table: TableRows, members: Bool[np.ndarray, " n"], converged: float = CONVERGED
    ) -> OrderedMixture:
        """A mixture of some rows, from its own start."""
        return self.ordered(self.fitted_average(table, members, converged=converged))

    def in_order(self, order: Sequence[int]) -> BaseChoice:
        """The same with the numbers in another order; whitened rows stay as they are."""
        places = self.places_in(order)
        return self._replace(
            marginals=None if self.marginals is None else self.marginals.in_order(order),
            shift=self.shift[places],
            root=self.root[places],
            copies=self.copies[:, :, places],
        )

    def places_in(self, order: Sequence[int]) -> Int[np.ndarray, " w"]:
        """Columns of the mixture, scores first, where the numbers have another order."""
        n_scores = len(self.shift) - len(order)
        return np.append(np.arange(n_scores), n_scores + np.array(order, int))

    def density(self, layout: Layout, mixture: OrderedMixture | None) -> ChainDensity:
        """The numbers' base density."""
        terms = tuple(NumberTerm() for _ in layout.numerics)
        return ChainDensity(layout, self.scores, self.marginals, mixture, (), terms)


def choose_base(
    table: TableRows,
    members: Bool[np.ndarray, " n"],
    marginals: MarginalKind | Literal["auto"],
    seed: int,
    progress: Progress,
    largest: int = LARGEST,
) -> BaseChoice:
    """Coordinates, size and shrinkage by held-out rows among some rows."""
    scores = _fit_scores(table, members)
    n_numbers = table.numbers.shape[1]
    own = noisy_scores(table, scores)
    search = AverageSearch(1, 60.0, 0.0, 0.0)
    if n_numbers == 0:
        nothing = np.zeros(own.shape[1])
        return BaseChoice(
            scores, None, None, search, nothing, np.diag(nothing), own[None], None, seed
        )  # fmt: skip
    complete, gone = scored(_hot_deck(table), table.layout.heaps), np.isnan(table.numbers)
    held = table.folds[members] == table.folds[members].min()
    shares = table.weights[members] / table.weights[members].sum()
    # In units of the largest magnitude, so that no square overflows.
    unit = np.abs(complete[members]).max(axis=0)
    center = shares @ (complete[members] / unit)
    scale = np.sqrt(shares @ (complete[members] / unit - center) ** 2)
    spread = Standardizer(center * unit, scale * unit)
    coordinates, kind = choose_coordinates(
        complete[members],
        table.weights[members],
        table.folds[members],
        spread,
        marginals,
        seed,
        _by_what_is_there(table, own, complete, members, seed) if gone.any() else None,
    )
    mapped = coordinates.marginals.forward(complete)
    if gone.any():
        rows = holed(own, mapped, gone)
        return _incomplete(
            table, members, rows, scores, coordinates.marginals, kind, seed, progress, largest
        )  # fmt: skip
    filled = np.concatenate([own, mapped], axis=1)
    shift, root = whitening(filled[members], table.weights[members], held)
    choice = BaseChoice(
        scores, coordinates.marginals, kind, search, shift, root, filled[None], None, seed
    )  # fmt: skip
    search = choose_average(
        choice.whitened()[0][members],
        table.weights[members],
        table.folds[members],
        seed,
        progress,
        largest=largest,
    )
    choice = choice._replace(search=search)
    return choice._replace(average=choice.fitted_average(table, members))


def _by_what_is_there(
    table: TableRows,
    own: Float[np.ndarray, "n s"],
    complete: Float[np.ndarray, "n m"],
    members: Bool[np.ndarray, " n"],
    seed: int,
) -> HeldOut:
    """Log densities of the values that are present, in coordinates that are tried."""
    some = table.where(np.flatnonzero(members)[:COMPARED_ROWS])
    scores, numbers = (part[members][:COMPARED_ROWS] for part in (own, complete))
    gone = np.isnan(some.numbers)

    def judged(coordinates: Coordinates, judges: Bool[np.ndarray, " k"]) -> Float[np.ndarray, " j"]:
        curve = coordinates.marginals.curve(numbers)
        logs = held_out_logs(some, holed(scores, curve.values, gone), judges, seed)
        return logs + curve.log_slopes[judges].sum(axis=1, where=~gone[judges])

    return judged


def _incomplete(
    table: TableRows,
    members: Bool[np.ndarray, " n"],
    rows: Float[np.ndarray, "n w"],
    scores: Scores,
    marginals: Marginals,
    kind: MarginalKind,
    seed: int,
    progress: Progress,
    largest: int,
) -> BaseChoice:
    """Size and shrinkage for rows with missing numbers, which are then filled in."""
    some = table.where(np.flatnonzero(members))
    gaussian = choose_gaussian(rows[members], some.weights, some.folds)
    pseudo_rows = gaussian.pseudo_rows
    search = incomplete_search(some, rows[members], pseudo_rows, seed, progress, largest)
    factor = widening(some, rows[members], pseudo_rows, search, seed)
    copies, average, shift, root = filled_in(table, rows, members, gaussian, search, seed)
    return BaseChoice(
        scores, marginals, kind, search, shift, root, copies, average, seed, factor
    )  # fmt: skip


def noisy_scores(table: TableRows, scores: Scores) -> Float[np.ndarray, "n s"]:
    """Scores of the rows' indicators, with noise that follows from the rows' content."""
    own = scores(table.layout.indicators(table.parts))
    for place in range(own.shape[1]):
        own[:, place] += _SCORE_NOISE * normal_numbers(table.uniform("score", place))
    return own


def _fit_scores(table: TableRows, members: Bool[np.ndarray, " n"]) -> Scores:
    """Directions of the indicators that go with the numbers, strongest first.

    Canonical directions for normal scores of the numbers; those that chance would give are left
    out.
    """
    indicators = table.layout.indicators(table.parts)[members]
    shares = table.weights[members] / table.weights[members].sum()
    center = shares @ indicators
    centered = indicators - center
    variances, axes = np.linalg.eigh((centered * shares[:, None]).T @ centered)
    kept = variances > _LEAST_VARIANCE
    whitening = axes[:, kept] / np.sqrt(variances[kept])
    numbers = [normal_scores(column, shares) for column in table.numbers[members].T]
    targets = np.array(numbers).reshape(len(numbers), len(shares)).T
    crossed = (centered @ whitening * shares[:, None]).T @ targets
    turns, strengths, _ = np.linalg.svd(crossed, full_matrices=False)
    chance = _BEYOND_CHANCE * max(targets.shape[1], 1)
    if table.layout.flagged:
        # The largest square of a singular value of so many by so many random numbers.
        largest = (np.sqrt(kept.sum()) + np.sqrt(targets.shape[1])) ** 2
        chance = max(chance, _BEYOND_MANY * largest)
    some = np.flatnonzero(strengths**2 * len(shares) > chance)
    directions = (whitening @ turns)[:, some[:_MOST_SCORES]]
    signs = np.sqrt(np.arange(2, len(directions) + 2)) @ directions
    return Scores(center, directions * np.where(signs < 0, -1.0, 1.0))


def _hot_deck(table: TableRows) -> Float[np.ndarray, "n m"]:
    """Numbers with what is missing drawn from the rest of its column, between neighboring values.

    Copies would reward maps that tell them from other values; and a fold draws from its own rows,
    so that those held out are not known to the others.
    """
    complete = table.numbers.copy()
    for place, column in enumerate(complete.T):
        uniform = table.uniform("fill", place)
        everywhere = np.sort(column[~np.isnan(column)])
        for fold in np.unique(table.folds):
            own = table.folds == fold
            gone = own & np.isnan(column)
            values = np.sort(column[own & ~gone])
            values = values if len(values) > 1 else everywhere
            places = uniform[gone] * (len(values) - 1)
            column[gone] = np.interp(places, np.arange(len(values)), values)
    return complete


def redrawn(
    table: TableRows, filled: Float[np.ndarray, "n w"], mixture: OrderedMixture
) -> Float[np.ndarray, "n w"]:
    """Missing values, drawn anew given the values that are present."""
    n_scores = filled.shape[1] - table.numbers.shape[1]
    rows = holed(filled[:, :n_scores], filled[:, n_scores:], np.isnan(table.numbers))
    return drawn_copies(table, rows, mixture, 1)[0]


def final_mixture(table: TableRows, choice: BaseChoice) -> OrderedMixture | None:
    """The mixture of all rows, in the same coordinates."""
    if choice.average is None:
        return None
    everything = np.ones(len(table.weights), bool)
    return choice.ordered(choice.fitted_average(table, everything, choice.average))


def crossed_mixtures(
    table: TableRows, choice: BaseChoice, progress: Progress
) -> dict[int, OrderedMixture]:
    """For each fold a mixture that has not seen its rows.

    Rows of fold zero are looked at by the mixture of all others, rows of another fold by one of the
    folds that are neither.
    """
    average = choice.average
    if average is None:
        return {}

    def mixture_for(fold: int) -> OrderedMixture:
        if fold == 0:
            return choice.ordered(average)
        others = (table.folds != fold) & (table.folds > 0)
        return choice.fitted_to(table, others, nearly_converged(len(choice.shift)))

    folds = sorted(set(table.folds.tolist()))
    worth = _worth_threads(table, choice)
    each = in_threads(mixture_for, folds, worth=worth)
    return dict(zip(progress.track(folds, "folds"), each, strict=True))


def crossed_lines(
    table: TableRows, choice: BaseChoice, mixtures: dict[int, OrderedMixture]
) -> list[OnLine]:
    """Where each number lies in its conditional, under the mixture for its row's fold."""
    if not mixtures:
        return []
    found = np.full((table.numbers.shape[1], 4, len(table.weights)), np.nan)
    pieces = []
    for fold in sorted(set(table.folds.tolist())):
        own = np.flatnonzero(table.folds == fold)
        pieces += [
            (fold, own[first : first + _PLACED_AT_ONCE])
            for first in range(0, len(own), _PLACED_AT_ONCE)
        ]

    def lines_of(piece: tuple[int, Int[np.ndarray, " j"]]) -> Float[np.ndarray, "m four j"]:
        fold, places = piece
        return _lines_under(table.where(places), choice, mixtures[fold])

    each = in_threads(lines_of, pieces, worth=_worth_threads(table, choice))
    for (_, places), lines in zip(pieces, each, strict=True):
        found[:, :, places] = lines
    return [OnLine(*lines) for lines in found]


def _worth_threads(table: TableRows, choice: BaseChoice) -> bool:
    """Whether the matrices of a fold are large enough for folds side by side."""
    mixtures = () if choice.average is None else choice.average.mixtures
    n_components = sum(len(mixture.weights) for mixture in mixtures)
    return worth_threads(len(table.weights), choice.filled.shape[1], n_components)


def _lines_under(
    table: TableRows, choice: BaseChoice, mixture: OrderedMixture
) -> Float[np.ndarray, "m four j"]:
    """Where the numbers of rows lie in their conditionals: the parts of an `OnLine` each."""
    density = choice.density(table.layout, mixture)
    inputs = density.inputs(table.parts)
    edges = density.edges(table.parts.numbers, inputs.mapped)
    return density.mixture_lines(inputs, edges, dict.fromkeys(range(edges.shape[2]), True))
