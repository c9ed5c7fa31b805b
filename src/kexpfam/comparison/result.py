"""What a comparison of two tables found, for people, programs and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["ColumnChange", "Divergence", "PairChange", "TableComparison"]

_MOST_SHOWN = 10


@dataclass(frozen=True)
class ColumnChange:
    """How one column differs between the tables.

    Attributes
    ----------
    name, kind : str
    p_value : float
        Of its values, corrected for all columns.
    missing_p_value : float
        Of its empty cells, corrected along; one where there are none.
    distance : float
        Between 0 and 1: the largest difference of the two distribution functions, or for categories
        half the sum of the differences of all shares (total variation).
    missing : tuple of two floats
        The share of empty cells in each table.
    quantiles : tuple of two tuples, or None
        5, 25, 50, 75 and 95 % of the numbers of each table; None for categories, and for a table
        without numbers.
    bins : tuple
        Edges of a histogram, or the levels of a category.
    shares : tuple of two tuples
        The share of each bin among the values that are present, for each table.
    in_words : str
    """

    name: str
    kind: str
    p_value: float
    missing_p_value: float
    distance: float
    missing: tuple[float, float]
    quantiles: tuple[tuple[float, ...] | None, tuple[float, ...] | None] | None
    bins: tuple[Any, ...]
    shares: tuple[tuple[float, ...], tuple[float, ...]]
    in_words: str

    @property
    def smallest_p_value(self) -> float:
        """The smaller p-value of values and of empty cells."""
        return min(self.p_value, self.missing_p_value)


@dataclass(frozen=True)
class PairChange:
    """How the dependence of two columns differs between the tables.

    Attributes
    ----------
    names : tuple of two strings
    p_value : float
        Corrected for all pairs.
    measure : {"rank correlation", "correlation ratio", "Cramér's V"}
        What `strengths` are: of two numbers, of a number and a category, of two categories.
    strengths : tuple of two floats
        In each table; NaN where it has too few rows with both values.
    in_words : str
    """

    names: tuple[str, str]
    p_value: float
    measure: str
    strengths: tuple[float, float]
    in_words: str


@dataclass(frozen=True)
class Divergence:
    """Kullback–Leibler divergences in nats per row, estimated by densities of other rows.

    Attributes
    ----------
    first_from_second, second_from_first : float
        The mean of log p_A − log p_B over rows of A, and of log p_B − log p_A over rows of B.
    first_error, second_error : float
        Their standard errors, by rows and by the densities' own chance.
    n_training : int
        How many rows each density was fitted to.
    n_rows : tuple of two ints
        How many rows of each table were averaged over.
    """

    first_from_second: float
    first_error: float
    second_from_first: float
    second_error: float
    n_training: int
    n_rows: tuple[int, int]


@dataclass(frozen=True)
class TableComparison:
    """What `compare` found.

    Attributes
    ----------
    p_value : float
        Of the hypothesis that the rows of both tables come from one distribution.
    level : float
        What p-values are held against in `differ`, `moved_columns` and `moved_pairs`.
    groups : dict
        The same p-value by single columns, pairs, residuals of columns given the others,
        triples, and whole rows alone.
    columns : tuple of ColumnChange
        All columns, the surest change first.
    pairs : tuple of PairChange
        All pairs that were tested, with the most significant change first.
    divergence : Divergence or None
        How far apart the tables are; None if that was not asked for or could not be estimated.
    n_rows : tuple of two ints
    n_permutations : int
        No p-value is below 1 / (1 + n_permutations).
    notes : tuple of str
        What else to know: rows that were left out, levels that only one table has.
    labels : tuple of two strings
        What the tables are called.
    """

    p_value: float
    level: float
    groups: dict[str, float]
    columns: tuple[ColumnChange, ...]
    pairs: tuple[PairChange, ...]
    divergence: Divergence | None
    n_rows: tuple[int, int]
    n_permutations: int
    notes: tuple[str, ...]
    labels: tuple[str, str]

    @property
    def differ(self) -> bool:
        """Whether the p-value is at most the level."""
        return self.p_value <= self.level

    @property
    def moved_columns(self) -> tuple[ColumnChange, ...]:
        """Columns whose corrected p-value is at most the level."""
        return tuple(one for one in self.columns if one.smallest_p_value <= self.level)

    @property
    def moved_pairs(self) -> tuple[PairChange, ...]:
        """Pairs of columns whose corrected p-value is at most the level."""
        return tuple(one for one in self.pairs if one.p_value <= self.level)

    @property
    def in_words(self) -> str:
        """The answer, in a sentence."""
        figure = _p_value(self.p_value, self.n_permutations)
        if self.differ:
            return f"The tables differ ({figure})."
        return (
            f"No sign that the tables differ ({figure}). (This does not prove that they are "
            "the same: small differences need many rows.)"
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as dictionaries, lists, numbers and text, as JSON has them."""
        found = asdict(self)
        found |= {
            "differ": self.differ,
            "in_words": self.in_words,
            "moved_columns": [one.name for one in self.moved_columns],
            "moved_pairs": [list(one.names) for one in self.moved_pairs],
        }
        return _listed(found)

    def lines(self) -> list[str]:
        """All that matters, as lines of text."""
        first, second = self.labels
        lines = [
            f"{first} ({self.n_rows[0]} rows) and {second} ({self.n_rows[1]} rows), "
            f"{len(self.columns)} columns",
            self.in_words,
            *_divergence_lines(self.divergence, self.labels),
        ]
        moved = self.moved_columns
        if moved:
            lines.append(
                f"{_counted(moved, 'column')} moved (p-values are corrected for all columns):"
            )
            lines += _table([(one.smallest_p_value, one.name, one.in_words) for one in moved])
        elif self.differ:
            lines.append("No single column changed significantly.")
        pairs = self.moved_pairs
        if pairs:
            lines.append(f"{_counted(pairs, 'pair')} moved beyond what single columns explain:")
            lines += _table([(one.p_value, " × ".join(one.names), one.in_words) for one in pairs])
        return [*lines, *(f"Note: {note}" for note in self.notes)]

    def __str__(self) -> str:
        """The same in one piece."""
        return "\n".join(self.lines())


def _p_value(p_value: float, n_permutations: int) -> str:
    least = 1 / (1 + n_permutations)
    return f"p-value at most {least:.2g}" if p_value <= least * 1.0001 else f"p-value {p_value:.2g}"


def _counted(items: Sequence[Any], noun: str) -> str:
    return f"{len(items)} {noun}" if len(items) == 1 else f"{len(items)} {noun}s"


def _table(cells: Sequence[tuple[float, str, str]]) -> list[str]:
    width = max(len(name) for _, name, _ in cells[:_MOST_SHOWN])
    lines = [f"  {name:<{width}}  p {p:<6.2g}  {words}" for p, name, words in cells[:_MOST_SHOWN]]
    more = len(cells) - _MOST_SHOWN
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _divergence_lines(found: Divergence | None, labels: tuple[str, str]) -> list[str]:
    if found is None:
        return []
    first, second = labels
    return [
        f"Divergence of {first} from {second}: {found.first_from_second:.3f} "
        f"± {found.first_error:.3f} nats per row; of {second} from {first}: "
        f"{found.second_from_first:.3f} ± {found.second_error:.3f}"
    ]


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _listed(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_listed(one) for one in value]
    return value
