"""`compare`: are two tables from one distribution, how far apart are they, and what moved?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from kexpfam.choices import seeded, whole
from kexpfam.choices import share as checked_share
from kexpfam.comparison.described import describe_column, describe_pair, one_sided_levels
from kexpfam.comparison.divergence import FEWEST_ROWS, estimate_divergence
from kexpfam.comparison.evidence import weighed
from kexpfam.comparison.joined import JoinedTables, join_tables
from kexpfam.comparison.result import Divergence, TableComparison
from kexpfam.progress import Progress
from kexpfam.types import Seed, Table

__all__ = ["compare"]

# Pairs of columns that are looked at, and how much work they may be: rows times pairs.
_MOST_PAIRS, _MOST_PAIR_ROWS = 1000, 20_000_000
_MOST_ROWS, _FEWEST_OF_MANY = 100_000, 5000


def compare(
    A: Table,
    B: Table,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    kinds: Mapping[str, Any] | str | None = None,
    level: float = 0.05,
    n_permutations: int = 999,
    divergence: bool = True,
    labels: tuple[str, str] = ("A", "B"),
    random_state: Seed = None,
    verbose: bool = False,
) -> TableComparison:
    """Compare two tables: a test, divergences, and which columns and pairs of columns moved.

    The test permutes the labels of the rows. It is exact for tables of any size: where all rows
    come from one distribution, the p-value is at most `level` with at most that probability. It
    looks at ranks and tails of numbers, shares of categories, empty cells, pairs and triples of
    columns, and whole rows.

    The divergences KL(A ‖ B) and KL(B ‖ A) are estimated out of sample, by `KernelChain` densities
    of other rows of both tables. They are estimates, not bounds: they can be negative where the
    tables are nearly the same, and too small where rows are few for the columns.

    Parameters
    ----------
    A, B : data frame or array of shape (n_samples, n_features)
        Tables with the same columns, in any order: numbers, categories, truth values and missing
        values.
    columns, exclude : sequence of str, optional
        The columns to compare, and those to leave out. Columns that only one table has must be left
        out.
    kinds : mapping, optional
        What columns are, where it is not what their values say, such as ``{"zip": "category"}``;
        see `KernelChain`.
    level : float, default=0.05
        What p-values are held against.
    n_permutations : int, default=999
        The smallest p-value is 1 / (1 + n_permutations).
    divergence : bool, default=True
        Whether to estimate divergences, which takes most of the time.
    labels : tuple of two strings, default=("A", "B")
        What the tables are called in words.
    random_state : int, RandomState, Generator or None, default=None
        Seed of permutations, samples and fits.
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    TableComparison
        With ``p_value``, ``differ``, ``columns``, ``pairs``, ``divergence``, ``notes``,
        ``to_dict()``; readable when printed. `kexpfam.plotting.plot_comparison` draws it.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from kexpfam import compare
    >>> generator = np.random.default_rng(0)
    >>> def week(rows, share_of_cards):
    ...     paid = np.where(generator.random(rows) < share_of_cards, "card", "cash")
    ...     return pd.DataFrame({"price": generator.gamma(2.0, 10.0, rows), "paid": paid})
    >>> found = compare(week(400, 0.5), week(300, 0.7), divergence=False, random_state=0)
    >>> found.differ, [column.name for column in found.moved_columns]
    (True, ['paid'])
    >>> compare(week(400, 0.5), week(300, 0.5), divergence=False, random_state=0).differ
    False
    """
    level = checked_share("level", level)
    n_permutations = whole("n_permutations", n_permutations, 19)
    first, second = map(str, labels)
    tables = join_tables(A, B, (first, second), columns, exclude, kinds)
    generator = seeded(random_state)
    notes = one_sided_levels(tables, (first, second))
    pairs = _pairs(tables, notes)
    tested = _thinned(tables, len(pairs), generator, notes)
    found = weighed(tested.codes, tested.kinds, tested.is_second, pairs, n_permutations, generator)
    changes = [
        describe_column(tables, place, float(values), float(missing), level)
        for place, (values, missing) in enumerate(zip(found.values, found.missing, strict=True))
    ]
    together = [describe_pair(tested, pair, p_value) for pair, p_value in found.pairs.items()]
    return TableComparison(
        found.p_value,
        level,
        found.groups,
        tuple(sorted(changes, key=lambda one: (one.smallest_p_value, -one.distance))),
        tuple(sorted(together, key=_sureness)),
        _divergence(tables, generator, Progress(verbose), notes) if divergence else None,
        tables.sizes,
        n_permutations,
        tuple(notes),
        (first, second),
    )


def _sureness(pair: Any) -> tuple[float, float]:
    change = abs(pair.strengths[1] - pair.strengths[0])
    return pair.p_value, -change if np.isfinite(change) else 0.0


def _pairs(tables: JoinedTables, notes: list[str]) -> list[tuple[int, int]]:
    """All pairs of columns, or the first of them in the tables' order."""
    pairs = list(combinations(range(len(tables.names)), 2))
    if len(pairs) <= _MOST_PAIRS:
        return pairs
    # The pairs of neighbors, then those of columns two places apart, and so on.
    pairs.sort(key=lambda pair: (pair[1] - pair[0], pair))
    notes.append(
        f"Of {len(pairs)} pairs of columns, {_MOST_PAIRS} were tested: those that are next to each "
        "other in the table. Compare fewer columns to see others."
    )
    return pairs[:_MOST_PAIRS]


def _thinned(
    tables: JoinedTables, n_pairs: int, generator: np.random.Generator, notes: list[str]
) -> JoinedTables:
    """At most this many rows of each table that the test is done in a minute or so."""
    most = max(_FEWEST_OF_MANY, min(_MOST_ROWS, _MOST_PAIR_ROWS // (2 * max(1, n_pairs))))
    if max(tables.sizes) <= most:
        return tables
    kept = []
    for side in (False, True):
        places = np.flatnonzero(tables.is_second == side)
        some = places if len(places) <= most else generator.choice(places, most, replace=False)
        kept.append(np.sort(some))
    notes.append(f"The test used at most {most} rows of each table, chosen at random.")
    rows = np.concatenate(kept)
    return tables._replace(codes=tables.codes[rows], is_second=tables.is_second[rows])


def _divergence(
    tables: JoinedTables, generator: np.random.Generator, progress: Progress, notes: list[str]
) -> Divergence | None:
    """How far apart the tables are, or a note why that cannot be said."""
    if min(tables.sizes) < FEWEST_ROWS:
        notes.append(
            f"Divergences need at least {FEWEST_ROWS} rows of each table, for densities and to "
            "judge by."
        )
        return None
    seed = int(generator.integers(2**31))
    try:
        found = estimate_divergence(tables, seed, generator, progress)
    except ValueError as error:
        notes.append(f"Divergences could not be estimated: {error}")
        return None
    if 2 * found.n_training < min(tables.sizes):
        notes.append(
            f"Divergences are estimated by densities of {found.n_training} rows each, chosen at "
            "random."
        )
    return found
