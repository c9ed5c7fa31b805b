"""The kind of a column: read from its dtype and values, or given by the user.

Both use the tally of a column (`kexpfam.data.tallies`), so that it may have any number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kexpfam.choices import as_number, checked_name, shown
from kexpfam.data.heaps import Heaps, find_heaps
from kexpfam.data.kinds import KINDS, ColumnKind, KindName
from kexpfam.data.tallies import MOST_VALUES, MOST_WORDS, Numbers, Tally
from kexpfam.data.words import is_free_text

__all__ = ["kind_from", "kind_of"]

# With fewer values than this nothing is read from repetitions.
_FEWEST_VALUES = 20
# A value is an atom if this share of the values equal it, and it is so many times as frequent as
# other values are in the middle. Of whole numbers, which repeat by nature, more is asked.
_ATOM_SHARE, _ATOM_TIMES, _WHOLE_ATOM_SHARE, _WHOLE_ATOM_VALUES = 0.05, 10.0, 0.3, 20
# So many distinct numbers, each this often on average and none only once, are grades. Where some
# occur once there may be others that have not been seen, and as a grade these would be impossible.
_MOST_GRADES, _GRADE_TIMES, _ONCE = 10, 10, 1
# A bound is found where values come this near to it, in units of their range.
_NEAR = 0.02
# Categories with fewer values, or beyond so many, are pooled.
_FEWEST_OF_LEVEL, _MOST_LEVELS = 5, 48


def kind_of(tally: Tally, name: str) -> ColumnKind:
    """The kind of a column by its dtype and its values; weights count as repetitions."""
    _refuse(tally, name)
    common: dict[str, Any] = {"missing": tally.has_missing, "dtype": tally.dtype}
    if tally.family is None:
        raise ValueError(f"{_capitalized(name)} holds no values: all are missing. Leave it out.")
    if tally.family == "ordered":
        return ColumnKind("grade", levels=tuple(tally.levels or ()), **common)
    if tally.family == "number":
        assert tally.numbers is not None
        return _numeric_kind(tally.numbers)._replace(**common)
    if tally.family == "boolean":
        return ColumnKind("boolean", levels=(False, True), **common)
    counts = tally.counts()
    if is_free_text(len(counts), tally.n_values):
        raise ValueError(
            f"{_capitalized(name)} looks like free text or an identifier: {len(counts)} different "
            f"values in {tally.n_values} rows, such as {shown(str(next(iter(counts)))[:40])}. "
            "Leave it out, or make a category or numbers of it, such as a length. (If "
            "it is a category after all, say so: columns={name: 'category'}.)"
        )
    return _category(counts)._replace(**common)


def _refuse(tally: Tally, name: str) -> None:
    if tally.refusal is not None:
        raise ValueError(tally.refusal)
    if tally.is_crowded:
        raise ValueError(
            f"{_capitalized(name)} has more than {MOST_WORDS:,} different values, which are more "
            "than a category can have. Leave it out, or pool its values before."
        )


def _numeric_kind(numbers: Numbers) -> ColumnKind:
    distinct, masses = numbers.some
    total = masses.sum()
    if len(distinct) <= 2 and (total >= _FEWEST_VALUES or len(distinct) == 1):
        return ColumnKind("category", levels=tuple(map(_short, distinct)))
    are_whole = numbers.whole and max(-numbers.low, numbers.high) < 2**52
    atoms: tuple[float, ...] = ()
    if total >= _FEWEST_VALUES:
        share = _WHOLE_ATOM_SHARE if are_whole else _ATOM_SHARE
        least = max(share * numbers.total, _ATOM_TIMES * float(np.median(masses)))
        if not are_whole or len(distinct) > _WHOLE_ATOM_VALUES:
            atoms = tuple(numbers.frequent.values[numbers.frequent.masses > least].tolist())
    if are_whole:
        kind: KindName = "count" if numbers.low >= 0 else "whole"
        return ColumnKind(kind, _bounds_of(kind), atoms, heaps=_heaps(numbers, kind, atoms))
    often = total >= _GRADE_TIMES * len(distinct) and masses.min() > _ONCE
    if len(distinct) <= _MOST_GRADES and often:
        return ColumnKind("grade", levels=tuple(distinct.tolist()))
    bounds = -np.inf, np.inf
    if total >= _FEWEST_VALUES:
        bounds = _found_bounds(numbers, atoms)
    return ColumnKind("bounded" if np.isfinite(bounds).any() else "real", bounds, atoms)


def _found_bounds(numbers: Numbers, atoms: Sequence[float]) -> tuple[float, float]:
    """Zero, and one above it, where the values come near and none is beyond."""
    values, masses = numbers.some
    rest = ~np.isin(values, atoms)
    near, far = np.quantile(values[rest], [0.01, 0.99], weights=masses[rest], method="inverted_cdf")
    reach = _NEAR * (far - near)
    low, high = -np.inf, np.inf
    if numbers.low >= 0 and (near <= reach or 0.0 in atoms):
        low = 0.0
        if numbers.high <= 1 and (1 - far <= reach or 1.0 in atoms):
            high = 1.0
    return low, high


def _heaps(numbers: Numbers, kind: KindName, atoms: Sequence[float]) -> Heaps | None:
    """Heaps of the values that are not atoms; none if there are too many values to count."""
    if not numbers.complete:
        return None
    values, masses = numbers.some
    rest = ~np.isin(values, atoms)
    return find_heaps(values[rest], masses[rest], _bounds_of(kind)[0])


def _bounds_of(kind: KindName) -> tuple[float, float]:
    return (0.0, np.inf) if kind == "count" else (-np.inf, np.inf)


def _category(counts: dict[Any, float]) -> ColumnKind:
    """Frequent levels, in their own order, and the pool of the others."""
    order = sorted(counts, key=lambda level: (-counts[level], str(level)))
    kept = [level for level in order[:_MOST_LEVELS] if counts[level] >= _FEWEST_OF_LEVEL]
    if not kept:
        # There must be something that is not pooled.
        kept = [level for level in order if counts[level] > 1] or order
    rare = [level for level in order if level not in set(kept)]
    rare.sort(key=str)
    return ColumnKind(
        "category",
        levels=tuple(sorted(kept, key=str)),
        pooled=tuple(rare),
        pooled_counts=tuple(float(counts[level]) for level in rare),
    )


def kind_from(given: Any, tally: Tally, name: str) -> ColumnKind:
    """The kind that a user names: "count", ("bounded", 0, 1), ("bounded", 0, None), ("real", 0.0).

    Numbers after "bounded" are the bounds; after "real", "whole" and "count" they are atoms.
    """
    _refuse(tally, name)
    parameter = f"columns[{name}]"
    first, *rest = given if isinstance(given, (tuple, list)) and given else (given,)
    kind: KindName = checked_name(parameter, first, KINDS)
    common: dict[str, Any] = {"missing": tally.has_missing, "dtype": tally.dtype}
    if kind == "boolean" and tally.family in ("boolean", None):
        return ColumnKind(kind, levels=(False, True), **common)
    if kind in ("category", "boolean"):
        found = _category(_short_counts(_all_counts(tally, parameter)))
        if kind == "boolean" and found.n_cells > 2:
            raise ValueError(
                f"{parameter} is 'boolean', but there are {found.n_cells} different values. Use "
                "'category'."
            )
        return found._replace(kind=kind, **common)
    if kind == "grade":
        if tally.levels is not None or rest:
            levels = tuple(rest or tally.levels or ())
        else:
            levels = tuple(map(_short, sorted(_all_counts(tally, parameter))))
        return ColumnKind(kind, levels=levels, **common)
    if tally.family != "number" or tally.numbers is None:
        held = next(iter(tally.counts()), None)
        raise ValueError(
            f"{parameter} is {kind!r}, but the column holds {shown(held)}. Use "
            "'category', or 'grade' with its levels in their order: ('grade', 'low', 'high')."
        )
    numbers, bounds = tally.numbers, _bounds_of(kind)
    atoms: tuple[float, ...] = ()
    if kind == "bounded":
        bounds = _given_bounds(parameter, rest, numbers)
    elif rest:
        atoms = tuple(sorted(_numbers_in(parameter, rest)))
    if kind in ("whole", "count") and not numbers.whole:
        raise ValueError(
            f"{parameter} is {kind!r}, but there is {numbers.first_odd:g}. Use 'real'."
        )
    beyond = [one for one in (numbers.low, numbers.high) if not bounds[0] <= one <= bounds[1]]
    if beyond:
        raise ValueError(
            f"{parameter} is {shown(given)}, but there is {beyond[0]:g} outside. Give "
            "wider bounds, or drop such rows."
        )
    distinct = numbers.some.values
    if numbers.low == numbers.high or (numbers.complete and set(distinct) <= set(atoms)):
        return ColumnKind("category", levels=tuple(map(_short, distinct)), **common)
    heaps = _heaps(numbers, kind, atoms) if kind in ("whole", "count") else None
    return ColumnKind(kind, bounds, atoms, heaps=heaps, **common)


def _all_counts(tally: Tally, parameter: str) -> dict[Any, float]:
    if not tally.is_complete:
        raise ValueError(
            f"{parameter} must have at most {MOST_VALUES:,} different values to be a category or a "
            "grade, and there are more. Use 'real' or 'whole', or leave the column out."
        )
    return tally.counts()


def _short_counts(counts: dict[Any, float]) -> dict[Any, float]:
    short: dict[Any, float] = {}
    for value, weight in counts.items():
        short[_short(value)] = short.get(_short(value), 0.0) + weight
    return short


def _given_bounds(parameter: str, given: Sequence[Any], numbers: Numbers) -> tuple[float, float]:
    if not given:
        return min(0.0, numbers.low), float("inf") if numbers.high > 1 else 1.0
    ends = [*given, None][:2]
    low = -np.inf if ends[0] is None else as_number(ends[0])
    high = np.inf if ends[1] is None else as_number(ends[1])
    if len(given) > 2 or not low < high:
        raise ValueError(
            f"{parameter} must be ('bounded', low, high) with low < high, None for an end without "
            f"a bound; got {shown(('bounded', *given))}."
        )
    return float(low), float(high)


def _numbers_in(parameter: str, given: Sequence[Any]) -> list[float]:
    numbers = [as_number(one) for one in given]
    if not np.isfinite(numbers).all():
        raise ValueError(f"{parameter} must name atoms by finite numbers; got {shown(given)}.")
    return numbers


def _short(value: Any) -> Any:
    """A whole number as one."""
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _capitalized(name: str) -> str:
    return name[:1].upper() + name[1:]
