"""How columns and pairs of columns differ, in figures and words, beside given p-values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.comparison.joined import JoinedTables
from kexpfam.comparison.result import ColumnChange, PairChange
from kexpfam.data.kinds import ColumnKind

__all__ = ["describe_column", "describe_pair", "one_sided_levels"]

_PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
_N_BINS, _MOST_LEVELS_NAMED = 24, 3
# A table with fewer rows that have both values has no figure of dependence.
_FEWEST_ROWS = 3


def describe_column(
    tables: JoinedTables, place: int, p_value: float, missing_p_value: float, level: float
) -> ColumnChange:
    """A column in both tables."""
    kind, column = tables.kinds[place], tables.codes[:, place]
    parts = [column[~tables.is_second], column[tables.is_second]]
    missing = float(np.isnan(parts[0]).mean()), float(np.isnan(parts[1]).mean())
    parts = [part[~np.isnan(part)] for part in parts]
    sentences: list[str] = []
    quantiles: Any = None
    if kind.is_category:
        bins, shares = _level_shares(kind, parts)
        distance = 0.5 * float(np.abs(np.subtract(*shares)).sum())
        sentences += _levels_in_words(bins, shares)
    else:
        bins, shares = _histogram(kind, parts)
        distance = _largest_difference(*parts)
        quantiles = tuple(_quantiles(kind, part) for part in parts)
        sentences += _numbers_in_words(quantiles)
    if missing_p_value <= level:
        words = f"missing {_percent(missing[0])} → {_percent(missing[1])}"
        sentences = [*sentences, words] if p_value <= level else [words]
    return ColumnChange(
        tables.names[place],
        kind.kind,
        p_value,
        missing_p_value,
        distance,
        missing,
        quantiles,
        bins,
        (tuple(shares[0].tolist()), tuple(shares[1].tolist())),
        "; ".join(sentences),
    )


def _numbers(kind: ColumnKind, codes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Codes as numbers: the levels of a grade, where they are numbers."""
    if kind.levels and kind.family == "number":
        return np.array(kind.levels, float)[codes.astype(int)]
    return codes


def _quantiles(kind: ColumnKind, part: Float[np.ndarray, " n"]) -> tuple[float, ...] | None:
    if not len(part):
        return None
    found = np.quantile(part, _PROBABILITIES, method="inverted_cdf")
    return tuple(_numbers(kind, found).tolist())


def _histogram(
    kind: ColumnKind, parts: Sequence[Float[np.ndarray, " n"]]
) -> tuple[tuple[Any, ...], list[Float[np.ndarray, " b"]]]:
    """Shares of bins between quantiles 0.5 and 99.5 %; what is beyond is in the outermost bins."""
    both = np.concatenate(parts)
    if kind.levels:
        names = kind.names() or []
        counts = [np.bincount(part.astype(int), minlength=len(names)) for part in parts]
        return tuple(names), [_shares(count) for count in counts]
    low, high = np.quantile(both, [0.005, 0.995])
    if not low < high:
        low, high = float(both.min()), float(both.max())
    if kind.is_discrete and high - low <= 2 * _N_BINS:
        edges = np.arange(np.floor(low), np.ceil(high) + 2) - 0.5
    elif low < high:
        edges = np.linspace(low, high, _N_BINS + 1)
    else:
        edges = low + np.array([-0.5, 0.5])
    counts = [np.histogram(np.clip(part, edges[0], edges[-1]), edges)[0] for part in parts]
    return tuple(edges.tolist()), [_shares(count) for count in counts]


def _level_shares(
    kind: ColumnKind, parts: Sequence[Float[np.ndarray, " n"]]
) -> tuple[tuple[str, ...], list[Float[np.ndarray, " b"]]]:
    names = tuple(kind.names() or ())
    counts = [np.bincount(part.astype(int), minlength=len(names)) for part in parts]
    return names, [_shares(count) for count in counts]


def _shares(counts: np.ndarray) -> Float[np.ndarray, " b"]:
    return counts / max(1, counts.sum())


def _largest_difference(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " m"]) -> float:
    """The largest difference of two distribution functions (Kolmogorov and Smirnov)."""
    if not len(first) or not len(second):
        return 0.0
    at = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(one), at, side="right") / len(one) for one in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def _numbers_in_words(quantiles: Any) -> list[str]:
    if None in quantiles:
        return []
    (low_a, _, mid_a, _, high_a), (low_b, _, mid_b, _, high_b) = quantiles
    return [
        f"median {mid_a:.4g} → {mid_b:.4g}, middle 90 % {low_a:.4g} to {high_a:.4g} → {low_b:.4g} "
        f"to {high_b:.4g}"
    ]


def _levels_in_words(names: Sequence[str], shares: Sequence[Float[np.ndarray, " b"]]) -> list[str]:
    order = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")[:_MOST_LEVELS_NAMED]
    words = []
    for place in order:
        before, after = shares[0][place], shares[1][place]
        remark = " (new)" if before == 0 < after else " (gone)" if after == 0 < before else ""
        words.append(f"{names[place]} {_percent(before)} → {_percent(after)}{remark}")
    return [", ".join(words)]


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def one_sided_levels(tables: JoinedTables, labels: tuple[str, str]) -> list[str]:
    """Sentences on levels that only one of the tables has."""
    sentences = []
    for place, (kind, name) in enumerate(zip(tables.kinds, tables.names, strict=True)):
        if not kind.is_category:
            continue
        names, seen = kind.names() or [], []
        for rows in (~tables.is_second, tables.is_second):
            column = tables.codes[rows, place]
            seen.append({int(code) for code in np.unique(column[~np.isnan(column)])})
        for side, label in enumerate(labels):
            there = sorted(seen[side] - seen[1 - side])
            # What is rare is pooled, and the pool is no level.
            only = [names[code] for code in there if code < len(kind.levels)]
            if only and seen[1 - side]:
                more = ", …" if len(only) > 5 else ""
                sentences.append(f"Only {label} has {name} = {', '.join(only[:5])}{more}.")
    return sentences


# -- pairs --------------------------------------------------------------------------------------


def describe_pair(tables: JoinedTables, places: tuple[int, int], p_value: float) -> PairChange:
    """The dependence of two columns in both tables."""
    is_category = [tables.kinds[place].is_category for place in places]
    measure = ("rank correlation", "correlation ratio", "Cramér's V")[sum(is_category)]
    strengths = tuple(
        _strength(tables.codes[rows][:, list(places)], is_category)
        for rows in (~tables.is_second, tables.is_second)
    )
    return PairChange(
        (tables.names[places[0]], tables.names[places[1]]),
        p_value,
        measure,
        strengths,  # type: ignore[arg-type]
        f"{measure} {strengths[0]:.2f} → {strengths[1]:.2f}",
    )


def _strength(rows: Float[np.ndarray, "n 2"], is_category: Sequence[bool]) -> float:
    rows = rows[~np.isnan(rows).any(axis=1)]
    if len(rows) < _FEWEST_ROWS:
        return float("nan")
    if not any(is_category):
        first, second = (_ranks(column) for column in rows.T)
        spread = first.std() * second.std()
        return float((first * second).mean() / spread) if spread > 0 else float("nan")
    if all(is_category):
        return _cramer(rows)
    levels = rows[:, 0 if is_category[0] else 1].astype(int)
    ranks = _ranks(rows[:, 1 if is_category[0] else 0])
    counts = np.bincount(levels)
    means = np.bincount(levels, ranks) / np.maximum(counts, 1)
    total = ranks.var()
    return float(np.sqrt((counts * means**2).sum() / len(rows) / total)) if total else float("nan")


def _ranks(column: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Centered ranks, the middle one for equal values."""
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[places]
    return ranks - ranks.mean()


def _cramer(rows: Float[np.ndarray, "n 2"]) -> float:
    sizes = rows.max(axis=0).astype(int) + 1
    counts = np.zeros(sizes)
    np.add.at(counts, tuple(rows.T.astype(int)), 1.0)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    smaller = min(counts.shape) - 1
    if smaller < 1:
        return float("nan")
    square = ((counts - expected) ** 2 / expected).sum()
    return float(np.sqrt(square / counts.sum() / smaller))
