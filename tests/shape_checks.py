"""Annotated shapes are checked once for each combination of arguments and results.

jaxtyping checks every call, which takes longer than most of the calls: nearly half of the time of
tests without compilation. Whether a call agrees with its annotations depends on nothing but types,
shapes and dtypes; so calls that look like one that was checked are let through.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import threading
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import jaxtyping

__all__ = ["check_shapes", "once_for_each_look"]

_every_call = jaxtyping.jaxtyped


def check_shapes(modules: Sequence[str]) -> None:
    """Check calls of all functions in modules that are imported from now on."""
    jaxtyping.jaxtyped = once_for_each_look
    jaxtyping.install_import_hook(list(modules), "beartype.beartype")


def _look(value: Any) -> Any:
    """All that annotations can tell apart."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind, *map(_look, value)
    if kind is dict:
        return kind, *((key, _look(one)) for key, one in value.items())
    shape = getattr(value, "shape", None)
    return kind if shape is None else (kind, shape, getattr(value, "dtype", None))


_OF_ARRAYS = re.compile(r"\b(Float|Int|UInt|Bool|Complex|Shaped)\d*\[")


def once_for_each_look(function: Any = None, *, typechecker: Any) -> Any:
    """Like `jaxtyping.jaxtyped`, which checks every call."""
    again = functools.partial(once_for_each_look, typechecker=typechecker)
    if function is None:
        return again
    if isinstance(function, classmethod | staticmethod):
        return type(function)(again(function.__func__))
    if inspect.isclass(function):
        if dataclasses.is_dataclass(function) and "__init__" in vars(function):
            function.__init__ = again(function.__init__)  # type: ignore[misc]
        return function
    # Annotations are words: nothing is to be checked where none of them speaks of an array.
    if not any(_OF_ARRAYS.search(str(words)) for words in function.__annotations__.values()):
        return function
    seen: dict[Any, set[Any]] = {}
    found = threading.local()

    @functools.cache
    def checked() -> Any:
        return _every_call(function, typechecker=typechecker)

    @functools.cache
    def checked_result() -> Any:
        """Takes the function's arguments, and gives the result that was found."""

        def given(*_: Any, **__: Any) -> Any:
            return found.result

        # Annotations are looked up among the names of the function's own module.
        code, closure = given.__code__, given.__closure__
        stand_in = FunctionType(code, function.__globals__, closure=closure)
        return _every_call(functools.wraps(function)(stand_in), typechecker=typechecker)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        look = _look(args), _look(kwargs)
        known = seen.get(look)
        if known is None:
            result = checked()(*args, **kwargs)
            seen[look] = {_look(result)}
            return result
        result = function(*args, **kwargs)
        result_look = _look(result)
        if result_look not in known:
            found.result = result
            checked_result()(*args, **kwargs)
            del found.result
            known.add(result_look)
        return result

    return call
