"""What a column of a table is: its kind, its support, and the codes that stand for its values.

| kind     | values                                              | its distribution        |
|----------|-----------------------------------------------------|-------------------------|
| real     | any number                                          | a density               |
| bounded  | numbers between two bounds, one of them may be open | a density inside them   |
| whole    | whole numbers                                       | a mass for each         |
| count    | whole numbers from zero on                          | a mass for each         |
| grade    | one of a few values that have an order              | a mass for each         |
| category | one of a few values without an order                | a mass for each         |
| boolean  | true or false                                       | a mass for each         |

A real, bounded, whole or count column may have *atoms*: single values that many rows share, such as
an income of exactly zero. Each has a probability of its own, and the rest of the column a density
or masses. Any column may have missing values. Rare categories are pooled: they count as one.

Kinds are read from dtype and values, and can be given instead (`kind_from`). In a model a column
is a number: itself, or the place of its value among the `levels`; NaN where it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from kexpfam.choices import as_number, checked_name, shown
from kexpfam.data.cells import Cells
from kexpfam.data.words import is_free_text

__all__ = ["ColumnKind", "kind_from", "read_kind"]

KindName = Literal["real", "bounded", "whole", "count", "grade", "category", "boolean"]
KINDS: tuple[str, ...] = get_args(KindName)
DISCRETE = ("whole", "count", "grade", "category", "boolean")
# With fewer values than this nothing is read from repetitions.
_FEWEST_VALUES = 20
# A value is an atom if this share of the values equal it, and it is so many times as frequent as
# other values are in the middle. Of whole numbers, which repeat by nature, more is asked.
_ATOM_SHARE, _ATOM_TIMES, _WHOLE_ATOM_SHARE, _WHOLE_ATOM_VALUES = 0.05, 10.0, 0.3, 20
# So many distinct numbers, each this often on average, are grades.
_MOST_GRADES, _GRADE_TIMES = 10, 10
# A bound is found where values come this near to it, in units of their range.
_NEAR = 0.02
# Categories with fewer values, or beyond so many, are pooled.
_FEWEST_OF_LEVEL, _MOST_LEVELS = 5, 48


class ColumnKind(NamedTuple):
    """What a column is. `pooled` are rare levels, with how often each occurred."""

    kind: KindName
    bounds: tuple[float, float] = (-np.inf, np.inf)
    atoms: tuple[float, ...] = ()
    levels: tuple[Any, ...] = ()
    pooled: tuple[Any, ...] = ()
    pooled_counts: tuple[float, ...] = ()
    missing: bool = False
    dtype: str = "float64"

    def __repr__(self) -> str:
        """With what differs from the defaults."""
        given = [
            f"{name}={value!r}"
            for name, value in zip(self._fields[1:], self[1:], strict=True)
            if value != self._field_defaults[name]
        ]
        return f"ColumnKind({', '.join([repr(self.kind), *given])})"

    def __str__(self) -> str:
        """In a line, for people."""
        holes = ["missing values"] if self.missing else []
        return "; ".join([self.kind, *self.details(), *holes])

    def details(self) -> list[str]:
        """Bounds, levels, rare levels and atoms, in words."""
        words: list[str] = []
        low, high = self.bounds
        if self.kind == "bounded":
            words.append(f"{low:g} ≤ x ≤ {high:g}" if np.isfinite(low + high) else
                         (f"x ≥ {low:g}" if np.isfinite(low) else f"x ≤ {high:g}"))  # fmt: skip
        if self.levels:
            some = ", ".join(map(str, self.levels[:4]))
            words.append(f"{len(self.levels)} levels: {some}{', …' * (len(self.levels) > 4)}")
        if self.pooled:
            words.append(
                f"{len(self.pooled)} rare ones pooled"
                if len(self.pooled) > 1
                else f"and {self.pooled[0]}, with anything new"
            )
        if self.atoms:
            words.append(f"atoms at {', '.join(f'{atom:g}' for atom in self.atoms)}")
        return words

    @property
    def family(self) -> Literal["number", "boolean", "word"]:
        """What its values are: levels may be numbers, too."""
        values = (*self.levels, *self.pooled)
        if values and all(isinstance(value, bool) for value in values):
            return "boolean"
        return "word" if any(isinstance(value, str) for value in values) else "number"

    @property
    def has_gradient(self) -> bool:
        """Whether it has a density on the whole line, so that Stein's identity holds."""
        return self.kind == "real" and not self.atoms and not self.missing

    def names(self) -> list[str] | None:
        """What its codes stand for, with the pool as one; None where they are the numbers."""
        if not self.levels and not self.pooled:
            return None
        return [*map(str, self.levels), *([str(self.pool_name)] if self.pooled else [])]

    @property
    def pool_name(self) -> Any:
        """What the pool is called: a rare level that is alone in it keeps its name."""
        return self.pooled[0] if len(self.pooled) == 1 else "rare values"

    @property
    def is_category(self) -> bool:
        """Whether its values have no order."""
        return self.kind in ("category", "boolean")

    @property
    def is_discrete(self) -> bool:
        """Whether every value has a mass."""
        return self.kind in DISCRETE

    @property
    def n_cells(self) -> int:
        """Categories, with the pool as one."""
        return len(self.levels) + bool(self.pooled)

    def codes(self, cells: Cells) -> Float[np.ndarray, " n"]:
        """Values as numbers: NaN where missing, infinite where the kind does not know the value."""
        if not self.levels and not self.pooled:
            return cells.values.astype(float)
        places = {level: float(place) for place, level in enumerate(self.levels)}
        unknown = float(len(self.levels)) if self.pooled else np.inf
        places |= dict.fromkeys(self.pooled, unknown)
        codes = np.full(len(cells.values), np.nan)
        for place in np.flatnonzero(~cells.missing):
            codes[place] = places.get(cells.values[place], unknown)
        return codes

    def decoded(
        self, codes: Float[np.ndarray, " n"], generator: np.random.Generator | None = None
    ) -> np.ndarray:
        """Codes as values: None where missing; a rare level is drawn where the pool stands."""
        if not self.levels and not self.pooled:
            return codes
        values = np.full(len(codes), None, object)
        for place in np.flatnonzero(np.isfinite(codes)):
            code = int(codes[place])
            if code < len(self.levels):
                values[place] = self.levels[code]
            else:
                shares = np.array(self.pooled_counts) / sum(self.pooled_counts)
                drawn = 0 if generator is None else generator.choice(len(shares), p=shares)
                values[place] = self.pooled[int(drawn)]
        return values


def read_kind(cells: Cells, weights: Float[np.ndarray, " n"], name: str) -> ColumnKind:
    """The kind of a column by its dtype and its values; weights count as repetitions."""
    there = ~cells.missing & (weights > 0)
    common: dict[str, Any] = {
        "missing": bool((cells.missing & (weights > 0)).any()),
        "dtype": cells.dtype,
    }
    if not there.any():
        raise ValueError(f"{_capitalized(name)} holds no values: all are missing. Leave it out.")
    if cells.family == "ordered":
        return ColumnKind("grade", levels=tuple(cells.levels or ()), **common)
    if cells.family == "number":
        return _numeric_kind(cells.values[there], weights[there])._replace(**common)
    counts = _counted(cells.values[there], weights[there])
    if cells.family == "boolean":
        return ColumnKind("boolean", levels=(False, True), **common)
    if is_free_text(len(counts), int(there.sum())):
        raise ValueError(
            f"{_capitalized(name)} looks like free text or an identifier: {len(counts)} different "
            f"values in {int(there.sum())} rows, such as {shown(str(next(iter(counts)))[:40])}. "
            "Leave it out, or make a category or numbers of it, such as a length. (If "
            "it is a category all the same, say so: columns={name: 'category'}.)"
        )
    return _category(counts)._replace(**common)


def _numeric_kind(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> ColumnKind:
    distinct, places = np.unique(values, return_inverse=True)
    masses = np.bincount(places, weights)
    total = masses.sum()
    if len(distinct) <= 2 and (total >= _FEWEST_VALUES or len(distinct) == 1):
        return ColumnKind("category", levels=tuple(map(_short, distinct)))
    are_whole = bool((distinct == np.rint(distinct)).all() and np.abs(distinct).max() < 2**52)
    atoms: tuple[float, ...] = ()
    if total >= _FEWEST_VALUES:
        share = _WHOLE_ATOM_SHARE if are_whole else _ATOM_SHARE
        frequent = masses > max(share * total, _ATOM_TIMES * float(np.median(masses)))
        if not are_whole or len(distinct) > _WHOLE_ATOM_VALUES:
            atoms = tuple(distinct[frequent].tolist())
    if are_whole:
        kind: KindName = "count" if distinct[0] >= 0 else "whole"
        return ColumnKind(kind, _bounds_of(kind), atoms)
    if len(distinct) <= _MOST_GRADES and total >= _GRADE_TIMES * len(distinct):
        return ColumnKind("grade", levels=tuple(distinct.tolist()))
    bounds = -np.inf, np.inf
    if total >= _FEWEST_VALUES:
        bounds = _found_bounds(values, weights, atoms)
    return ColumnKind("bounded" if np.isfinite(bounds).any() else "real", bounds, atoms)


def _found_bounds(
    values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"], atoms: Sequence[float]
) -> tuple[float, float]:
    """Zero, and one above it, where the values come near and none is beyond."""
    rest = ~np.isin(values, atoms)
    near, far = np.quantile(
        values[rest], [0.01, 0.99], weights=weights[rest], method="inverted_cdf"
    )
    reach = _NEAR * (far - near)
    low, high = -np.inf, np.inf
    if values.min() >= 0 and (near <= reach or 0.0 in atoms):
        low = 0.0
        if values.max() <= 1 and (1 - far <= reach or 1.0 in atoms):
            high = 1.0
    return low, high


def _bounds_of(kind: KindName) -> tuple[float, float]:
    return (0.0, np.inf) if kind == "count" else (-np.inf, np.inf)


def _counted(values: np.ndarray, weights: Float[np.ndarray, " n"]) -> dict[Any, float]:
    counts: dict[Any, float] = {}
    for value, weight in zip(values, weights.tolist(), strict=True):
        counts[value] = counts.get(value, 0.0) + weight
    return counts


def _category(counts: dict[Any, float]) -> ColumnKind:
    """Frequent levels, in their own order, and the pool of the others."""
    order = sorted(counts, key=lambda level: (-counts[level], str(level)))
    kept = [level for level in order[:_MOST_LEVELS] if counts[level] >= _FEWEST_OF_LEVEL]
    rare = [level for level in order if level not in set(kept)]
    # There must be something that is not pooled.
    if not kept:
        kept, rare = order, []
    rare.sort(key=str)
    return ColumnKind(
        "category",
        levels=tuple(sorted(kept, key=str)),
        pooled=tuple(rare),
        pooled_counts=tuple(float(counts[level]) for level in rare),
    )


def kind_from(given: Any, cells: Cells, weights: Float[np.ndarray, " n"], name: str) -> ColumnKind:
    """The kind that a user names: "count", ("bounded", 0, 1), ("bounded", 0, None), ("real", 0.0).

    Numbers after "bounded" are the bounds; after "real", "whole" and "count" they are atoms.
    """
    parameter = f"columns[{name}]"
    first, *rest = given if isinstance(given, (tuple, list)) and given else (given,)
    kind: KindName = checked_name(parameter, first, KINDS)
    there = ~cells.missing & (weights > 0)
    common: dict[str, Any] = {
        "missing": bool((cells.missing & (weights > 0)).any()),
        "dtype": cells.dtype,
    }
    if kind == "boolean" and cells.family == "boolean":
        return ColumnKind(kind, levels=(False, True), **common)
    if kind in ("category", "boolean"):
        values = cells.values[there]
        values = np.array([_short(value) for value in values], object)
        found = _category(_counted(values, weights[there]))
        if kind == "boolean" and found.n_cells > 2:
            raise ValueError(
                f"{parameter} is 'boolean', but there are {found.n_cells} different values. Take "
                "'category'."
            )
        return found._replace(kind=kind, **common)
    if kind == "grade":
        if cells.levels is not None or rest:
            levels = tuple(rest or cells.levels or ())
        else:
            levels = tuple(map(_short, sorted(set(cells.values[there].tolist()))))
        return ColumnKind(kind, levels=levels, **common)
    if cells.family != "number":
        raise ValueError(
            f"{parameter} is {kind!r}, but the column holds {shown(cells.values[there][0])}. Take "
            "'category', or 'grade' with its levels in their order: ('grade', 'low', 'high')."
        )
    values, bounds = cells.values[there], _bounds_of(kind)
    atoms: tuple[float, ...] = ()
    if kind == "bounded":
        bounds = _given_bounds(parameter, rest, values)
    elif rest:
        atoms = tuple(sorted(_numbers_in(parameter, rest)))
    if kind in ("whole", "count") and not (values == np.rint(values)).all():
        odd = values[values != np.rint(values)][0]
        raise ValueError(f"{parameter} is {kind!r}, but there is {odd:g}. Take 'real'.")
    outside = (values < bounds[0]) | (values > bounds[1])
    if outside.any():
        raise ValueError(
            f"{parameter} is {shown(given)}, but there is {values[outside][0]:g} outside. Give "
            "wider bounds, or drop such rows."
        )
    if np.ptp(values) == 0 or set(np.unique(values)) <= set(atoms):
        return ColumnKind("category", levels=tuple(map(_short, np.unique(values))), **common)
    return ColumnKind(kind, bounds, atoms, **common)


def _given_bounds(
    parameter: str, given: Sequence[Any], values: Float[np.ndarray, " n"]
) -> tuple[float, float]:
    if not given:
        return float(min(0.0, values.min())), float("inf") if values.max() > 1 else 1.0
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
