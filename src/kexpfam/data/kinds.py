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
or masses. Whole numbers and counts may have *heaps*: many values that are more frequent than their
neighbors (`kexpfam.data.heaps`). Any column may have missing values. Rare categories are pooled:
they count as one.

Kinds are read from dtype and values, and can be given instead (`kexpfam.data.found_kinds`). In a
model a column is a number: itself, or the place of its value among the `levels`; NaN where it is
missing.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from kexpfam.data.cells import Cells
from kexpfam.data.heaps import Heaps

__all__ = ["DISCRETE", "KINDS", "ColumnKind", "KindName"]

KindName = Literal["real", "bounded", "whole", "count", "grade", "category", "boolean"]
KINDS: tuple[str, ...] = get_args(KindName)
DISCRETE = ("whole", "count", "grade", "category", "boolean")


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
    heaps: Heaps | None = None

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
        """Bounds, levels, rare levels, atoms and heaps, in words."""
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
        if self.heaps is not None:
            words.append(f"heaps at {self.heaps}")
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
