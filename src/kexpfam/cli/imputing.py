"""`kexpfam impute`: empty cells drawn given the other values of their row, and `sample --given`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import typer
from jaxtyping import Bool

from kexpfam.cli.drawing import conditions_for, joined
from kexpfam.cli.inputs import STANDARD, opened
from kexpfam.cli.models import column_names, loaded
from kexpfam.cli.outputs import check_holds_words, check_table_output, table_output
from kexpfam.cli.tables import columns_of, kinds_by_name, table_blocks
from kexpfam.cli.terminal import Terminal
from kexpfam.data.cells import rows_at
from kexpfam.data.columns import several
from kexpfam.data.conditions import Condition
from kexpfam.data.dialects import Dialect

__all__ = ["draw_the_rest", "impute_rows"]

# Times that a row is drawn anew while it fails a condition.
_MOST_TRIES = 20


def impute_rows(
    model_path: str,
    files: list[str],
    output: str,
    terminal: Terminal,
    *,
    draws: int,
    require: Sequence[str] = (),
    seed: int,
    force: bool,
    dialect: Dialect,
) -> None:
    """Write the rows with every empty cell of the model's columns filled, once or several times."""
    check_table_output(output, force, terminal)
    model = loaded(model_path, terminal, conditional=False)
    if not hasattr(model, "impute"):
        raise typer.BadParameter(
            f"{model_path} is a {type(model).__name__}, which cannot fill in what is missing. Fit "
            "a KernelChain: kexpfam fit DATA."
        )
    draw_the_rest(
        model,
        files,
        draws,
        output,
        terminal,
        seed=seed,
        conditions=conditions_for(require, column_names(model)),
        rows_are_named=draws > 1,
        partly=False,
        dialect=dialect,
    )


def draw_the_rest(
    model: Any,
    files: list[str],
    n_draws: int,
    output: str,
    terminal: Terminal,
    *,
    seed: int,
    conditions: Sequence[Condition] = (),
    rows_are_named: bool,
    partly: bool,
    dialect: Dialect,
) -> None:
    """Rows with everything drawn that is not given: empty cells, or columns that are not there.

    Other columns of the data come along, in their places. With `rows_are_named` the first columns
    say which row of the data it is, and which of its draws.
    """
    generator = np.random.RandomState(seed)
    n_rows, filled, failing = 0, 0, 0
    with opened(files, terminal, dialect=dialect) as data:
        known = list(kinds_by_name(model, data))
        there = data.names or column_names(model)
        gone = [name for name in known if name not in there]
        if gone and not partly:
            raise ValueError(
                f"{', '.join(files)} has no column {several(gone)}. To draw whole columns, use "
                "kexpfam sample MODEL --given FILE."
            )
        names = [*there, *gone]
        headings = [*(["row", "draw"] if rows_are_named else []), *names]
        with table_output(output, headings) as write:
            for rows, whole in table_blocks(model, data, others=True, partly=partly):
                numbers = np.arange(n_rows + 1, n_rows + len(rows) + 1)
                for draw in range(1, n_draws + 1):
                    found, n_failing = _imputed(model, rows, generator, conditions)
                    failing += n_failing
                    columns = _merged(whole, found, known)
                    check_holds_words(output, columns)
                    which = [numbers, np.full(len(rows), draw)] if rows_are_named else []
                    write([*which, *columns])
                n_rows += len(rows)
                filled += int(_holes(rows).sum())
    times = "" if n_draws == 1 else f" {n_draws} times each"
    if failing:
        terminal.warn(
            f"{failing} rows still fail a condition of --require after {_MOST_TRIES} tries: "
            "the values that were there rule it out, or make it very unlikely."
        )
    lines = [f"{n_rows} rows, {filled} empty cells drawn{times}, with seed {seed}."]
    if output != STANDARD:
        lines.append(f"Table: {output}")
    record = {
        "output": output,
        "rows": n_rows * n_draws,
        "cells": filled,
        **({"failing": failing} if conditions else {}),
        "columns": headings,
        "seed": seed,
    }
    terminal.done(record, lines)


def _imputed(
    model: Any, rows: Any, generator: np.random.RandomState, conditions: Sequence[Condition]
) -> tuple[Any, int]:
    """Rows with empty cells drawn, again where they fail a condition; and how many still do."""
    found = model.impute(rows, random_state=generator)
    if not conditions:
        return found, 0
    names, has_holes = column_names(model), _holes(rows).any(axis=1)
    for _ in range(_MOST_TRIES):
        columns = dict(zip(names, columns_of(found), strict=True))
        keep = np.all([one.holds(columns) for one in conditions], axis=0)
        again = np.flatnonzero(~keep & has_holes)
        if not len(again):
            break
        others = np.setdiff1d(np.arange(len(rows)), again)
        drawn = model.impute(rows_at(rows, again), random_state=generator)
        order = np.argsort(np.concatenate([others, again]))
        found = rows_at(joined([rows_at(found, others), drawn]), order)
    columns = dict(zip(names, columns_of(found), strict=True))
    failing = ~np.all([one.holds(columns) for one in conditions], axis=0)
    return found, int(failing.sum())


def _merged(whole: Any, found: Any, names: list[str]) -> list[np.ndarray]:
    """The columns of the data, those of the model replaced by what was drawn."""
    drawn = columns_of(found)
    if isinstance(whole, np.ndarray):
        return drawn
    replaced = dict(zip(names, drawn, strict=True))
    there = dict(zip(whole.columns, columns_of(whole), strict=True))
    return list((there | replaced).values())


def _holes(rows: Any) -> Bool[np.ndarray, "n d"]:
    """Which cells are empty."""
    if isinstance(rows, np.ndarray):
        empty = [value is None or value != value for value in rows.ravel()]
        return np.array(empty, bool).reshape(rows.shape)
    return rows.isna().to_numpy()
