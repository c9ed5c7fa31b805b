"""All that the terms of a number beside a chain's mixture are fitted to.

| name         | shape  | meaning                                                          |
|--------------|--------|------------------------------------------------------------------|
| places       | (j,)   | rows of the table where the number is there                      |
| inputs       | (j, i) | indicators, and the numbers before: mapped, or as they are       |
| known        | (j,)   | whether all of the inputs are there                              |
| targets      | (j,)   | the number, mapped, spread over its cell                         |
| line         | (j,)   | where it lies in the mixture's conditional, out of sample        |
| edges        | (2, j) | the ends of its cell, mapped                                     |
| within       | (j,)   | a place in the cell, from a hash of the row                      |
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

__all__ = ["NumberProblem", "number_problem"]


class NumberProblem(NamedTuple):
    """Rows of one number's problem: those where it is there."""

    places: Int[np.ndarray, " j"]
    inputs: Float[np.ndarray, "j i"]
    plain_inputs: Float[np.ndarray, "j i"]
    known: Bool[np.ndarray, " j"]
    targets: Float[np.ndarray, " j"]
    line: OnLine
    edges: Float[np.ndarray, "two j"]
    support: tuple[float, float]
    cells: bool
    weights: Float[np.ndarray, " j"]
    within: Float[np.ndarray, " j"]

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
        )

    def seen(self, plain: bool) -> NumberProblem:
        """With the numbers before as they are, or mapped."""
        return self._replace(inputs=self.plain_inputs) if plain else self


def number_problem(
    table: TableRows,
    density: ChainDensity,
    inputs: Inputs,
    lines: Sequence[OnLine],
    number: int,
    members: Bool[np.ndarray, " n"],
) -> NumberProblem:
    """All that a number's terms are fitted to."""
    there = members & ~np.isnan(table.parts.numbers[:, number])
    edges = density.edges(table.parts.numbers, inputs.mapped)[:, there, number]
    targets = density.mapped(table.numbers)[there, number]
    low, high = density.support[:, number].tolist()
    return NumberProblem(
        np.flatnonzero(there),
        inputs.before(number, False)[there],
        inputs.before(number, True)[there],
        inputs.known[there, number],
        targets,
        OnLine(*(part[there] for part in lines[number])),
        edges,
        (low, high),
        bool(table.layout.is_lattice[number]),
        table.weights[there],
        table.uniform("place", number)[there],
    )
