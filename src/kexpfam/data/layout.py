"""The order in which a chain goes through a table, and what each column tells the next ones.

    categories (and which atom, if any)  →  numbers with masses  →  numbers with densities

Discrete columns come first, so that derivatives concern the last group alone. A column with atoms
is two variables: a category (which atom, or none), and a number that is there only where it is
none of them. As inputs, categories are indicators, c − 1 for c of them, before them stand flags of
what is missing, and after them numbers, mapped to something like a standard normal and zero, the
middle, where they are not there.

| name    | shape  | meaning                                                               |
|---------|--------|-----------------------------------------------------------------------|
| codes   | (n, c) | of categories, from zero on; NaN where missing                        |
| numbers | (n, m) | in the order of the chain; NaN where missing, or an atom is there     |
| missing | (n, d) | of the table's own columns                                            |
| outside | (n, d) | values of the table that have no mass: out of bounds, no known category |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.data.heaps import Heaps
from kexpfam.data.kinds import ColumnKind

__all__ = ["Layout", "Parts", "layout_of"]


class Parts(NamedTuple):
    """A table's variables."""

    codes: Float[np.ndarray, "n c"]
    numbers: Float[np.ndarray, "n m"]
    missing: Bool[np.ndarray, "n d"]
    outside: Bool[np.ndarray, "n d"]

    def where(self, chosen: Bool[np.ndarray, " n"] | Int[np.ndarray, " j"] | slice) -> Parts:
        """The parts of some rows."""
        return Parts(*(part[chosen] for part in self))


class Layout(NamedTuple):
    """Columns of the table that are categories, numbers, and missing somewhere."""

    kinds: tuple[ColumnKind, ...]
    categories: tuple[int, ...]
    numerics: tuple[int, ...]
    flagged: tuple[int, ...]

    @property
    def order(self) -> list[int]:
        """Columns of the table in the order in which the chain is done with them."""
        categories = [column for column in self.categories if self.kinds[column].is_category]
        return [*categories, *self.numerics]

    def with_numbers_in(self, order: Sequence[int]) -> Layout:
        """The same with its numbers in another order, given by their places here."""
        return self._replace(numerics=tuple(self.numerics[place] for place in order))

    @property
    def level_counts(self) -> list[int]:
        """How many levels each category has; atoms and none of them are levels, too."""
        counts = []
        for column in self.categories:
            kind = self.kinds[column]
            counts.append(kind.n_cells if kind.is_category else len(kind.atoms) + 1)
        return counts

    @property
    def is_lattice(self) -> Bool[np.ndarray, " m"]:
        """Which of the numbers have masses."""
        return np.array([self.kinds[column].is_discrete for column in self.numerics], bool)

    @property
    def heaps(self) -> tuple[Heaps | None, ...]:
        """Heaps of the numbers."""
        return tuple(self.kinds[column].heaps for column in self.numerics)

    @property
    def support(self) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Where the numbers' cells, or their densities, begin and end."""
        ends = np.empty((2, len(self.numerics)))
        for place, column in enumerate(self.numerics):
            kind = self.kinds[column]
            low, high = (0.0, len(kind.levels) - 1.0) if kind.levels else kind.bounds
            half = 0.5 if kind.is_discrete else 0.0
            ends[:, place] = low - half, high + half
        return ends[0], ends[1]

    def split(self, rows: Float[np.ndarray, "n d"]) -> Parts:
        """Variables of the table's numbers."""
        codes = np.full((len(rows), len(self.categories)), np.nan)
        numbers = np.full((len(rows), len(self.numerics)), np.nan)
        outside = np.isinf(rows)
        for place, column in enumerate(self.categories):
            kind, values = self.kinds[column], rows[:, column]
            if kind.is_category:
                codes[:, place] = np.where(np.isfinite(values), values, np.nan)
                continue
            codes[:, place] = np.where(np.isfinite(values), float(len(kind.atoms)), np.nan)
            for code, atom in enumerate(kind.atoms):
                codes[values == atom, place] = code
        low, high = self.support
        for place, column in enumerate(self.numerics):
            kind, values = self.kinds[column], rows[:, column]
            there = np.isfinite(values) & ~np.isin(values, kind.atoms)
            numbers[there, place] = values[there]
            beyond = (values < low[place]) | (values > high[place])
            if kind.is_discrete:
                beyond |= values != np.rint(values)
            outside[:, column] |= there & beyond
        return Parts(codes, numbers, np.isnan(rows), outside)

    def join(
        self, codes: Float[np.ndarray, "n c"], numbers: Float[np.ndarray, "n m"]
    ) -> Float[np.ndarray, "n d"]:
        """The table's numbers of variables."""
        rows = np.full((len(codes), len(self.kinds)), np.nan)
        for place, column in enumerate(self.numerics):
            rows[:, column] = numbers[:, place]
        for place, column in enumerate(self.categories):
            kind, own = self.kinds[column], codes[:, place]
            if kind.is_category:
                rows[:, column] = own
                continue
            for code, atom in enumerate(kind.atoms):
                rows[own == code, column] = atom
        return rows

    @property
    def offsets(self) -> list[int]:
        """How many indicators stand before each category, and before the numbers."""
        found = [len(self.flagged)]
        for count in self.level_counts:
            found.append(found[-1] + count - 1)
        return found

    def indicators(self, parts: Parts) -> Float[np.ndarray, "n u"]:
        """Flags of what is missing, and indicators of all levels but the first."""
        columns = [parts.missing[:, column] for column in self.flagged]
        for place, count in enumerate(self.level_counts):
            columns += [parts.codes[:, place] == level for level in range(1, count)]
        return np.array(columns, float).reshape(len(columns), len(parts.codes)).T

    def category_terms_of(self, column: int) -> list[int]:
        """Which categories belong to a column of the table."""
        return [place for place, one in enumerate(self.categories) if one == column]


def layout_of(kinds: tuple[ColumnKind, ...]) -> Layout:
    """The chain of columns of these kinds: in the table's order within each group."""
    columns = range(len(kinds))
    numerics = [column for column in columns if not kinds[column].is_category]
    return Layout(
        kinds,
        tuple(c for c in columns if kinds[c].is_category or kinds[c].atoms),
        tuple(sorted(numerics, key=lambda column: not kinds[column].is_discrete)),
        tuple(column for column in columns if kinds[column].missing),
    )
