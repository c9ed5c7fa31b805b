"""`kexpfam predict`: mean, standard deviation, intervals and quantiles of a target, row by row."""

from __future__ import annotations

import numpy as np
import typer

from kexpfam.cli.inputs import STANDARD, opened
from kexpfam.cli.models import loaded
from kexpfam.cli.outputs import check_table_output, table_output
from kexpfam.cli.scoring import blocks, columns_for, positional
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect

__all__ = ["predict_rows"]


def predict_rows(
    model_path: str,
    files: list[str],
    output: str,
    terminal: Terminal,
    *,
    interval: float,
    quantiles: str | None,
    force: bool,
    dialect: Dialect,
) -> None:
    """Write one line for each row of the data."""
    check_table_output(output, force, terminal)
    levels = _levels(quantiles)
    ends = [(1 - interval) / 2, (1 + interval) / 2]
    headings = ["row", "mean", "standard_deviation", "lower", "upper"]
    headings += [f"quantile_{level:g}" for level in levels]
    model = loaded(model_path, terminal, conditional=True)
    columns = columns_for(model, files, target=False)
    with opened(files, terminal, columns=columns, dialect=dialect) as data:
        plain = positional(model)
        n_rows = 0
        with table_output(output, headings) as write:
            for rows in blocks(data, terminal):
                found = plain.predict_quantiles(rows, [*ends, *levels])
                numbers = np.arange(n_rows + 1, n_rows + len(rows) + 1)
                write([numbers, plain.predict(rows), plain.predict_std(rows), *found.T])
                n_rows += len(rows)
    record = {"output": output, "rows": n_rows, "columns": headings, "interval": interval}
    lines = [f"{n_rows} rows, with intervals of {interval:.0%}."]
    if output != STANDARD:
        lines.append(f"Table: {output}")
    terminal.done(record, lines)


def _levels(text: str | None) -> list[float]:
    """Levels with commas between them."""
    try:
        levels = [float(part) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        levels = [0.0]
    if not all(0 < level < 1 for level in levels):
        raise typer.BadParameter(
            f"--quantiles must be numbers between 0 and 1 with commas between them; got {text!r}."
        )
    return levels
