"""What a column of a table holds, summed up block by block in memory that does not grow.

Words are counted one by one; a column of more than a hundred thousand different ones is refused. Of
numbers the following is kept, all of which can be combined:

- the distinct values whose hashes are smallest, with their masses: all of them while there are no
  more than `MOST_VALUES`, a random sample of the distinct values from then on;
- the most frequent values, counted by the rule of Misra and Gries: every mass is at most
  total/(m + 1) too small, with m values kept (exact while the first are complete);
- the smallest and the largest value, and whether all are whole.

A column that cannot be read keeps the sentence that says why.

| name     | shape | meaning                                     |
|----------|-------|---------------------------------------------|
| values   | (k,)  | distinct, ascending                         |
| masses   | (k,)  | sums of weights                             |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt64

from kexpfam.data.cells import Cells, Family
from kexpfam.data.sketch import content_keys

__all__ = ["MOST_VALUES", "MOST_WORDS", "Numbers", "Tally", "joined_tallies", "tallied"]

# Distinct numbers of a column that are kept, frequent ones once there are more, and words.
MOST_VALUES, _FREQUENT, MOST_WORDS = 1 << 16, 1000, 100_000


class Masses(NamedTuple):
    """Distinct values in ascending order, each with the sum of its weights."""

    values: Float[np.ndarray, " k"]
    masses: Float[np.ndarray, " k"]

    def joined(self, other: Masses) -> Masses:
        """The tally of both."""
        return masses_of(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.masses, other.masses]),
        )


def masses_of(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> Masses:
    """The sum of weights at each distinct value."""
    distinct, places = np.unique(values, return_inverse=True)
    return Masses(distinct, np.bincount(places, weights, minlength=len(distinct)))


class Numbers(NamedTuple):
    """Numbers of a column. `frequent` has masses below the true ones; complete, it is `some`."""

    some: Masses
    frequent: Masses
    total: float
    complete: bool
    low: float
    high: float
    whole: bool
    first_odd: float | None

    def joined(self, other: Numbers) -> Numbers:
        """The tally of both."""
        some = _joined_samples(self, other)
        complete = self.complete and other.complete and len(some.values) <= MOST_VALUES
        frequent = some if complete else _most(self.frequent.joined(other.frequent))
        return Numbers(
            some if complete else _smallest_hashes(some),
            frequent,
            self.total + other.total,
            complete,
            min(self.low, other.low),
            max(self.high, other.high),
            self.whole and other.whole,
            other.first_odd if self.first_odd is None else self.first_odd,
        )


def _joined_samples(one: Numbers, other: Numbers) -> Masses:
    """Values of both, without those that a full sample has no room for."""
    if one.complete and other.complete:
        return one.some.joined(other.some)
    keys = [_keys(own.some) for own in (one, other)]
    full = [own for own in keys if len(own) == MOST_VALUES]
    last = min((own.max() for own in full), default=np.iinfo(np.uint64).max)
    parts = [
        Masses(*(part[own <= last] for part in numbers.some))
        for numbers, own in zip((one, other), keys, strict=True)
    ]
    return parts[0].joined(parts[1])


def _keys(found: Masses) -> UInt64[np.ndarray, " k"]:
    return content_keys(found.values[:, None])


def _smallest_hashes(found: Masses) -> Masses:
    keys = _keys(found)
    kept = np.sort(np.argsort(keys, kind="stable")[:MOST_VALUES])
    return Masses(found.values[kept], found.masses[kept])


def _most(found: Masses) -> Masses:
    """Those of the largest masses, less the largest mass that is dropped."""
    if len(found.values) <= _FREQUENT:
        return found
    masses = found.masses - np.partition(found.masses, -_FREQUENT - 1)[-_FREQUENT - 1]
    return Masses(found.values[masses > 0], masses[masses > 0])


class Tally(NamedTuple):
    """A column so far: how many values there are, what they are, and why it cannot be used.

    `family` and `dtype` are None before a value was seen; `levels` are those that a dtype names.
    """

    n_values: int = 0
    has_missing: bool = False
    family: Family | None = None
    dtype: str | None = None
    levels: tuple[Any, ...] | None = None
    numbers: Numbers | None = None
    words: dict[Any, float] | None = None
    refusal: str | None = None

    def counts(self) -> dict[Any, float]:
        """Weights by value, in the order in which values came; numbers in their own order."""
        counts = {}
        if self.numbers is not None:
            counts = {
                int(value) if float(value).is_integer() else value: mass
                for value, mass in zip(*(part.tolist() for part in self.numbers.some), strict=True)
            }
        for word, weight in (self.words or {}).items():
            counts[word] = counts.get(word, 0.0) + weight
        return counts

    def divided(self, unit: float) -> Tally:
        """With weights in units of a weight."""
        if unit == 1.0:
            return self
        numbers, words = self.numbers, self.words
        if numbers is not None:
            some, frequent = (
                Masses(part.values, part.masses / unit) for part in (numbers.some, numbers.frequent)
            )
            numbers = numbers._replace(some=some, frequent=frequent, total=numbers.total / unit)
        if words is not None:
            words = {word: weight / unit for word, weight in words.items()}
        return self._replace(numbers=numbers, words=words)

    @property
    def is_crowded(self) -> bool:
        """Whether there are more words than are counted."""
        return self.words is not None and len(self.words) > MOST_WORDS

    @property
    def is_complete(self) -> bool:
        """Whether `counts` has all values."""
        return self.numbers is None or self.numbers.complete


def tallied(cells: Cells, weights: Float[np.ndarray, " n"]) -> Tally:
    """What a block of a column holds; rows without a weight do not count."""
    counted = weights > 0
    there = ~cells.missing & counted
    n_values = int(there.sum())
    tally = Tally(
        n_values,
        bool((cells.missing & counted).any()),
        cells.family if n_values else None,
        cells.dtype,
        cells.levels,
    )
    if not n_values:
        return tally
    values, own = cells.values[there], weights[there]
    if cells.family == "number":
        return tally._replace(numbers=_numbers(values.astype(float), own))
    words: dict[Any, float] = {}
    for value, weight in zip(values.tolist(), own.tolist(), strict=True):
        words[value] = words.get(value, 0.0) + weight
    return tally._replace(words=words)


def _numbers(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> Numbers:
    found = masses_of(values, weights)
    odd = values != np.rint(values)
    first_odd = float(values[odd][0]) if odd.any() else None
    low, high = float(found.values[0]), float(found.values[-1])
    nothing = Masses(found.values[:0], found.masses[:0])
    complete = len(found.values) <= MOST_VALUES
    one = Numbers(
        found, found, float(weights.sum()), complete, low, high, first_odd is None, first_odd
    )
    empty = Numbers(nothing, nothing, 0.0, True, np.inf, -np.inf, True, None)
    return one if complete else empty.joined(one)


def joined_tallies(one: Tally, other: Tally) -> Tally:
    """The tally of both blocks of a column."""
    refusal = one.refusal if one.refusal is not None else other.refusal
    words = one.words
    if other.words is not None and not one.is_crowded:
        words = dict(one.words or {})
        for word, weight in other.words.items():
            words[word] = words.get(word, 0.0) + weight
    numbers = one.numbers or other.numbers
    if one.numbers is not None and other.numbers is not None:
        numbers = one.numbers.joined(other.numbers)
    levels = one.levels
    if other.levels is not None and other.levels != levels:
        levels = tuple(dict.fromkeys([*(levels or ()), *other.levels]))
    return Tally(
        one.n_values + other.n_values,
        one.has_missing or other.has_missing,
        _common_family(one.family, other.family),
        _common_dtype(one, other),
        levels,
        numbers,
        words,
        refusal,
    )


def _common_family(one: Family | None, other: Family | None) -> Family | None:
    """The family of both; numbers or truth values beside anything else are words."""
    if one is None or other is None or one == other:
        return other if one is None else one
    return "word"


def _common_dtype(one: Tally, other: Tally) -> str | None:
    """The dtype that holds both columns' values, missing ones among them."""
    dtypes = {one.dtype, other.dtype} - {None}
    if len(dtypes) < 2:
        return next(iter(dtypes), None)
    # A block of missing values alone says nothing of what its column is.
    for this, that in ((one, other), (other, one)):
        if this.family is None and that.family is not None:
            return that.dtype
    if dtypes == {"bool", "boolean"}:
        return "boolean"
    found = {str(dtype) for dtype in dtypes}
    nullable = [dtype for dtype in found if dtype[:1] in "IUF" and dtype.lower() in found]
    if nullable:
        return nullable[0]
    try:
        return str(np.result_type(*found))
    except TypeError:
        return "object"
