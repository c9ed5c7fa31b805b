"""Models from and to files, and what is worth knowing of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_regressor

import kexpfam
from kexpfam.cli.inputs import is_data
from kexpfam.cli.terminal import Terminal
from kexpfam.data.mixed import ColumnSummary

__all__ = [
    "column_names",
    "described",
    "is_conditional",
    "kind_lines",
    "loaded",
    "shown",
    "target_name",
]


def loaded(path: str, terminal: Terminal, *, conditional: bool | None = None) -> Any:
    """The model in a file: of whole rows, of a target given inputs, or of either kind (None)."""
    if is_data(path):
        raise ValueError(
            f"{path} looks like a data file; expected a model file, written by `kexpfam fit -o`."
        )
    with terminal.working("loading"):
        model: Any = kexpfam.load(path)
    if isinstance(model, kexpfam.KernelAnomalyDetector):
        raise ValueError(
            f"{path} holds an anomaly detector, which this command cannot use. Use "
            "kexpfam.load in Python, or kexpfam anomalies DATA --train GOOD."
        )
    if conditional is False and is_conditional(model):
        raise ValueError(
            f"{path} holds the density of a target given inputs, but this command needs a density "
            "of whole rows. Try kexpfam predict or kexpfam score."
        )
    if conditional is True and not is_conditional(model):
        raise ValueError(
            f"{path} holds a density of whole rows, but this command needs that of a target given "
            "inputs. Fit one with kexpfam fit DATA --target COLUMN."
        )
    return model


def is_conditional(model: Any) -> bool:
    """Whether a model is the density of a target given inputs."""
    return bool(is_regressor(model))


def target_name(model: Any) -> str:
    """What the target of a conditional density is called."""
    return model.target_name_ or "y"


def column_names(model: Any) -> list[str]:
    """Names of the columns; x0, x1, … where a model was fitted to a plain array."""
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    return [f"x{number}" for number in range(model.n_features_in_)]


def described(model: Any) -> dict[str, Any]:
    """Kind, columns, settings, what was fitted, and its health."""
    settings = model.get_params(deep=False)
    settings.pop("verbose")
    return {
        "kind": type(model).__name__,
        "columns": column_names(model),
        "named": hasattr(model, "feature_names_in_"),
        "kinds": _kinds(model),
        "settings": settings,
        "fitted": model.fitted_.summary(column_names(model)),
        "health": _health(model),
    }


def _kinds(model: Any) -> dict[str, str]:
    """What the columns are; a target has inputs instead."""
    if is_conditional(model):
        return {}
    kinds = model.column_kinds_.values()
    return dict(zip(column_names(model), map(str, kinds), strict=True))


def kind_lines(columns: Sequence[ColumnSummary]) -> list[str]:
    """A table of columns: name, kind, what it holds, and how much of it is missing."""
    cells = [("column", "kind", "missing", "values")]
    cells += [(one.name, one.kind, f"{one.missing:.1%}", one.values) for one in columns]
    widths = [max(len(row[place]) for row in cells) for place in range(3)]
    return [
        f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip()
        for row in cells
    ]


def _health(model: Any) -> dict[str, Any]:
    health = model.health_
    return {
        "good": health.good,
        "in_words": health.in_words,
        "gain": health.comparison.gain,
        "gain_error": health.comparison.gain_error,
        "base_alone": not health.has_tilt,
        "figures": {finding.name: finding.value for finding in health.findings()},
    }


def shown(description: dict[str, Any]) -> list[str]:
    """A description as lines."""
    columns = description["columns"]
    lines = [f"{description['kind']} of {len(columns)} columns: {_short(columns)}"]
    for part in ("kinds", "settings", "fitted", "health", "versions"):
        if description.get(part):
            lines.append(f"{part}")
            lines += [
                f"  {name if part == 'kinds' else name.replace('_', ' '):<22} {_short(value)}"
                for name, value in description[part].items()
            ]
    return lines


def _short(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, dict):
        return _short([f"{name} {_short(one)}" for name, one in value.items()])
    if isinstance(value, (list, tuple, np.ndarray)):
        more = f", … ({len(value)})" if len(value) > 12 else ""
        return ", ".join(_short(one) for one in value[:12]) + more or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "none" if value is None else str(value)
