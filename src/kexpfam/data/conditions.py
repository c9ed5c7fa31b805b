"""Conditions on rows in a few words: "min_price <= price", "age >= 18", "city != 'north'".

A condition compares a column with a column, a number or a word. It is read here, sign by sign;
nothing of it is executed. Where a value is missing, a condition neither holds nor fails: the row is
kept.

    condition = side sign side       sign = <= | >= | < | > | == | = | !=
    side      = name | `name with spaces` | number | 'word' | "word"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from kexpfam.choices import nearest

__all__ = ["Condition", "read_condition"]

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_QUOTED = r"`[^`]+`|'[^']*'|\"[^\"]*\""
_CONDITION = re.compile(
    rf"\s*({_QUOTED}|[^<>=!`'\"]+?)\s*(<=|>=|==|!=|<|>|=)\s*({_QUOTED}|[^<>=!`'\"]+?)\s*"
)


class Condition(NamedTuple):
    """A comparison of two sides, each a column (its name) or a value."""

    text: str
    sign: str
    left: tuple[bool, Any]
    right: tuple[bool, Any]

    @property
    def columns(self) -> list[str]:
        """The columns that it speaks of."""
        return [side for is_column, side in (self.left, self.right) if is_column]

    def holds(self, columns: Mapping[str, np.ndarray]) -> Bool[np.ndarray, " n"]:
        """For each row whether it holds, or cannot be told for lack of a value."""
        sides = [
            np.asarray(columns[side]) if is_column else side
            for is_column, side in (self.left, self.right)
        ]
        n_rows = max(len(side) for side in sides if isinstance(side, np.ndarray))
        known = np.ones(n_rows, bool)
        for side in sides:
            if isinstance(side, np.ndarray):
                known &= np.array([_is_there(value) for value in side.tolist()], bool)
        lists = [
            side[known].tolist() if isinstance(side, np.ndarray) else [side] * int(known.sum())
            for side in sides
        ]
        found = np.ones(n_rows, bool)
        try:
            compared = [_SIGNS[self.sign](one, other) for one, other in zip(*lists, strict=True)]
        except TypeError:
            raise ValueError(
                f"{self.text!r} compares words with numbers. Put words in quotation marks, and "
                "compare numbers with numbers."
            ) from None
        found[known] = compared
        return found


def read_condition(text: str, names: Sequence[str]) -> Condition:
    """A condition on the named columns; ValueError where it is none."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(
            f"A condition must compare two things, such as 'low <= high', 'age >= 18' or "
            f"\"city != 'north'\"; got {text!r}. (Several conditions are several options.)"
        )
    left, sign, right = found.groups()
    sides = _side(left, names, text), _side(right, names, text)
    if not any(is_column for is_column, _ in sides):
        raise ValueError(f"{text!r} names no column. The columns are {', '.join(names[:10])}.")
    return Condition(text, sign, *sides)


def _side(text: str, names: Sequence[str], whole: str) -> tuple[bool, Any]:
    """A column and its name, or a value."""
    text = text.strip()
    if text in names:
        return True, text
    if text[0] == "`" and text[1:-1] in names:
        return True, text[1:-1]
    if text[0] in "'\"":
        return False, text[1:-1]
    if text.lower() in ("true", "false"):
        return False, text.lower() == "true"
    try:
        return False, float(text)
    except ValueError:
        name = text.strip("`")
        raise ValueError(
            f"{whole!r}: {name!r} is neither a column nor a number.{nearest(name, names)} A word "
            "stands in quotation marks."
        ) from None


def _is_there(value: Any) -> bool:
    return value is not None and type(value).__name__ != "NAType" and value == value
