"""`kexpfam sample`: rows drawn from a model."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import typer

from kexpfam.cli.imputing import draw_the_rest
from kexpfam.cli.inputs import STANDARD, opened
from kexpfam.cli.models import column_names, is_conditional, loaded, target_name
from kexpfam.cli.outputs import check_holds_words, check_table_output, table_output
from kexpfam.cli.scoring import blocks, columns_for, positional
from kexpfam.cli.tables import columns_of
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect

__all__ = ["sample_rows"]

_ROWS = 1000


def sample_rows(
    model_path: str,
    n_rows: int | None,
    output: str,
    terminal: Terminal,
    *,
    seed: int,
    method: str | None,
    given: list[str],
    force: bool,
    dialect: Dialect,
) -> None:
    """Draw rows, or targets at given rows, and write them."""
    check_table_output(output, force, terminal)
    model = loaded(model_path, terminal)
    if is_conditional(model):
        if not given or method is not None:
            raise typer.BadParameter(
                f"{model_path} is the density of a target given inputs: name the file of inputs "
                "with --given, and no --method."
            )
        _sample_targets(model, given, n_rows or 1, output, terminal, seed, dialect)
        return
    if given and not hasattr(model, "impute"):
        raise typer.BadParameter(
            f"--given is for densities of a target, and for models that can fill in what is not "
            f"given; {model_path} is a {type(model).__name__}. Fit a KernelChain: kexpfam fit DATA."
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
    with terminal.working(f"drawing {n_rows} rows"):
        rows = model.sample(n_rows, random_state=seed, **options)
    names, columns = column_names(model), columns_of(rows)
    check_holds_words(output, columns)
    with table_output(output, names) as write:
        for start in range(0, n_rows, 8192):
            write([column[start : start + 8192] for column in columns])
    lines = [f"{n_rows} rows drawn with seed {seed}."]
    if output != STANDARD:
        lines.append(f"Table: {output}")
    record = {"output": output, "rows": n_rows, "columns": names, "seed": seed}
    terminal.done(record, lines)


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
