"""Checks of the settings that users give, with the same words everywhere.

A misspelled name is answered with the nearest one there is, and a name that other libraries use
with ours.
"""

from __future__ import annotations

import difflib
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "as_number",
    "checked_name",
    "entropy",
    "listed",
    "nearest",
    "numpys_generator",
    "positive_number",
    "renamed",
    "resolve",
    "seeded",
    "share",
    "shown",
    "whole",
]

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST_SHOWN = 100
# What other libraries, or earlier versions of this one, call the same thing.
_ELSEWHERE = {
    "gaussian": "rbf",
    "rbf": "gaussian",
    "normal": "gaussian",
    "none": None,
    "tuned": "auto",
}


def listed(choices: Iterable[str]) -> str:
    """'a', 'b' or 'c'."""
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


def shown(value: Any) -> str:
    """A value in one line, and not a long one."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def nearest(value: Any, names: Iterable[Any]) -> str:
    """A question whether the name most like a misspelled one was meant; empty where none is."""
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


# No count is larger: an array of so many numbers has eight terabytes.
_MOST = 10**12


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
    if number > _MOST:
        raise ValueError(
            f"{parameter} must be at most {_MOST:,}, which is more than any memory holds; got "
            f"{shown(value)}."
        )
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


def entropy(random_state: Any, size: int = 4) -> list[int]:
    """Numbers that everything random follows from: the one door for `random_state`.

    It may be None, a whole number, a NumPy RandomState or a NumPy Generator; the last two are
    advanced.
    """
    # Imported here, because both take long: help, and a command that refuses a file, do without.
    import numpy as np

    if isinstance(random_state, np.random.Generator):
        return [int(number) for number in random_state.integers(2**31, size=size)]
    from sklearn.utils import check_random_state

    try:
        found: list[int] = check_random_state(random_state).randint(2**31, size=size).tolist()
    except ValueError:
        raise ValueError(
            "random_state must be None, a whole number from 0 to 2³² − 1, or a NumPy RandomState "
            f"or Generator; got {shown(random_state)}."
        ) from None
    return found


def seeded(random_state: Any) -> np.random.Generator:
    """A generator from a `random_state`."""
    import numpy as np

    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(entropy(random_state))


def numpys_generator(random_state: Any) -> np.random.Generator:
    """NumPy's own generator of a seed, which published splits and tables were made with."""
    import numpy as np

    if isinstance(random_state, np.random.RandomState):
        random_state = entropy(random_state)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        entropy(random_state)
        raise


def renamed(**names: str) -> Callable[[F], F]:
    """A decorator: keywords that were renamed are answered with the name that they have now."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def checked(*arguments: Any, **options: Any) -> Any:
            for old in names.keys() & options.keys():
                raise TypeError(f"{old!r} is called {names[old]!r} now.")
            return function(*arguments, **options)

        return cast("F", checked)

    return decorated


def as_number(value: Any) -> float:
    """A value as a float; NaN for what is not a number, text and truth values among it."""
    try:
        return math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError):
        return math.nan
