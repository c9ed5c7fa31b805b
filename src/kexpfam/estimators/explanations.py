"""Why rows are unusual, in the user's units and in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kexpfam.choices import share as checked_share
from kexpfam.data.columns import called
from kexpfam.model.expected import expected_values
from kexpfam.pipeline.anomalies import AnomalyFit

__all__ = ["Explanation", "explained"]


class Explanation(NamedTuple):
    """One column of each row that is least expected given the others.

    | name     | shape  | meaning                                                             |
    |----------|--------|---------------------------------------------------------------------|
    | columns  | (n,)   | names of the columns, or their numbers as text                      |
    | values   | (n,)   | what stands there                                                   |
    | low      | (n,)   | where the expected range begins; of a category, the likeliest level |
    | high     | (n,)   | where it ends                                                       |
    | share    | (n,)   | the probability of the range, or of the level                       |
    | surprise | (n, d) | −log of the probability of a value that is no likelier, given the   |
    |          |        | others: 3 for one in twenty, 4.6 for one in a hundred               |
    """

    columns: list[str]
    values: list[Any]
    low: list[Any]
    high: list[Any]
    share: Float[np.ndarray, " n"]
    surprise: Float[np.ndarray, "n d"]
    labels: list[str]

    def in_words(self) -> list[str]:
        """A sentence for each row."""
        sentences = []
        for label, value, low, high, share in zip(
            self.labels, self.values, self.low, self.high, self.share, strict=True
        ):
            expected = f"{_shown(low)} to {_shown(high)}"
            if low == high:
                level = isinstance(low, str)
                expected = f"{_shown(low)} ({100 * share:.0f} %)" if level else _shown(low)
            sentences.append(
                f"{label} is {_shown(value)}, expected {expected} given the other values"
            )
        return sentences


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def explained(
    fit: AnomalyFit, codes: Float[np.ndarray, "n d"], folds: Int[np.ndarray, " n"], coverage: float
) -> Explanation:
    """Of rows, each by the densities without its fold."""
    coverage = checked_share("coverage", coverage)
    table, numbers = fit.table, fit.numbers(codes)
    names = table.labels()
    columns, shares = np.zeros(len(codes), int), np.zeros(len(codes))
    ends, surprise = np.full((2, len(codes)), np.nan), np.zeros(codes.shape)
    for fold in np.unique(folds):
        members = np.flatnonzero(folds == fold)
        density = fit.density.experts[0][fold]
        found = expected_values(density, numbers[members], fit.density.n_rows, coverage)
        columns[members], surprise[members] = found.columns, found.surprise
        ends[:, members], shares[members] = (found.low, found.high), found.share
    low, high = (
        [_end(fit, end[row], column) for row, column in enumerate(columns)] for end in ends
    )
    return Explanation(
        [names[column] for column in columns],
        [_value(fit, codes[row, column], column) for row, column in enumerate(columns)],
        low,
        high,
        shares,
        surprise,
        [called(int(column), table.names) for column in columns],
    )


def _value(fit: AnomalyFit, code: float, column: int) -> Any:
    """What stands in a cell: a number, or the name of a level."""
    levels = fit.table.kinds[column].names()
    if levels is None or np.isnan(code):
        whole = "int" in fit.table.kinds[column].dtype.lower() and code == np.rint(code)
        return int(code) if whole else float(code)
    return levels[int(code)] if np.isfinite(code) else "a level never seen"


def _end(fit: AnomalyFit, number: float, column: int) -> Any:
    """An end of the expected range in the user's units."""
    kind = fit.table.kinds[column]
    levels = kind.names()
    if levels is not None and kind.is_category:
        return levels[int(number)]
    own = float(fit.tails.backward(np.full((1, len(fit.tails.scale)), number))[0, column])
    if levels is None:
        # Of whole numbers, whole ends.
        return round(own) if "int" in kind.dtype.lower() else own
    return levels[int(np.clip(np.rint(own), 0, len(levels) - 1))]
