"""The test: are the rows of two tables from one distribution, and where do they differ?

codes of all rows → functions of columns, pairs and whole rows (`functions`)
                  → their differences of means under all labels (`permutations`)
                  → evidence, p-values (`statistics`)

Pairs that seem to have moved are looked at again beside the moves of their columns (`additive`),
because the mean of a product also moves where those of both factors do. The larger of the two
p-values is a pair's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.comparison.additive import beyond_additive
from kexpfam.comparison.functions import (
    ColumnFunctions,
    column_functions,
    interactions,
    residuals,
    row_functions,
    triples,
)
from kexpfam.comparison.permutations import Relabelings, relabelings
from kexpfam.comparison.statistics import (
    category_evidence,
    combined,
    corrected,
    leveled,
    number_evidence,
    squares_evidence,
    two_sided,
)
from kexpfam.data.kinds import ColumnKind

__all__ = ["Evidence", "weighed"]

# Most changes are those of single columns; the weights are shares of what a level allows for.
_WEIGHTS = {"columns": 0.4, "pairs": 0.2, "residuals": 0.2, "triples": 0.1, "rows": 0.1}
_N_FREQUENCIES, _MOST_TRIPLES = 128, 300
# Pairs with p-values above this are not called moved at any level of use.
_LOOKED_AT_AGAIN = 0.2


class Evidence(NamedTuple):
    """p-values, those of columns and of pairs each corrected for all columns and all pairs.

    | name    | meaning                                                               |
    |---------|-----------------------------------------------------------------------|
    | p_value | of the hypothesis that all rows come from one distribution            |
    | groups  | the same by columns, pairs, residuals, triples and whole rows alone   |
    | values  | (d,)                                                                  |
    | missing | (d,), one where no cell is missing                                    |
    | pairs   | p-value of each pair of columns that was looked at                    |
    """

    p_value: float
    groups: dict[str, float]
    values: Float[np.ndarray, " d"]
    missing: Float[np.ndarray, " d"]
    pairs: dict[tuple[int, int], float]


def weighed(
    codes: Float[np.ndarray, "N d"],
    kinds: Sequence[ColumnKind],
    is_second: Bool[np.ndarray, " N"],
    pairs: Sequence[tuple[int, int]] | None,
    n_permutations: int,
    generator: np.random.Generator,
) -> Evidence:
    """Everything that permutations of the labels say; `pairs` None for all."""
    labels = relabelings(is_second, n_permutations, generator)
    columns = [column_functions(column, kind) for column, kind in zip(codes.T, kinds, strict=True)]
    holed = [place for place, one in enumerate(columns) if one.missing.shape[1]]
    figures = [_of_column(labels, one) for one in columns]
    figures += [_of_holes(labels, columns[place]) for place in holed]
    groups = {"columns": np.stack(figures, axis=1)}
    if pairs is None:
        pairs = list(combinations(range(len(columns)), 2))
    found = {pair: _of_pair(labels, columns[pair[0]], columns[pair[1]]) for pair in pairs}
    told = {pair: evidence for pair, evidence in found.items() if evidence is not None}
    if told:
        groups["pairs"] = np.stack(list(told.values()), axis=1)
    if len(columns) > 1:
        groups["residuals"] = two_sided(labels.differences(residuals(columns)))
    products = [labels.differences(one) for one in triples(columns, _MOST_TRIPLES, generator)]
    if products:
        groups["triples"] = two_sided(np.concatenate(products, axis=1))
    if len(columns) > 1:
        rows = [
            labels.differences(one) for one in row_functions(columns, _N_FREQUENCIES, generator)
        ]
        groups["rows"] = squares_evidence(np.concatenate(rows, axis=1))[:, None]
    p_value, alone = combined(list(groups.values()), [_WEIGHTS[name] for name in groups])
    of_columns = corrected(groups["columns"])
    missing = np.ones(len(columns))
    missing[holed] = of_columns[len(columns) :]
    of_pairs = _beside_columns(labels, columns, is_second, told) if told else {}
    return Evidence(
        p_value,
        dict(zip(groups, alone, strict=True)),
        of_columns[: len(columns)],
        missing,
        of_pairs,
    )


def _of_column(labels: Relabelings, column: ColumnFunctions) -> Float[np.ndarray, " B"]:
    z = labels.differences(column.values)
    return number_evidence(z) if column.is_number else category_evidence(z)


def _of_holes(labels: Relabelings, column: ColumnFunctions) -> Float[np.ndarray, " B"]:
    return two_sided(labels.differences(column.missing))[:, 0]


def _of_pair(
    labels: Relabelings, first: ColumnFunctions, second: ColumnFunctions
) -> Float[np.ndarray, " B"] | None:
    """The evidence of a pair, or None where the columns have no interaction."""
    found = interactions(first, second)
    if not found.shape[1]:
        return None
    return _pair_evidence(labels.differences(found))


def _pair_evidence(z: Float[np.ndarray, "B q"]) -> Float[np.ndarray, " B"]:
    """By the first product alone, which is that of the ranks' quantiles, or by all of them."""
    return leveled(np.maximum(squares_evidence(z), two_sided(z[:, 0])))


def _beside_columns(
    labels: Relabelings,
    columns: Sequence[ColumnFunctions],
    is_second: Bool[np.ndarray, " N"],
    told: dict[tuple[int, int], Float[np.ndarray, " B"]],
) -> dict[tuple[int, int], float]:
    """p-values of pairs; of those that are low, beside the moves of the columns."""
    evidence = np.stack(list(told.values()), axis=1)
    found = corrected(evidence)
    again = np.zeros(len(found))
    for place in np.flatnonzero(found <= _LOOKED_AT_AGAIN):
        first, second = (columns[column] for column in list(told)[place])
        functions = interactions(first, second)
        z = labels.differences(functions)
        additive = np.concatenate([first.additive, second.additive], axis=1)
        z[0] = beyond_additive(is_second, additive, functions)
        beside = evidence.copy()
        beside[0, place] = _pair_evidence(z)[0]
        again[place] = corrected(beside)[place]
    return dict(zip(told, np.maximum(found, again).tolist(), strict=True))
