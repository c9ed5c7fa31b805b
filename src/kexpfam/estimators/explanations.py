"""Explanations of unusual rows, in the user's units and in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.data.columns import called
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import MixedTable
from kexpfam.model.expected import Expected
from kexpfam.notebook import html_table

__all__ = ["Explanation", "explained"]

# Sentences of a short form.
_SHOWN = 5


class Explanation(NamedTuple):
    """The column of each row that is most surprising given the others.

    If a detector finds that all values of a row agree with each other, the row is unusual as a
    whole, and the column is the one whose value is least likely by itself.

    | name     | shape  | meaning                                                             |
    |----------|--------|---------------------------------------------------------------------|
    | columns  | (n,)   | names of the columns, or their numbers as text                      |
    | values   | (n,)   | what stands there                                                   |
    | low      | (n,)   | where the expected range begins; of a category, the likeliest level |
    | high     | (n,)   | where it ends                                                       |
    | share    | (n,)   | the probability of the range, or of the level                       |
    | surprise | (n, d) | −log of the probability of a value that is no likelier, given the   |
    |          |        | others: 3 for one in twenty, 4.6 for one in a hundred               |
    | alone    | (n,)   | whether the range is that of the column by itself                   |
    """

    columns: list[str]
    values: list[Any]
    low: list[Any]
    high: list[Any]
    share: Float[np.ndarray, " n"]
    surprise: Float[np.ndarray, "n d"]
    labels: list[str]
    alone: Bool[np.ndarray, " n"]

    def expected(self) -> list[str]:
        """What was expected in each row, in words: a range, or a level with its probability."""
        words = []
        for low, high, share in zip(self.low, self.high, self.share, strict=True):
            one = f"{_shown(low)} to {_shown(high)}"
            if low == high:
                level = isinstance(low, str)
                one = f"{_shown(low)} ({100 * share:.0f} %)" if level else _shown(low)
            words.append(one)
        return words

    def __repr__(self) -> str:
        few = [f"  {sentence}" for sentence in self.in_words()[:_SHOWN]]
        more = [f"  … and {len(self.columns) - _SHOWN} more"] if len(self.columns) > _SHOWN else []
        return "\n".join([f"<Explanation of {len(self.columns)} rows", *few, *more]) + ">"

    def _repr_html_(self) -> str:
        cells = zip(self.columns, self.values, self.expected(), strict=True)
        rows = [(column, _shown(value), expected) for column, value, expected in cells]
        heads = ["Column", "Value", "Expected"]
        return html_table(f"What makes {len(rows)} rows unusual", heads, rows)

    def in_words(self) -> list[str]:
        """A sentence for each row."""
        cells = zip(self.labels, self.values, self.expected(), self.alone, strict=True)
        return [
            f"{label} is {_shown(value)}, usually {expected}, and the other values agree with it"
            if alone
            else f"{label} is {_shown(value)}, expected {expected} given the other values"
            for label, value, expected, alone in cells
        ]


def _shown(value: Any) -> str:
    """Four digits, and large numbers without an exponent."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def explained(
    table: MixedTable,
    codes: Float[np.ndarray, "n d"],
    found: Expected,
    in_units: Callable[[float, int], float] = lambda number, _: number,
) -> Explanation:
    """Explanations of rows; `in_units` turns the density's number of a column into the user's."""
    names, columns = table.labels(), found.columns.tolist()

    def ends(numbers: Float[np.ndarray, " n"]) -> list[Any]:
        pairs = zip(numbers.tolist(), columns, strict=True)
        return [_end(table.kinds[column], in_units(number, column)) for number, column in pairs]

    return Explanation(
        [names[column] for column in columns],
        [_value(table.kinds[one], codes[row, one]) for row, one in enumerate(columns)],
        ends(found.low),
        ends(found.high),
        found.share,
        found.surprise,
        [called(column, table.names) for column in columns],
        found.alone,
    )


def _value(kind: ColumnKind, code: float) -> Any:
    """The value of a cell: a number, or the name of a level."""
    levels = kind.names()
    if levels is None or np.isnan(code):
        whole = _is_whole(kind) and code == np.rint(code)
        return int(code) if whole else float(code)
    return levels[int(code)] if np.isfinite(code) else "a level never seen"


def _end(kind: ColumnKind, number: float) -> Any:
    """An end of the expected range."""
    levels = kind.names()
    if levels is not None:
        return levels[int(np.clip(np.rint(number), 0, len(levels) - 1))]
    if np.isnan(number):
        return "another value"
    # Of whole numbers, whole ends.
    return round(number) if _is_whole(kind) else float(number)


def _is_whole(kind: ColumnKind) -> bool:
    return kind.is_discrete or "int" in kind.dtype.lower()
