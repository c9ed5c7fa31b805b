"""Which value of an unusual row to look at first, and what would be expected in its place.

Densities of real numbers have a surprise for every value, given all other values of its row
(`kexpfam.model.surprise`). A chain has terms: log p of a column given the columns before it. A term
is compared with the same term at draws of the model,

    surprise_j = −log P( term_j(draw) ≤ term_j(row) ),

so that columns with densities and with probabilities can be compared. What would be expected is the
distribution of the column given all others, by weighted draws.

| name     | shape  | meaning                                                          |
|----------|--------|------------------------------------------------------------------|
| columns  | (k,)   | the column with the largest surprise                             |
| surprise | (k, d) |                                                                  |
| expected | (k, 2) | ends of the central interval; twice the likeliest level          |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.data.kinds import ColumnKind
from kexpfam.estimators import TableConditional
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import number

__all__ = ["Suspects", "cell_in_words", "suspects_of"]

_DRAWS = 512


class Suspects(NamedTuple):
    """One value of each row, why it was chosen, and what would be expected."""

    columns: Int[np.ndarray, " k"]
    surprise: Float[np.ndarray, "k d"]
    measure: str
    expected: Float[np.ndarray, "k 2"]
    expected_in_words: list[str]
    in_words: str


def suspects_of(evidence: Evidence, rows: Float[np.ndarray, "k d"], coverage: float) -> Suspects:
    """By what the model's density can say of single values."""
    if hasattr(evidence.model.density_, "contributions"):
        return _by_terms(evidence, rows, coverage)
    return _by_surprise(evidence, rows, coverage)


def cell_in_words(value: float, kind: ColumnKind) -> str:
    """A value for people: a level by its name."""
    if np.isnan(value):
        return "missing"
    levels = kind.names()
    if levels is None:
        return number(value, 5)
    return levels[int(value)] if np.isfinite(value) else "unknown"


def _by_surprise(evidence: Evidence, rows: Float[np.ndarray, "k d"], coverage: float) -> Suspects:
    density = evidence.model.density_
    grids = density.column_grids(rows)
    surprise = grids.surprise()
    columns = surprise.argmax(axis=1)
    ends = [density.from_columns(end) for end in grids.interval(coverage)]
    expected = np.stack(ends)[:, np.arange(len(rows)), columns].T
    words = [f"{number(low)} to {number(high)}" for low, high in expected]
    return Suspects(
        columns,
        surprise,
        "surprise given the other values of the row",
        expected,
        words,
        "In bold: the value that is most surprising given the others of its row. Nine of ten "
        "values beside those others lie in the expected range.",
    )


def _by_terms(evidence: Evidence, rows: Float[np.ndarray, "k d"], coverage: float) -> Suspects:
    density = evidence.model.density_
    terms = density.contributions(rows)
    drawn = np.sort(density.contributions(evidence.draws), axis=0)
    below = np.stack(
        [np.searchsorted(drawn[:, j], terms[:, j], side="right") for j in range(rows.shape[1])],
        axis=1,
    )
    surprise = -np.log((below + 1) / (len(drawn) + 1))
    surprise[np.isnan(rows)] = 0.0
    surprise[_impossible(rows, evidence.kinds)] = np.inf
    columns = surprise.argmax(axis=1)
    expected, words = np.empty((len(rows), 2)), [""] * len(rows)
    generator = np.random.default_rng(evidence.seed)
    for column in np.unique(columns):
        places = np.flatnonzero(columns == column)
        found = TableConditional.drawn(
            evidence.model.fitted_, rows[places], [int(column)], _DRAWS, generator, None
        )
        expected[places], said = _expected(found, evidence, int(column), coverage)
        for place, text in zip(places, said, strict=True):
            words[place] = text
    return Suspects(
        columns,
        surprise,
        "term of the chain rule, beside the same term at draws",
        expected,
        words,
        "In bold: the value whose term of the chain rule, log p of the column given the columns "
        "before it in the chain, is lowest beside the same term at draws. What is expected is "
        "given all other values of the row: a range that holds nine of ten, or the likeliest "
        "level. A row with missing values has the log density of what is there.",
    )


def _impossible(
    rows: Float[np.ndarray, "k d"], kinds: tuple[ColumnKind, ...]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Values that have no probability: unknown levels, and numbers out of bounds."""
    low, high = np.array([kind.bounds for kind in kinds]).T
    return np.isinf(rows) | (rows < low) | (rows > high)


def _expected(
    found: TableConditional, evidence: Evidence, column: int, coverage: float
) -> tuple[Float[np.ndarray, "p 2"], list[str]]:
    label = found.fitted.table.labels()[column]
    levels = evidence.kinds[column].names()
    if levels is None:
        ends = found.quantiles(label, [(1 - coverage) / 2, (1 + coverage) / 2])
        return ends, [f"{number(low)} to {number(high)}" for low, high in ends]
    shares = np.stack(list(found.probabilities(label).values()), axis=1)
    best = shares.argmax(axis=1)
    words = [
        f"{levels[place]} ({100 * share:.0f} %)"
        for place, share in zip(best, shares.max(axis=1), strict=True)
    ]
    return np.stack([best, best], axis=1).astype(float), words
