"""`kexpfam score`: log density, and what it is made of, at every row, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from kexpfam.cli.inputs import STANDARD, Data, opened
from kexpfam.cli.models import column_names, is_conditional, loaded, target_name
from kexpfam.cli.outputs import check_table_output, table_output
from kexpfam.cli.tables import table_blocks
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect
from kexpfam.estimators.mixed_rows import takes_tables

__all__ = ["Wanted", "blocks", "columns_for", "positional", "score_rows"]


class Wanted(NamedTuple):
    """What is to be written of every row beside its log density."""

    gradient: bool
    laplacian: bool
    surprise: bool
    contributions: bool


def score_rows(
    model_path: str,
    files: list[str],
    output: str,
    terminal: Terminal,
    wanted: Wanted,
    *,
    force: bool,
    dialect: Dialect,
) -> None:
    """Write one line for each row of the data."""
    check_table_output(output, force, terminal)
    model = loaded(model_path, terminal)
    _check_wanted(model, model_path, wanted)
    headings = ["row", "log_density", *_headings(model, wanted)]
    with opened(files, terminal, columns=columns_for(model, files), dialect=dialect) as data:
        n_rows, total, impossible = 0, 0.0, 0
        with table_output(output, headings) as write:
            for parts in _parts(model, data, terminal):
                logs = model.score_samples(*parts)
                numbers = np.arange(n_rows + 1, n_rows + len(logs) + 1)
                write([numbers, logs, *_columns(model, parts, wanted)])
                n_rows, none = n_rows + len(logs), np.isneginf(logs)
                impossible += int(none.sum())
                total += float(logs[~none].sum())
    mean = total / max(1, n_rows - impossible)
    record = {
        "output": output,
        "rows": n_rows,
        "columns": headings,
        "score": mean if not impossible else float("-inf"),
        "rows_without_density": impossible,
    }
    lines = [f"{n_rows} rows, mean log density {mean:.6g}."]
    if impossible:
        lines = [
            f"{n_rows} rows. The density is zero at {impossible} of them (a value outside of its "
            "bounds, or a category that was never seen); the mean log density of the others is "
            f"{mean:.6g}."
        ]
    if output != STANDARD:
        lines.append(f"Table: {output}")
    terminal.done(record, lines)


def _check_wanted(model: Any, path: str, wanted: Wanted) -> None:
    """Refuse what the model does not have, with what it has instead."""
    kind = type(model).__name__
    if wanted.surprise and is_conditional(model):
        raise typer.BadParameter(
            f"--surprise needs a density of whole rows; {path} is that of a target."
        )
    if wanted.surprise and not hasattr(model, "surprise"):
        raise typer.BadParameter(
            f"--surprise is not available for a {kind}. Use --contributions: what each column "
            "adds to the log density, given the columns before it."
        )
    if wanted.contributions and not hasattr(model, "contributions"):
        raise typer.BadParameter(
            f"--contributions are the terms of a KernelChain, and {path} is a {kind}."
            + (" Use --surprise." if hasattr(model, "surprise") else "")
        )
    if (wanted.gradient or wanted.laplacian) and not _places_of_gradient(model):
        raise typer.BadParameter(
            "--gradient and --laplacian need columns with a density, and all columns of "
            f"{path} have probabilities. Use --contributions."
        )


def _places_of_gradient(model: Any) -> list[int]:
    """Columns in which the log density has a derivative."""
    if is_conditional(model):
        return [0]
    kinds = model.column_kinds_.values()
    return [place for place, kind in enumerate(kinds) if not kind.is_discrete]


def _headings(model: Any, wanted: Wanted) -> list[str]:
    names = [target_name(model)] if is_conditional(model) else column_names(model)
    places = _places_of_gradient(model)
    return [
        *([f"gradient_{names[place]}" for place in places] if wanted.gradient else []),
        *(["laplacian"] if wanted.laplacian else []),
        *([f"surprise_{name}" for name in names] if wanted.surprise else []),
        *([f"contribution_{name}" for name in names] if wanted.contributions else []),
    ]


def _columns(model: Any, parts: tuple[Any, ...], wanted: Wanted) -> list[np.ndarray]:
    columns: list[np.ndarray] = []
    if wanted.gradient:
        gradient = np.atleast_2d(np.asarray(model.gradient(*parts)).T)
        columns += [gradient[place] for place in _places_of_gradient(model)]
    columns += [model.laplacian(*parts)] if wanted.laplacian else []
    columns += list(np.asarray(model.surprise(*parts)).T) if wanted.surprise else []
    columns += list(np.asarray(model.contributions(*parts)).T) if wanted.contributions else []
    return columns


def _parts(model: Any, data: Data, terminal: Terminal) -> Iterator[tuple[Any, ...]]:
    """What a model's methods take, block by block: rows, or inputs and the target."""
    if takes_tables(model):
        yield from ((rows,) for rows, _ in table_blocks(model, data))
        return
    positional(model)
    for rows in blocks(data, terminal):
        # Of a conditional density, the last column is the target.
        yield (rows[:, :-1], rows[:, -1]) if is_conditional(model) else (rows,)


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
