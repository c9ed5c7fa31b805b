"""Are synthetic rows nearer to the training rows than fresh rows of the same source are?

The distance of two rows is a mean over columns,

    D(x, t) = 1/d Σ_j D_j(x_j, t_j),      D_j = |x_j − t_j| / s_j     of numbers,
                                          D_j = 1[x_j ≠ t_j]          of categories,

with s_j the interquartile range of the training rows over 1.349, a standard deviation of normal
numbers. Two missing values are at distance 0, a missing and a present one at distance 1. A
generator that learned the distribution and not the rows gives rows that are as far from the nearest
training row as held-out rows are; one that copies gives nearer ones. With δ the distance to the
nearest training row,

    nearer = P(δ of a synthetic row < δ of a held-out row) + ½ P(equal),

which is ½ where nothing is copied.

| symbol | name                | shape  |
|--------|---------------------|--------|
| t      | training            | (n, d) |
| x      | synthetic, held_out | (m, d) |
| s      | scales              | (d,)   |
| δ      | nearest             | (m,)   |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.choices import seeded, whole
from kexpfam.data.cells import library_of, rows_at
from kexpfam.data.columns import require_columns
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import MixedTable, read_mixed

__all__ = ["NearestRows", "nearest_row_distances", "privacy"]

_NORMAL_RANGE = 1.349
# Rows at this distance are the same but for the digits of a file.
_SAME = 1e-6
# With so many copies among held-out rows there is nothing to compare with.
_MOST_COPIES = 0.5
# Numbers of one block of distances.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class NearestRows:
    """Distances of synthetic and held-out rows to the nearest training row.

    Attributes
    ----------
    synthetic_median, synthetic_low : float
        The median and the 5 % quantile of synthetic rows' distances.
    held_out_median, held_out_low : float
        The same for held-out rows.
    nearer : float
        The probability that a synthetic row is nearer to a training row than a held-out row is; one
        half if nothing is copied.
    nearer_error : float
        Its standard error.
    below_low : float
        The share of synthetic rows nearer than 95 % of held-out rows; 0.05 where nothing is copied.
    copies, held_out_copies : float
        The share of rows that equal a training row in every column.
    n_rows : tuple of three ints
        The numbers of synthetic, training and held-out rows that were used.
    """

    synthetic_median: float
    synthetic_low: float
    held_out_median: float
    held_out_low: float
    nearer: float
    nearer_error: float
    below_low: float
    copies: float
    held_out_copies: float
    n_rows: tuple[int, int, int]

    @property
    def are_near(self) -> bool:
        """Whether synthetic rows are nearer than chance explains (three standard errors)."""
        return self.nearer > 0.5 + 3 * self.nearer_error

    @property
    def in_words(self) -> str:
        """The result in a sentence."""
        if self.held_out_copies >= _MOST_COPIES:
            return (
                f"{self.held_out_copies:.0%} of the held-out rows equal a training row. Give rows "
                "that the model was not fitted to; in a table with few different rows, look at "
                "the share of copies alone."
            )
        if self.are_near:
            return (
                f"Synthetic rows are nearer to training rows than held-out rows are, in "
                f"{self.nearer:.0%} of comparisons (50 % is expected). The model may repeat rows "
                "that it was fitted to."
            )
        return (
            "Synthetic rows are no nearer to training rows than held-out rows are "
            f"({self.nearer:.0%} of comparisons, 50 % is expected)."
        )

    def lines(self) -> list[str]:
        """The figures as lines of text."""
        return [
            f"{'distance to the nearest training row':<40} {'synthetic':>10} {'held out':>10}",
            f"{'  median':<40} {self.synthetic_median:>10.3g} {self.held_out_median:>10.3g}",
            f"{'  5 % quantile':<40} {self.synthetic_low:>10.3g} {self.held_out_low:>10.3g}",
            f"{'  exact copies':<40} {self.copies:>10.2%} {self.held_out_copies:>10.2%}",
            f"{'  nearer than 95 % of held-out rows':<40} {self.below_low:>10.2%} {0.05:>10.2%}",
            self.in_words,
        ]

    def __str__(self) -> str:
        """The same in one piece."""
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self) | {"are_near": self.are_near, "in_words": self.in_words}


def privacy(
    synthetic: Any,
    training: Any,
    held_out: Any,
    *,
    max_rows: int = 2000,
    random_state: Any = None,
) -> NearestRows:
    """Compare synthetic rows' distances to the nearest training row with held-out rows' distances.

    Held-out rows must come from the same source as the training rows and must not be part of the
    fit. The figures are no guarantee: even if rows are not copied, something about a person may be
    inferred from them.

    Parameters
    ----------
    synthetic, training, held_out : data frame or array of shape (n_samples, n_features)
        Numbers, categories and missing values. Columns of frames are found by name; those of
        `synthetic` count.
    max_rows : int, default=2000
        The largest number of synthetic and of held-out rows to use, chosen at random; all training
        rows are used.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    NearestRows

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam.metrics import privacy
    >>> training, held_out, fresh = np.random.default_rng(0).standard_normal((3, 400, 2))
    >>> privacy(fresh, training, held_out).are_near
    False
    >>> found = privacy(training[:100], training, held_out)
    >>> found.are_near, found.copies
    (True, 1.0)
    """
    most, generator = whole("max_rows", max_rows), seeded(random_state)
    names = None if library_of(synthetic) == "numpy" else [str(name) for name in synthetic.columns]
    training = _columns(training, names, "training")
    rows = [
        _some(_columns(table, names, label), most, generator)
        for table, label in ((synthetic, "synthetic"), (held_out, "held_out"))
    ]
    drawn, fresh = (nearest_row_distances(table, training) for table in rows)
    for label, found in (("synthetic", drawn), ("held_out", fresh), ("training", training)):
        if not len(found):
            raise ValueError(f"{label} must have at least one row; got none.")
    below = np.sort(fresh)
    less, equal = _counts(below, drawn)
    wins = 1 - (less + 0.5 * equal) / len(below)
    # Half of the variance of a rank sum comes from either side.
    mirrored_less, mirrored_equal = _counts(np.sort(drawn), fresh)
    mirrored = (mirrored_less + 0.5 * mirrored_equal) / len(drawn)
    low = float(np.quantile(fresh, 0.05))
    return NearestRows(
        float(np.median(drawn)),
        float(np.quantile(drawn, 0.05)),
        float(np.median(fresh)),
        low,
        float(wins.mean()),
        float(np.sqrt(wins.var() / len(drawn) + mirrored.var() / len(fresh))),
        float((drawn < low).mean()),
        float((drawn <= _SAME).mean()),
        float((fresh <= _SAME).mean()),
        (len(drawn), len(training), len(fresh)),
    )


def _counts(
    rising: Float[np.ndarray, " n"], values: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """For each value how many of the others are less, and how many equal."""
    left, right = (np.searchsorted(rising, values, side=side) for side in ("left", "right"))
    return left.astype(float), (right - left).astype(float)


def nearest_row_distances(rows: Any, training: Any) -> Float[np.ndarray, " m"]:
    """The distance of each row to the nearest training row: a mean over columns.

    Numbers are measured in robust units of the training rows (interquartile range / 1.349);
    categories that differ, and a value beside a missing one, count as one.

    Parameters
    ----------
    rows, training : data frame or array of shape (n_samples, n_features)

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> from kexpfam.metrics import nearest_row_distances
    >>> training = [[0.0, 0.0], [1.349, 4.0], [2.698, 8.0]]
    >>> nearest_row_distances([[1.349, 4.0], [3.698, 8.0]], training).round(3).tolist()
    [0.0, 0.5]
    """
    names = None if library_of(rows) == "numpy" else [str(name) for name in rows.columns]
    rows, training = _columns(rows, names, "rows"), _columns(training, names, "training")
    if len(training) == 0 or len(rows) == 0:
        return np.zeros(len(rows)) + np.inf
    table, known = read_mixed(training, names, np.ones(len(training)), None)
    table, known = _told_apart(table, training, known)
    asked = table.codes(rows)
    is_category = np.array([kind.is_category for kind in table.kinds])
    scales = _scales(known, is_category)
    nearest = np.empty(len(asked))
    step = max(1, _BLOCK // len(known))
    for start in range(0, len(asked), step):
        block = asked[start : start + step]
        nearest[start : start + step] = _distances(block, known, is_category, scales).min(axis=1)
    return nearest


def _told_apart(
    table: MixedTable, training: Any, known: Float[np.ndarray, "n d"]
) -> tuple[MixedTable, Float[np.ndarray, "n d"]]:
    """Rare levels as levels of their own: rows with two of them are no copies of each other."""

    def whole_vocabulary(kind: ColumnKind) -> ColumnKind:
        levels = (*kind.levels, *kind.pooled)
        return kind._replace(levels=levels, pooled=(), pooled_counts=())

    if not any(kind.pooled for kind in table.kinds):
        return table, known
    table = table._replace(kinds=tuple(map(whole_vocabulary, table.kinds)))
    return table, table.codes(training)


def _scales(
    known: Float[np.ndarray, "n d"], is_category: Bool[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Robust spreads of the numbers; the standard deviation where half of the values are equal."""
    scales = np.ones(known.shape[1])
    for place in np.flatnonzero(~is_category):
        values = known[~np.isnan(known[:, place]), place]
        if not len(values):
            continue
        spread = float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / _NORMAL_RANGE
        spread = spread if spread > 0 else float(values.std())
        scales[place] = spread if spread > 0 else 1.0
    return scales


def _distances(
    rows: Float[np.ndarray, "m d"],
    known: Float[np.ndarray, "n d"],
    is_category: Bool[np.ndarray, " d"],
    scales: Float[np.ndarray, " d"],
) -> Float[np.ndarray, "m n"]:
    total = np.zeros((len(rows), len(known)))
    for place, category in enumerate(is_category):
        one, other = rows[:, place, None], known[:, place]
        gone = np.isnan(one) != np.isnan(other)
        both = np.isnan(one) & np.isnan(other)
        apart = (one != other).astype(float) if category else np.abs(one - other) / scales[place]
        total += np.where(both, 0.0, np.where(gone, 1.0, apart))
    return total / rows.shape[1]


def _columns(table: Any, names: Sequence[str] | None, label: str) -> Any:
    """The named columns of a frame; an array as it is."""
    if names is None:
        return np.asarray(table)
    if library_of(table) == "numpy":
        raise ValueError(f"{label} must be a data frame, as the other tables are; got an array.")
    there = [str(name) for name in table.columns]
    require_columns(label, names, there)
    return table[list(names)]


def _some(table: Any, most: int, generator: np.random.Generator) -> Any:
    if len(table) <= most:
        return table
    places = np.sort(generator.choice(len(table), most, replace=False))
    return rows_at(table, places)
