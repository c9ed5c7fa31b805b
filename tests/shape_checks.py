"""Annotated shapes are checked once for each combination of arguments and results.

Whether a call agrees with its annotations depends on nothing but types, shapes and dtypes; so calls
that look like one that was checked are let through. Checking every call would take longer than most
of the calls.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

import jaxtyping
import numpy as np

__all__ = ["check_shapes", "once_for_each_look"]

_scope = jaxtyping.jaxtyped
_OF_ARRAYS = re.compile(r"\b(Float|Int|UInt|Bool|Complex|Shaped)\d*\[")
_MAPPINGS = (dict, collections.abc.Mapping)
_PLAIN = {bool, int, float, str, type(None)}
_SEQUENCES = (list, collections.abc.Sequence, set, frozenset)


def check_shapes(modules: Sequence[str]) -> None:
    """Check calls of all functions in modules that are imported from now on."""
    jaxtyping.jaxtyped = once_for_each_look
    # The checker is named in what the import hook writes, and nowhere asked.
    jaxtyping.install_import_hook(list(modules), "builtins.object")


def once_for_each_look(function: Any = None, *, typechecker: Any = None) -> Any:
    """Like `jaxtyping.jaxtyped`, which checks every call."""
    if function is None:
        return functools.partial(once_for_each_look, typechecker=typechecker)
    if isinstance(function, classmethod | staticmethod):
        return type(function)(once_for_each_look(function.__func__))
    if inspect.isclass(function):
        if dataclasses.is_dataclass(function) and "__init__" in vars(function):
            function.__init__ = once_for_each_look(function.__init__)  # type: ignore[misc]
        return function
    # Annotations are words: nothing is to be checked where none of them speaks of an array.
    if not any(_OF_ARRAYS.search(str(words)) for words in function.__annotations__.values()):
        return function
    seen: dict[Any, set[Any]] = {}
    annotations = functools.cache(lambda: _Annotations(function))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        look = *map(_look, args), *kwargs, *map(_look, kwargs.values())
        known = seen.get(look)
        if known is None:
            with _scope("context"):
                annotations().check_arguments(args, kwargs)
            known = seen[look] = set()
        result = function(*args, **kwargs)
        result_look = _look(result)
        if result_look not in known:
            with _scope("context"):
                annotations().check_arguments(args, kwargs)
                annotations().check_result(result)
            known.add(result_look)
        return result

    return call


def _look(value: Any) -> Any:
    """All that annotations can tell apart."""
    kind = type(value)
    # Most values are arrays or numbers, and this is called millions of times.
    if kind is np.ndarray:
        return value.shape, value.dtype.char
    if kind in _PLAIN:
        return kind
    if kind is tuple or kind is list:
        return kind, *map(_look, value)
    if kind is dict:
        return kind, *((key, _look(one)) for key, one in value.items())
    shape = getattr(value, "shape", None)
    return kind if shape is None else (kind, shape, getattr(value, "dtype", None))


class _Annotations:
    """What a function says of its arguments and of its result."""

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.signature = inspect.signature(function)
        self.hints = {
            name: _meant(words, function.__globals__)
            for name, words in function.__annotations__.items()
        }

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in self.signature.bind(*args, **kwargs).arguments.items():
            values: Sequence[Any] = [value]
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                values = value
            elif self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                values = list(value.values())
            for one in values:
                self._check(f"argument {name!r}", name, one)

    def check_result(self, result: Any) -> None:
        self._check("return value", "return", result)

    def _check(self, what: str, name: str, value: Any) -> None:
        if name in self.hints and not _agrees(value, self.hints[name]):
            raise jaxtyping.TypeCheckError(
                f"{what} of {self.name} is {_look(value)!r}, and should be {self.hints[name]!r}"
            )


def _meant(words: Any, names: dict[str, Any]) -> Any:
    """An annotation; nothing is known of one whose names are there for type checkers alone."""
    try:
        return eval(words, names) if isinstance(words, str) else words
    except NameError:
        return Any


def _agrees(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says, as far as that can be told by looking at it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, typing.TypeVar):
        return True
    if hint is None:
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_agrees(value, part) for part in parts)
    if origin is typing.Literal:
        return value in parts
    if origin is typing.Annotated:
        return _agrees(value, parts[0])
    if origin is None:
        kind = getattr(hint, "__supertype__", hint)
        return isinstance(value, kind) or getattr(kind, "_is_protocol", False)
    if not isinstance(value, origin):
        return False
    if origin is tuple and (len(parts) != 2 or parts[1] is not ...):
        return len(value) == len(parts) and all(map(_agrees, value, parts))
    if origin in (tuple, *_SEQUENCES):
        return all(_agrees(one, parts[0]) for one in value)
    if origin in _MAPPINGS:
        return all(_agrees(k, parts[0]) and _agrees(v, parts[1]) for k, v in value.items())
    return True
