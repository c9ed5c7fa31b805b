"""Names for common choices: strings stand for small objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["resolve"]


def resolve(parameter: str, value: Any, named: Mapping[Any, Any]) -> Any:
    """The object that a name stands for; anything that is not a string is taken as it is."""
    if isinstance(value, str) or value is None:
        if value not in named:
            names = ", ".join(repr(name) for name in named)
            raise ValueError(
                f"{parameter} must be one of {names}, or an object of that kind; got {value!r}."
            )
        return named[value]
    return value
