"""Models from and to files, and what is worth knowing of one."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np

import kexpfam
from kexpfam.cli.inputs import is_data
from kexpfam.cli.terminal import Terminal

__all__ = [
    "column_names",
    "described",
    "is_conditional",
    "loaded",
    "ready",
    "shown",
    "target_name",
]


def ready() -> None:
    """Keep what is compiled for the next command, unless the user has JAX's own setting."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        with contextlib.suppress(OSError):
            kexpfam.keep_compilations()


def loaded(path: str, terminal: Terminal, *, conditional: bool | None = None) -> Any:
    """The model in a file: of whole rows, of a target given inputs, or of either kind (None)."""
    if is_data(path):
        raise ValueError(
            f"{path} is a name for data; expected a model file, as `kexpfam fit -o` writes it."
        )
    with terminal.working("loading"):
        ready()
        model = kexpfam.load(path)
    if conditional is False and is_conditional(model):
        raise ValueError(
            f"{path} holds the density of a target given inputs, and this command takes densities "
            "of whole rows. Try kexpfam predict or kexpfam score."
        )
    if conditional is True and not is_conditional(model):
        raise ValueError(
            f"{path} holds a density of whole rows, and this command takes that of a target given "
            "inputs. Fit one with kexpfam fit DATA --target COLUMN."
        )
    return model


def is_conditional(model: Any) -> bool:
    """Whether a model is the density of a target given inputs."""
    return isinstance(model, kexpfam.ConditionalKernelExponentialFamily)


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
        "settings": settings,
        "fitted": model.fitted_.summary(column_names(model)),
        "health": _health(model),
    }


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
    for part in ("settings", "fitted", "health", "versions"):
        if part in description:
            lines.append(f"{part}")
            lines += [
                f"  {name.replace('_', ' '):<22} {_short(value)}"
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
