"""Records as JSON with arrays beside it, and back.

    3, "a", true, null      themselves; infinities and NaN  {"number": "inf"}
    an array                {"array": "17"}, the name of a tensor
    a tuple                 {"tuple": [...]}
    a mapping               {"mapping": [[key, value], ...]}
    a record                {"record": "Standardizer", "fields": {"center": ..., "scale": ...}}

A record is a frozen dataclass or named tuple of a known kind. What is read must fit the fields'
annotations: types, and of arrays dtype and shape, where a letter stands for one length throughout a
record, and d (the number of columns) throughout the file, but for the parts of a record that says
it has `columns_of_its_own`.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kexpfam.exceptions import ModelFileError

__all__ = ["Tree", "decode", "encode"]

_COLUMNS = "d"
_SCALARS = (bool, int, float, str, type(None))


class Tree(NamedTuple):
    """JSON and the arrays it names."""

    json: Any
    arrays: dict[str, np.ndarray]


def encode(value: Any, records: Mapping[str, type]) -> Tree:
    """A value as JSON and arrays; an array that occurs twice is stored once."""
    writer = _Writer(records, {}, {})
    return Tree(writer.write(value, "model"), writer.arrays)


class _Writer(NamedTuple):
    records: Mapping[str, type]
    arrays: dict[str, np.ndarray]
    # By identity; the array is kept so that its identity stays taken.
    names: dict[int, tuple[str, Any]]

    def write(self, value: Any, where: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"number": repr(value)}
        if isinstance(value, _SCALARS):
            return value
        kind: type = type(value)
        if self.records.get(kind.__name__) is kind:
            fields = {
                name: self.write(getattr(value, name), f"{where}.{name}")
                for name in _field_names(kind)
            }
            return {"record": kind.__name__, "fields": fields}
        if type(value) is tuple:
            return {"tuple": [self.write(one, f"{where}[{i}]") for i, one in enumerate(value)]}
        if isinstance(value, list):
            return [self.write(one, f"{where}[{i}]") for i, one in enumerate(value)]
        if isinstance(value, dict):
            pairs = value.items()
            return {"mapping": [[self.write(k, where), self.write(v, where)] for k, v in pairs]}
        if hasattr(value, "__array__") and np.asarray(value).dtype.kind in "fiub":
            if id(value) not in self.names:
                name = str(len(self.arrays))
                self.names[id(value)] = name, value
                self.arrays[name] = np.asarray(value, order="C")
            return {"array": self.names[id(value)][0]}
        raise ModelFileError(
            f"{where} is {value!r}, which a model file cannot hold: it holds arrays, numbers and "
            "the library's own settings, never code. Fit with a named setting instead to save."
        )


def decode(tree: Tree, records: Mapping[str, type], n_columns: int) -> Any:
    """The value that was encoded, checked."""
    try:
        return _Reader(tree.arrays, records, n_columns).read(tree.json, "model")
    except RecursionError as error:
        raise ModelFileError("the model's description is nested too deeply") from error
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"the model's description does not make sense: {error!r}") from error


class _Reader(NamedTuple):
    arrays: Mapping[str, np.ndarray]
    records: Mapping[str, type]
    n_columns: int | None

    def read(self, node: Any, where: str) -> Any:
        if isinstance(node, _SCALARS):
            return node
        if isinstance(node, list):
            return [self.read(one, f"{where}[{i}]") for i, one in enumerate(node)]
        match node:
            case {"number": "inf" | "-inf" | "nan" as text, **rest} if not rest:
                return float(text)
            case {"array": str(name), **rest} if not rest:
                return self.arrays[name]
            case {"tuple": list(items), **rest} if not rest:
                return tuple(self.read(one, f"{where}[{i}]") for i, one in enumerate(items))
            case {"mapping": list(pairs), **rest} if not rest:
                return {self.read(k, where): self.read(v, where) for k, v in pairs}
            case {"record": str(name), "fields": dict(fields), **rest} if not rest:
                return self._record(name, fields, where)
        raise ModelFileError(f"{where} is not a value, array or record")

    def _record(self, name: str, fields: dict[str, Any], where: str) -> Any:
        if name not in self.records:
            raise ModelFileError(f"{where} is of an unknown kind, {name!r}")
        kind = self.records[name]
        expected = _field_names(kind)
        # Files of earlier versions lack what has been added since, with a default.
        added = {*getattr(kind, "_field_defaults", ()), *getattr(kind, "fields_added", ())}
        if not set(expected) - added <= set(fields) <= set(expected):
            raise ModelFileError(
                f"{where} ({name}) must have the fields {', '.join(expected)}; it has "
                f"{', '.join(fields)}"
            )
        lengths = {} if self.n_columns is None else {_COLUMNS: self.n_columns}
        parts = self._replace(n_columns=None) if hasattr(kind, "columns_of_its_own") else self
        values = {}
        for field in (name for name in expected if name in fields):
            place = f"{where}.{field}"
            values[field] = parts.read(fields[field], place)
            if not _finite(values[field], name, field):
                raise ModelFileError(f"{place} holds numbers that are not finite")
            if not _fits(values[field], _hints(kind)[field], lengths):
                raise ModelFileError(
                    f"{place} does not fit {name}: {_described(values[field])} where "
                    f"{_hints(kind)[field]} was expected"
                )
        return kind(**values)


# What may hold numbers that are not finite: logarithms of zero, penalties without an end, losses of
# settings that have none.
_OPEN_FIELDS = frozenset({"log_weights", "penalties", "losses", "gains", "gain_errors"})
_OPEN_RECORDS = frozenset({"LossSurface", "TuningHistory"})


def _finite(value: Any, record: str, field: str) -> bool:
    """Whether an array is free of numbers that no fit leaves in it."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return True
    if field in _OPEN_FIELDS or record in _OPEN_RECORDS:
        return True
    return bool(np.isfinite(value).all())


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return tuple(getattr(kind, "_fields", ()))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    return f"{value!r:.80}"


def _fits(value: Any, hint: Any, lengths: dict[str, int]) -> bool:
    """Whether a value is what an annotation says; lengths of arrays are noted and compared."""
    if hint is Any:
        return True
    if hasattr(hint, "dim_str"):
        return _array_fits(value, hint, lengths)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one, lengths) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            arguments = (arguments[0],) * len(value) if isinstance(value, tuple) else ()
        return (
            isinstance(value, tuple)
            and len(value) == len(arguments)
            and all(_fits(v, h, lengths) for v, h in zip(value, arguments, strict=True))
        )
    if origin is list:
        return isinstance(value, list) and all(_fits(v, arguments[0], lengths) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(k, arguments[0], lengths) and _fits(v, arguments[1], lengths)
            for k, v in value.items()
        )
    if hint in (None, type(None)):
        return value is None
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint if isinstance(hint, type) else origin)


def _array_fits(value: Any, hint: Any, lengths: dict[str, int]) -> bool:
    """One array against jaxtyping's "k d d"; a starred name is an axis that may be absent."""
    if not hint.dim_str.strip() and isinstance(value, float):
        return True
    if not isinstance(value, np.ndarray) or value.dtype.name not in hint.dtypes:
        return False
    names = hint.dim_str.split()
    if names and names[0].startswith("*") and len(names) == value.ndim + 1:
        names = names[1:]
    if len(names) != value.ndim:
        return False
    wanted = (int(n) if n.isdigit() else lengths.setdefault(n, size)
              for n, size in zip(names, value.shape, strict=True))  # fmt: skip
    return all(size == length for size, length in zip(value.shape, wanted, strict=True))
