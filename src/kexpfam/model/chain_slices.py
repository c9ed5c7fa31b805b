"""Every number of a row in its conditional distribution, given the columns before it.

What a chain is made of, and where values lie in it; `kexpfam.model.chain` makes log densities of
it, and `kexpfam.model.chain_draws` draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.line import OnLine, on_line, points_on_line
from kexpfam.base.live import walk_live, walk_live_to
from kexpfam.base.ordered import (
    BLOCK_NUMBERS,
    Column,
    Factors,
    OrderedMixture,
    Walked,
    patterns_of,
)
from kexpfam.data.layout import Layout, Parts
from kexpfam.data.marginals import Marginals
from kexpfam.model.chain_terms import CategoryTerm, Holes, Inputs, NumberTerm, Scores
from kexpfam.model.number_maps import NumberMaps

__all__ = ["Chain"]


# How far beyond the rows fitted to numbers are drawn, in units of the maps: about a half of a
# standard deviation.
_BEYOND = 0.5
# Numbers of one column in a block at least: with fewer, threads would wait for Python's lock.
_COLUMN_NUMBERS = 16_000


@dataclass(frozen=True)
class Chain:
    """Shares of levels, a mixture of the numbers, and the terms beside them.

    `seen` are the smallest and the largest of the mapped numbers that were fitted to, `holes` what
    was missing in those rows.
    """

    columns_of_its_own: ClassVar[bool] = True
    fields_added: ClassVar[tuple[str, ...]] = ("holes",)

    layout: Layout
    scores: Scores
    marginals: Marginals | None
    mixture: OrderedMixture | None
    category_terms: tuple[CategoryTerm, ...]
    number_terms: tuple[NumberTerm, ...]
    seen: Float[np.ndarray, "two m"] | None = None
    holes: Holes | None = None

    @cached_property
    def _factors(self) -> Factors:
        assert self.mixture is not None
        return self.mixture.factors(np.ones(self.mixture.means.shape[1], bool))

    @property
    def maps(self) -> NumberMaps:
        """The maps of all numbers."""
        assert self.marginals is not None
        return NumberMaps(self.layout.heaps, self.marginals)

    @cached_property
    def support(self) -> Float[np.ndarray, "two m"]:
        """Where the mapped numbers begin and end."""
        return np.stack([self._mapped_ends(end) for end in self.layout.support])

    @cached_property
    def drawn_between(self) -> Float[np.ndarray, "two m"]:
        """Where drawn numbers begin and end.

        What little lies beyond the rows would come back through exponential maps as numbers of any
        size, and the columns after would follow it.
        """
        low, high = self.support
        if self.seen is None:
            return self.support
        smallest, largest = self.seen
        return np.stack([np.maximum(low, smallest - _BEYOND), np.minimum(high, largest + _BEYOND)])

    def _mapped_ends(self, ends: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        finite = np.isfinite(ends)
        mapped = self.mapped(np.where(finite, ends, 0.0)[None])[0]
        return np.where(finite, mapped, ends)

    def mapped(self, numbers: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Numbers after their monotone maps; NaN stays."""
        return numbers if self.marginals is None else self.maps.forward(numbers)

    def plain(self, numbers: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Numbers, only standardized."""
        return numbers if self.marginals is None else self.maps.plain(numbers)

    def inputs(self, parts: Parts) -> Inputs:
        """What the terms of rows depend on."""
        indicators, mapped = self.layout.indicators(parts), self.mapped(parts.numbers)
        columns = np.array(self.layout.numerics, int)
        others = np.setdiff1d(np.arange(len(self.layout.kinds)), columns)
        new = np.setdiff1d(np.arange(len(self.layout.kinds)), self.layout.flagged)
        gone, strange = parts.missing.copy(), np.zeros_like(parts.missing)
        strange[:, new] = parts.missing[:, new]
        before = np.tri(len(columns), k=-1, dtype=bool).T
        known, familiar = (
            ~((one[:, columns] @ before) | one[:, others].any(axis=1, keepdims=True))
            for one in (gone, strange)
        )
        return Inputs(indicators, mapped, self.plain(parts.numbers), known, familiar)

    def atoms(self, parts: Parts) -> Bool[np.ndarray, "n m"]:
        """Which numbers are not there because an atom is."""
        found = np.zeros(parts.numbers.shape, bool)
        for number, column in enumerate(self.layout.numerics):
            for place in self.layout.category_terms_of(column):
                found[:, number] = parts.codes[:, place] < len(self.layout.kinds[column].atoms)
        return found

    def edges(
        self, numbers: Float[np.ndarray, "n m"], mapped: Float[np.ndarray, "n m"]
    ) -> Float[np.ndarray, "three n m"]:
        """Both ends of the numbers' cells, mapped, and the logarithms of what is between them.

        The numbers themselves, and nothing, where they have no cells. A map can be so flat that
        both ends are one number.
        """
        edges = np.stack([mapped, mapped, np.full_like(mapped, -np.inf)])
        lattice = self.layout.is_lattice
        if lattice.any():
            low, high = self.support
            for side, move, end in ((0, -0.5, low), (1, 0.5, high)):
                moved = self.mapped(numbers + move)
                # The last cells of grades reach as far as the mixture does.
                last = numbers + move == self.layout.support[side]
                edges[side] = np.where(lattice, np.where(last, end, moved), edges[side])
            edges[2, :, lattice] = self.maps.log_slopes(numbers, mapped)[:, lattice].T
        return edges

    def walked(self, inputs: Inputs) -> Iterator[tuple[Walked, np.ndarray]]:
        """Conditionals of the mixture, for some rows after the other, and which rows they are."""
        for factors, rows, some in self._blocks(inputs):
            yield walk_live(factors, rows), some

    def conditionals(self, inputs: Inputs, number: int) -> Iterator[tuple[Column, np.ndarray]]:
        """The same of one number."""
        place = self.scores.directions.shape[1] + number
        for factors, rows, some in self._blocks(inputs, place + 1):
            yield walk_live_to(factors, rows, place), some

    def _blocks(
        self, inputs: Inputs, count: int | None = None
    ) -> Iterator[tuple[Factors, Float[np.ndarray, "j w"], np.ndarray]]:
        """Some rows after the other, the factors of the values that are present in them, and which
        they are.

        Of the first `count` columns, if given.
        """
        assert self.mixture is not None
        rows = np.concatenate([self.scores(inputs.indicators), inputs.mapped], axis=1)
        count = rows.shape[1] if count is None else count
        n_components = len(self.mixture.weights)
        size = max(
            32 if self._factors.polynomials is not None else 16,
            BLOCK_NUMBERS // (rows.shape[1] * n_components),
            _COLUMN_NUMBERS // n_components,
        )
        for there, members in patterns_of(~np.isnan(rows)):
            factors = self._factors if there.all() else self.mixture.factors(there)
            factors = factors.first(count)
            for start in range(0, len(members), size):
                some = members[start : start + size]
                known = np.where(there, rows[some], 0.0)
                yield factors, known[:, : len(factors.deviations)], some

    def mixture_lines(
        self, inputs: Inputs, edges: Float[np.ndarray, "three n m"], wanted: Mapping[int, bool]
    ) -> Float[np.ndarray, "m four n"]:
        """Where numbers lie in the mixture's conditionals: the parts of an `OnLine` each.

        `wanted` says of columns whether their masses are wanted, too. Without them, of points
        between no ends, all that is right is the density.
        """
        first, lattice = self.scores.directions.shape[1], self.layout.is_lattice
        found = np.full((edges.shape[2], 4, len(inputs.mapped)), np.nan)
        found[:, 1], found[:, 2:] = -np.inf, 0.5
        for walked, some in self.walked(inputs):
            # These rows have the same columns.
            there = ~np.isnan(inputs.mapped[some[0]])
            for number, masses in wanted.items():
                if not there[number]:
                    continue
                density = walked.log_density[:, first + number]
                if not masses:
                    found[number, 0, some] = density
                    continue
                log_weights, residuals, deviations = walked.columns[first + number]
                if self.is_open[number]:
                    line = points_on_line(log_weights, residuals, density)
                else:
                    line = on_line(
                        log_weights,
                        inputs.mapped[some, number][:, None] - deviations * residuals,
                        deviations,
                        (edges[0, some, number], edges[1, some, number]),
                        tuple(self.support[:, number].tolist()),
                        bool(lattice[number]),
                        density,
                        edges[2, some, number],
                    )
                found[number][:, some] = np.stack(line)
        return found

    def with_bell(
        self, line: OnLine, inputs: Inputs, number: int, edges: Float[np.ndarray, "three n"]
    ) -> OnLine:
        """Numbers of a column where they lie in the mixture's conditional, with the bell stacked.

        Without masses as above.
        """
        term = self.number_terms[number]
        if term.location is None:
            return line
        before = inputs.before(number, term.plain)
        if self.needs_masses(number):
            bell = on_line(
                *term.bell(before),
                (edges[0], edges[1]),
                tuple(self.support[:, number].tolist()),
                bool(self.layout.is_lattice[number]),
                log_widths=edges[2],
            )
        else:
            bell = line._replace(density=term.bell_log_density(before, edges[0]))
        return line.stacked(bell, term.share * inputs.known[:, number])

    def needs_masses(self, number: int) -> bool:
        """Whether a column has masses, ends or a tilt: otherwise its density is enough."""
        tilted = self.number_terms[number].functions is not None
        return tilted or not bool(self.is_open[number])

    @cached_property
    def is_open(self) -> Bool[np.ndarray, " m"]:
        """Which columns have points between no ends."""
        return ~np.isfinite(self.support).any(axis=0) & ~self.layout.is_lattice
