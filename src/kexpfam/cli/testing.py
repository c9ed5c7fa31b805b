"""`kexpfam test`: do these rows come from this model?

Kernel Stein tests treat all columns alike, so rows and gradients are brought to the rows' own
standard deviations first: z = x / s, ∇_z log p = s ∇_x log p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.cli.inputs import opened
from kexpfam.cli.models import column_names, loaded
from kexpfam.cli.scoring import blocks, columns_for, positional
from kexpfam.cli.tables import table_blocks
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect
from kexpfam.estimators.mixed_rows import takes_tables
from kexpfam.goodness_of_fit import fssd_test, stein_test

__all__ = ["judge_rows"]

# Beyond it the test that is quadratic in the rows takes minutes.
_MANY_ROWS = 5000
_METHODS: dict[str, Any] = {"kernel": stein_test, "finite_set": fssd_test}


def judge_rows(
    model_path: str,
    files: list[str],
    terminal: Terminal,
    *,
    method: str,
    seed: int,
    dialect: Dialect,
) -> float:
    """Print statistic, p-value and what they mean; the p-value comes back."""
    model = loaded(model_path, terminal, conditional=False)
    _refuse_columns_without_gradient(model, model_path)
    mixed = takes_tables(model)
    with opened(files, terminal, columns=columns_for(model, files), dialect=dialect) as data:
        if mixed:
            tables = (rows for rows, _ in table_blocks(model, data))
            pieces = [(model.as_numbers(rows), np.asarray(model.gradient(rows))) for rows in tables]
        else:
            plain = positional(model)
            pieces = [(rows, plain.gradient(rows)) for rows in blocks(data, terminal)]
    rows, gradients = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    scale = rows.std(axis=0)
    scale[scale == 0] = 1.0
    chosen = method if method != "auto" else _usual(len(rows))
    with terminal.working("testing"):
        found = _METHODS[chosen](lambda _: gradients * scale, rows / scale, random_state=seed)
    record = {
        "method": chosen,
        "rows": len(rows),
        "statistic": found.statistic,
        "p_value": found.p_value,
        "in_words": in_words(found.p_value),
    }
    lines = [
        f"statistic {found.statistic:.6g}, p-value {found.p_value:.4g} ({len(rows)} rows, "
        f"{chosen.replace('_', ' ')} Stein test)",
        in_words(found.p_value),
    ]
    terminal.result(record, lines)
    return float(found.p_value)


def _refuse_columns_without_gradient(model: Any, path: str) -> None:
    kinds = dict(zip(column_names(model), model.column_kinds_.values(), strict=True))
    without = [f"{name} ({kind})" for name, kind in kinds.items() if not kind.has_gradient]
    if without:
        smooth = [name for name, kind in kinds.items() if kind.has_gradient]
        more = f" and {len(without) - 3} more" if len(without) > 3 else ""
        remedy = f"kexpfam report {path} --data DATA compares rows and draws of all columns"
        if smooth:
            others = f"kexpfam fit DATA --columns {','.join(smooth)}"
            remedy += f"; or test a model of the others: {others}"
        raise ValueError(
            "The kernel Stein test needs complete columns of real numbers without bounds and "
            f"atoms, and there are {', '.join(without[:3])}{more}. {remedy}."
        )


def _usual(n_rows: int) -> str:
    return "kernel" if n_rows <= _MANY_ROWS else "finite_set"


def in_words(p_value: float) -> str:
    """What a p-value says, and what it does not."""
    if p_value < 0.01:
        return "The rows differ from the model: so large a statistic is rare under it."
    if p_value < 0.05:
        return "Some evidence that the rows differ from the model; more rows would tell."
    return (
        "No sign that the rows differ from the model. (This does not prove that they agree, and "
        "says little about rows that the model was fitted to.)"
    )
