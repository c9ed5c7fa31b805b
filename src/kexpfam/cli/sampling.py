"""`kexpfam sample`: rows drawn from a model."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import typer

from kexpfam.cli.drawing import conditions_for, drawn_under, given_rows
from kexpfam.cli.imputing import draw_the_rest
from kexpfam.cli.inputs import STANDARD, opened
from kexpfam.cli.models import column_names, is_conditional, loaded, target_name
from kexpfam.cli.outputs import check_holds_words, check_table_output, table_output
from kexpfam.cli.scoring import blocks, columns_for, positional
from kexpfam.cli.tables import columns_of
from kexpfam.cli.terminal import Terminal
from kexpfam.data.columns import require_columns
from kexpfam.data.dialects import Dialect
from kexpfam.metrics import privacy

__all__ = ["Wishes", "sample_rows"]

_ROWS = 1000
# Rows that are drawn at a time; privacy is measured with the first of them.
_PIECE = 100_000


class Wishes(NamedTuple):
    """Values that are set, conditions that must hold, and tables to measure privacy with."""

    settings: list[str]
    require: list[str]
    privacy: tuple[str, str] | None

    @property
    def any(self) -> bool:
        """Whether there is a wish."""
        return bool(self.settings or self.require or self.privacy)


def sample_rows(
    model_path: str,
    n_rows: int | None,
    output: str,
    terminal: Terminal,
    *,
    seed: int,
    method: str | None,
    given: list[str],
    wishes: Wishes,
    force: bool,
    dialect: Dialect,
) -> None:
    """Draw rows, or targets at given rows, and write them."""
    check_table_output(output, force, terminal)
    model = loaded(model_path, terminal)
    if wishes.any and (is_conditional(model) or given):
        raise typer.BadParameter(
            "--set, --require and --privacy are for draws of whole rows: leave out --given, and "
            "use a model of whole rows."
        )
    if wishes.settings and (not hasattr(model, "impute") or method is not None):
        raise typer.BadParameter(
            f"--set needs a model that can fill in the other columns, and no --method; "
            f"{model_path} is a {type(model).__name__}. Fit a KernelChain: kexpfam fit DATA."
        )
    if is_conditional(model):
        if not given or method is not None:
            raise typer.BadParameter(
                f"{model_path} is the density of a target given inputs: give the file of inputs "
                "with --given, and leave out --method."
            )
        _sample_targets(model, given, n_rows or 1, output, terminal, seed, dialect)
        return
    if given and not hasattr(model, "impute"):
        raise typer.BadParameter(
            f"--given needs a density of a target, or a model that can fill in the other "
            f"columns; {model_path} is a {type(model).__name__}. Fit a KernelChain: kexpfam fit "
            "DATA."
        )
    if method is not None and (given or "method" not in signature(model.sample).parameters):
        raise typer.BadParameter(
            f"--method must be left out: a {type(model).__name__} draws "
            f"{'what is not given' if given else 'one column after the other'} in one way only."
        )
    if given:
        draw_the_rest(
            model,
            given,
            n_rows or 1,
            output,
            terminal,
            seed=seed,
            rows_are_named=True,
            partly=True,
            dialect=dialect,
        )
        return
    n_rows = n_rows or _ROWS
    options = {} if method is None else {"method": method}
    names = column_names(model)
    conditions = conditions_for(wishes.require, names)
    tables = [_read(one, names, terminal, seed, dialect) for one in wishes.privacy or ()]

    def drawn(piece: int) -> tuple[Any, int]:
        """One piece of the rows: memory does not grow with their number."""

        def draw(count: int, number: int) -> Any:
            first = piece == number == 0
            state = seed if first else np.random.RandomState([seed, number, piece])
            if wishes.settings:
                return model.impute(given_rows(model, wishes.settings, count), random_state=state)
            return model.sample(count, random_state=state, **options)

        return drawn_under(draw, min(_PIECE, n_rows - piece * _PIECE), conditions, names)

    with terminal.working(f"drawing {n_rows} rows"):
        rows, n_tried = drawn(0)
        columns = columns_of(rows)
        check_holds_words(output, columns)
        with table_output(output, names) as write:
            for piece in range(-(-n_rows // _PIECE)):
                if piece:
                    more, tried = drawn(piece)
                    columns, n_tried = columns_of(more), n_tried + tried
                for start in range(0, len(columns[0]), 8192):
                    write([column[start : start + 8192] for column in columns])
    lines = [f"{n_rows} rows drawn with seed {seed}."]
    record = {"output": output, "rows": n_rows, "columns": names, "seed": seed}
    if conditions:
        record["tried"] = n_tried
        lines.append(f"{n_rows / n_tried:.1%} of {n_tried} rows met the conditions.")
    if output != STANDARD:
        lines.append(f"Table: {output}")
    if tables:
        with terminal.working("measuring distances"):
            found = privacy(_like(rows, tables[0], names), *tables, random_state=seed)
        record["privacy"] = found.to_dict()
        lines += found.lines()
    terminal.done(record, lines)


def _read(file: str, names: list[str], terminal: Terminal, seed: int, dialect: Dialect) -> Any:
    """The model's columns of a file, or of an array all of them."""
    with opened([file], terminal, dialect=dialect) as data:
        there = data.names
        if there is None:
            return data.table(seed).frame
        require_columns(file, names, there)
        return replace(data, columns=tuple(names)).table(seed).frame


def _like(rows: Any, table: Any, names: list[str]) -> Any:
    """Draws as the tables are: an array where these are arrays, else a data frame."""
    if isinstance(table, np.ndarray) or not isinstance(rows, np.ndarray):
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=names)


def _sample_targets(
    model: Any,
    files: list[str],
    n_draws: int,
    output: str,
    terminal: Terminal,
    seed: int,
    dialect: Dialect,
) -> None:
    """Targets for every row of inputs, one line each."""
    headings = ["row", target_name(model)]
    generator, n_rows = np.random.RandomState(seed), 0
    columns = columns_for(model, files, target=False)
    with opened(files, terminal, columns=columns, dialect=dialect) as data:
        plain = positional(model)
        with table_output(output, headings) as write:
            for rows in blocks(data, terminal):
                draws = plain.sample(rows, n_draws, random_state=generator)
                numbers = np.arange(n_rows + 1, n_rows + len(rows) + 1)
                write([np.repeat(numbers, n_draws), draws.ravel()])
                n_rows += len(rows)
    lines = [f"{n_draws} draws at each of {n_rows} rows, with seed {seed}."]
    if output != STANDARD:
        lines.append(f"Table: {output}")
    record = {"output": output, "rows": n_rows * n_draws, "columns": headings, "seed": seed}
    terminal.done(record, lines)
