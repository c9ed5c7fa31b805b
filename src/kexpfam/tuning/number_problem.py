"""All that the terms of a number beside a chain's mixture are fitted to.

| name         | shape  | meaning                                                          |
|--------------|--------|------------------------------------------------------------------|
| places       | (j,)   | rows of the table where the number is there                      |
| inputs       | (j, i) | indicators, and the numbers before: mapped, or as they are       |
| known        | (j,)   | whether all of the inputs are present                              |
| targets      | (j,)   | the number, mapped, spread over its cell                         |
| line         | (j,)   | where it lies in the mixture's conditional, out of sample        |
| edges        | (3, j) | the ends of its cell, mapped, and the logarithm of its width     |
| within       | (j,)   | a place in the cell, from a hash of the row                      |
| values       | (j,)   | the number itself                                                |
| codes        | (j, c) | categories, with this many levels                                    |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.line import OnLine
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import Inputs
from kexpfam.tuning.table_rows import TableRows

__all__ = ["NumberProblem", "NumberProblems"]


class NumberProblem(NamedTuple):
    """Rows of one number's problem: those where it is there."""

    places: Int[np.ndarray, " j"]
    inputs: Float[np.ndarray, "j i"]
    plain_inputs: Float[np.ndarray, "j i"]
    known: Bool[np.ndarray, " j"]
    targets: Float[np.ndarray, " j"]
    line: OnLine
    edges: Float[np.ndarray, "three j"]
    support: tuple[float, float]
    cells: bool
    weights: Float[np.ndarray, " j"]
    within: Float[np.ndarray, " j"]
    values: Float[np.ndarray, " j"]
    codes: Float[np.ndarray, "j c"]
    level_counts: tuple[int, ...]

    def where(self, chosen: Bool[np.ndarray, " j"] | slice) -> NumberProblem:
        return self._replace(
            places=self.places[chosen],
            inputs=self.inputs[chosen],
            plain_inputs=self.plain_inputs[chosen],
            known=self.known[chosen],
            targets=self.targets[chosen],
            line=OnLine(*(part[chosen] for part in self.line)),
            edges=self.edges[:, chosen],
            weights=self.weights[chosen],
            within=self.within[chosen],
            values=self.values[chosen],
            codes=self.codes[chosen],
        )

    def seen(self, plain: bool) -> NumberProblem:
        """With the numbers before as they are, or mapped."""
        return self._replace(inputs=self.plain_inputs) if plain else self


class NumberProblems(NamedTuple):
    """What the problems of all numbers share: looked at once, for all columns together."""

    table: TableRows
    inputs: Inputs
    lines: Sequence[OnLine]
    targets: Float[np.ndarray, "n m"]
    edges: Float[np.ndarray, "three n m"]
    support: Float[np.ndarray, "two m"]

    @classmethod
    def of(
        cls, table: TableRows, density: ChainDensity, inputs: Inputs, lines: Sequence[OnLine]
    ) -> NumberProblems:
        """From rows, their coordinates and their places under a mixture."""
        return cls(
            table,
            inputs,
            lines,
            density.mapped(table.numbers),
            density.edges(table.parts.numbers, inputs.mapped),
            density.support if density.marginals is not None else np.zeros((2, 0)),
        )

    def of_number(self, number: int, members: Bool[np.ndarray, " n"]) -> NumberProblem:
        """All that a number's terms are fitted to."""
        table = self.table
        there = members & ~np.isnan(table.parts.numbers[:, number])
        low, high = self.support[:, number].tolist()
        return NumberProblem(
            np.flatnonzero(there),
            self.inputs.before(number, False)[there],
            self.inputs.before(number, True)[there],
            self.inputs.known[there, number],
            self.targets[there, number],
            OnLine(*(part[there] for part in self.lines[number])),
            self.edges[:, there, number],
            (low, high),
            bool(table.layout.is_lattice[number]),
            table.weights[there],
            table.uniform("place", number)[there],
            table.parts.numbers[there, number],
            table.parts.codes[there],
            tuple(table.layout.level_counts),
        )
