"""`kexpfam compare`: do two tables differ, how far, and which columns moved?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

import kexpfam
from kexpfam.cli.inputs import opened, split_names
from kexpfam.cli.outputs import check_output, naming
from kexpfam.cli.tables import in_options, kinds_from
from kexpfam.cli.terminal import Terminal
from kexpfam.data.columns import shared_columns
from kexpfam.data.dialects import Dialect
from kexpfam.writing import whole_file

__all__ = ["Request", "compare_tables"]

_PICTURES, _MOST_COLUMNS_DRAWN = (".png", ".svg", ".pdf"), 5


class Request(NamedTuple):
    """What to compare, and how closely."""

    files: tuple[str, str]
    columns: str | None
    exclude: str | None
    kinds: Sequence[str]
    level: float
    permutations: int
    divergence: bool
    seed: int
    dialect: Dialect


def compare_tables(
    request: Request, picture: str | None, terminal: Terminal, *, force: bool
) -> float:
    """Print what was found, and draw it; the p-value comes back."""
    if picture is not None:
        _check_picture(picture, force)
    kinds = kinds_from(request.kinds)
    first, second, notes = _read(request, terminal)
    with in_options():
        found = kexpfam.compare(
            first,
            second,
            kinds=kinds,
            level=request.level,
            n_permutations=request.permutations,
            divergence=request.divergence,
            labels=request.files,
            random_state=request.seed,
            verbose=terminal.lively,
        )
    lines = [*found.lines(), *(f"Note: {note}" for note in notes)]
    record = found.to_dict() | {"notes": [*found.notes, *notes], "picture": picture}
    if picture is not None:
        _draw(found, picture)
        lines.append(f"Picture: {picture}")
    terminal.result(record, lines)
    return found.p_value


def _read(request: Request, terminal: Terminal) -> tuple[Any, Any, list[str]]:
    """Both tables with the columns that are compared, and which rows were read if not all."""
    tables: list[Any] = []
    notes: list[str] = []
    chosen: tuple[str, ...] | None = None
    with (
        opened(request.files[:1], terminal, dialect=request.dialect) as first,
        opened(request.files[1:], terminal, dialect=request.dialect) as second,
    ):
        if first.names is not None and second.names is not None:
            names = (first.names, second.names)
            wanted, others = split_names(request.columns), split_names(request.exclude)
            chosen = tuple(shared_columns(names, request.files, wanted, others))
        for file, data in zip(request.files, (first, second), strict=True):
            read = replace(data, columns=chosen).table(request.seed)
            for doubt in read.doubts:
                terminal.warn(doubt)
            if len(read.frame) < read.n_rows:
                notes.append(f"Of {file}, {len(read.frame)} of {read.n_rows} rows were read.")
            tables.append(read.frame)
    return tables[0], tables[1], notes


def _check_picture(picture: str, force: bool) -> None:
    if Path(picture).suffix.lower() not in _PICTURES:
        raise typer.BadParameter(
            f"{picture} is not a type of picture that can be drawn. Expected a name ending "
            f"in one of {', '.join(_PICTURES)}."
        )
    check_output(Path(picture), force)


def _draw(found: kexpfam.TableComparison, picture: str) -> None:
    # A figure of its own, without a window.
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'kexpfam[plot]'.") from error
    from kexpfam.plotting import plot_comparison

    n_panels = min(_MOST_COLUMNS_DRAWN, len(found.columns)) + bool(found.pairs)
    width = min(3, n_panels)
    height = -(-n_panels // width)
    figure = Figure(figsize=(3.8 * width, 3.1 * height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(height, width, squeeze=False).ravel()
    plot_comparison(found, _MOST_COLUMNS_DRAWN, panels[:n_panels])
    for unused in panels[n_panels:]:
        unused.set_axis_off()
    with naming(Path(picture)), whole_file(picture) as part:
        figure.savefig(part, dpi=150, format=Path(picture).suffix[1:].lower())
