"""What users choose, by name or number: checked at the border, in the same words everywhere.

A misspelt name is answered with the nearest one there is, and a name that other libraries use with
ours.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = [
    "as_number",
    "checked_name",
    "listed",
    "nearest",
    "positive_number",
    "resolve",
    "seeded",
    "share",
    "shown",
    "whole",
]

_LONGEST_SHOWN = 100
# What other libraries call the same thing.
_ELSEWHERE = {"gaussian": "rbf", "rbf": "gaussian", "normal": "gaussian", "none": None}


def listed(choices: Iterable[str]) -> str:
    """'a', 'b' or 'c'."""
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


def shown(value: Any) -> str:
    """A value in one line, and not a long one."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def nearest(value: Any, names: Iterable[Any]) -> str:
    """A question whether the name most like a misspelt one was meant; empty where none is."""
    if not isinstance(value, str):
        return ""
    known = {str(name).lower(): name for name in names}
    ours = _ELSEWHERE.get(value.lower(), value)
    if ours != value and ours in known.values():
        return f" Here it is called {ours!r}."
    meant = difflib.get_close_matches(value.lower(), known, n=1)
    return f" Did you mean {known[meant[0]]!r}?" if meant else ""


def checked_name(parameter: str, value: Any, names: Iterable[Any]) -> Any:
    """A value that is one of the names."""
    names = list(names)
    if not (isinstance(value, str) or value is None) or value not in names:
        raise ValueError(
            f"{parameter} must be {listed(map(repr, names))}; got {shown(value)}."
            f"{nearest(value, names)}"
        )
    return value


def resolve(
    parameter: str,
    value: Any,
    named: Mapping[Any, Any],
    otherwise: str = "an object of that kind",
    needs: str | None = None,
) -> Any:
    """The object that a name stands for; what is no name is taken as it is.

    `otherwise` says what may stand in place of a name, and `needs` what that must have.
    """
    allowed = listed([*map(repr, named), otherwise])
    if isinstance(value, str) or value is None:
        if value not in named:
            raise ValueError(
                f"{parameter} must be {allowed}; got {shown(value)}.{nearest(value, named)}"
            )
        return named[value]
    if isinstance(value, type):
        raise ValueError(
            f"{parameter} must be {allowed}; got the class {value.__name__}. Make an object of it: "
            f"{value.__name__}()."
        )
    if needs is not None and not hasattr(value, needs):
        # Whoever writes a class wants to know what it lacks; whoever gives a number does not.
        lack = "" if type(value).__module__ == "builtins" else f", which has no {needs}"
        raise ValueError(f"{parameter} must be {allowed}; got {shown(value)}{lack}.")
    return value


def whole(parameter: str, value: Any, least: int = 1, otherwise: str = "") -> int:
    """A whole number that is not too small; `otherwise` says what else would be allowed."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        allowed = f"{otherwise} or a whole number" if otherwise else "a whole number"
        meant = f" Try {value:.0f}." if isinstance(value, float) and value.is_integer() else ""
        raise ValueError(f"{parameter} must be {allowed} ≥ {least}; got {shown(value)}.{meant}")
    return number


def positive_number(parameter: str, value: Any, otherwise: str = "") -> float:
    """A finite number above zero; `otherwise` says what else would be allowed."""
    number = as_number(value)
    if not 0 < number < math.inf:
        allowed = f"{otherwise} or a positive number" if otherwise else "a positive number"
        raise ValueError(f"{parameter} must be {allowed}; got {shown(value)}.")
    return number


def share(parameter: str, value: Any) -> float:
    """A number between zero and one, both excluded."""
    number = as_number(value)
    if not 0 < number < 1:
        meant = f" Did you mean {number / 100:g}?" if 1 < number < 100 else ""
        raise ValueError(
            f"{parameter} must be a number between 0 and 1; got {shown(value)}.{meant}"
        )
    return number


def seeded(random_state: Any) -> np.random.Generator:
    """A generator, from anything that `numpy.random.default_rng` takes."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be None, a whole number ≥ 0 or a NumPy Generator; got "
            f"{random_state!r}."
        ) from None


def as_number(value: Any) -> float:
    """A value as a float; NaN for what is no number, text and truth values among it."""
    try:
        return math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError):
        return math.nan
