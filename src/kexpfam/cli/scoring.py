"""`kexpfam score`: log density, gradient and Laplacian at every row, block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

from kexpfam.cli.inputs import STANDARD, Data, opened
from kexpfam.cli.models import column_names, is_conditional, loaded, target_name
from kexpfam.cli.outputs import check_table_output, table_output
from kexpfam.cli.terminal import Terminal

__all__ = ["blocks", "columns_for", "positional", "score_rows"]


def score_rows(
    model_path: str,
    files: list[str],
    output: str,
    terminal: Terminal,
    *,
    gradient: bool,
    laplacian: bool,
    surprise: bool,
    force: bool,
) -> None:
    """Write one line for each row of the data."""
    check_table_output(output, force, terminal)
    model = loaded(model_path, terminal)
    if surprise and is_conditional(model):
        raise typer.BadParameter(
            f"--surprise is for densities of whole rows; {model_path} is that of a target."
        )
    names = [target_name(model)] if is_conditional(model) else column_names(model)
    headings = ["row", "log_density"]
    headings += [f"gradient_{name}" for name in names] if gradient else []
    headings += ["laplacian"] if laplacian else []
    headings += [f"surprise_{name}" for name in names] if surprise else []
    with opened(files, terminal, columns=columns_for(model, files)) as data:
        plain = positional(model)
        n_rows, total = 0, 0.0
        with table_output(output, headings) as write:
            for rows in blocks(data, terminal):
                # Of a conditional density, the last column is the target.
                parts = (rows[:, :-1], rows[:, -1]) if is_conditional(model) else (rows,)
                logs = plain.score_samples(*parts)
                columns = [np.arange(n_rows + 1, n_rows + len(rows) + 1), logs]
                columns += list(np.atleast_2d(plain.gradient(*parts).T)) if gradient else []
                columns += [plain.laplacian(*parts)] if laplacian else []
                columns += list(plain.surprise(rows).T) if surprise else []
                write(columns)
                n_rows, total = n_rows + len(rows), total + float(logs.sum())
    record = {"output": output, "rows": n_rows, "columns": headings, "score": total / n_rows}
    lines = [f"{n_rows} rows, mean log density {total / n_rows:.6g}."]
    if output != STANDARD:
        lines.append(f"Table: {output}")
    terminal.done(record, lines)


def columns_for(model: Any, files: list[str], *, target: bool = True) -> list[str] | None:
    """The model's columns by name, where model and data have names; else all, by position.

    Of a conditional density its inputs, and then the target unless it is not asked for.
    """
    arrays = all(Path(file).suffix.lower() == ".npy" for file in files)
    if not hasattr(model, "feature_names_in_") or arrays:
        return None
    names = column_names(model)
    return [*names, target_name(model)] if target and is_conditional(model) else names


def positional(model: Any) -> Any:
    """The model for plain arrays whose columns stand in its order already."""
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    return model


def blocks(data: Data, terminal: Terminal) -> Any:
    """Blocks of rows, under a bar."""
    source = data.rows(terminal.progress)
    for chunk in terminal.progress.rows(source.chunks(), source.n_rows, "rows"):
        yield chunk.rows
