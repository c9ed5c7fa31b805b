"""Rows drawn from a model under conditions: values that are set, and conditions that must hold.

Values that are set are given to the model, which draws the rest. Rows that fail a condition are
drawn again, so that what is left has the model's distribution given the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import typer

from kexpfam.cli.models import column_names
from kexpfam.cli.tables import columns_of
from kexpfam.data.cells import rows_at
from kexpfam.data.conditions import Condition, read_condition

__all__ = ["conditions_for", "drawn_under", "given_rows", "joined"]

# Rounds of drawing again, and the share of rows that must pass for it to be worth while.
_MOST_ROUNDS, _LEAST_SHARE, _FEWEST_TRIED = 1000, 0.001, 5000


def conditions_for(texts: Sequence[str], names: Sequence[str]) -> list[Condition]:
    """Conditions on the columns of a model."""
    try:
        return [read_condition(text, names) for text in texts]
    except ValueError as error:
        raise typer.BadParameter(f"--require {error}") from error


def drawn_under(
    draw: Callable[[int, int], Any],
    n_rows: int,
    conditions: Sequence[Condition],
    names: Sequence[str],
) -> tuple[Any, int]:
    """Rows that keep all conditions, and how many were drawn for them.

    `draw(n, round)` gives n rows, others in every round.
    """
    if not conditions:
        return draw(n_rows, 0), n_rows
    parts: list[Any] = []
    n_kept = n_tried = 0
    for number in range(_MOST_ROUNDS):
        share = max(n_kept / n_tried, _LEAST_SHARE) if n_tried else 1.0
        wanted = min(int(1.1 * (n_rows - n_kept) / share) + 10, 10 * n_rows + 1000)
        rows = draw(wanted, number)
        columns = dict(zip(names, columns_of(rows), strict=True))
        keep = np.all([one.holds(columns) for one in conditions], axis=0)
        parts.append(rows_at(rows, np.flatnonzero(keep)[: n_rows - n_kept]))
        n_tried += wanted
        n_kept += min(int(keep.sum()), n_rows - n_kept)
        if n_kept == n_rows:
            return joined(parts), n_tried
        if n_tried >= _FEWEST_TRIED and n_kept < _LEAST_SHARE * n_tried:
            break
    said = " and ".join(repr(one.text) for one in conditions)
    raise ValueError(
        f"Of {n_tried} rows drawn, {n_kept} meet {said}: too few to go on. Set a value with --set "
        "instead, or ask for less."
    )


def given_rows(model: Any, settings: Sequence[str], n_rows: int) -> Any:
    """Rows with the values of NAME=VALUE and nothing else, as the model's `impute` takes them."""
    import pandas as pd

    names = column_names(model)
    kinds = dict(zip(names, model.column_kinds_.values(), strict=True))
    values: dict[str, Any] = dict.fromkeys(names)
    for one in settings:
        name, sign, text = one.partition("=")
        name, text = name.strip(), text.strip()
        if not sign or name not in kinds:
            raise typer.BadParameter(
                f"--set must be NAME=VALUE with a column of the model; got {one!r}. Its columns "
                f"are {', '.join(names[:10])}{'…' if len(names) > 10 else ''}."
            )
        values[name] = _value(name, text, kinds[name])
    rows = {name: [value] * n_rows for name, value in values.items()}
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    return frame if hasattr(model, "feature_names_in_") else frame.to_numpy(object)


def _value(name: str, text: str, kind: Any) -> Any:
    """What a column holds that is written so."""
    levels = {str(level): level for level in (*kind.levels, *kind.pooled)}
    if levels:
        found = levels.get(
            text, {one.lower(): level for one, level in levels.items()}.get(text.lower())
        )
        if found is None:
            raise typer.BadParameter(
                f"--set {name}={text}: {name} has no such level. Its levels are "
                f"{', '.join(list(levels)[:10])}."
            )
        return found
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--set {name}={text}: {name} holds numbers.") from None


def joined(parts: Sequence[Any]) -> Any:
    """Parts of a table, one after the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts, ignore_index=True)
