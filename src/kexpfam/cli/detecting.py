"""`kexpfam anomalies`: rows that are unusual, each judged by a model that was not fitted to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float

import kexpfam
from kexpfam.cli.inputs import STANDARD, Data, opened, split_names
from kexpfam.cli.outputs import check_table_output, table_output
from kexpfam.cli.scoring import columns_for
from kexpfam.cli.tables import in_options, kinds_from, table_blocks
from kexpfam.cli.terminal import Terminal
from kexpfam.data.cells import rows_at
from kexpfam.data.dialects import Dialect

__all__ = ["Search", "find_anomalies"]

_HEADINGS = ["row", "score", "p_value", "anomaly", "column", "value", "low", "high"]
# Flagged rows that are shown; all of them are in the file.
_MOST_SHOWN = 50


class Search(NamedTuple):
    """Where to look, and how closely."""

    files: Sequence[str]
    training_files: Sequence[str]
    columns: str | None
    exclude: str | None
    kinds: Sequence[str]
    false_alarms: float
    seed: int
    dialect: Dialect


class _Judged(NamedTuple):
    """Some rows of the data, and why those that are flagged are."""

    scores: Float[np.ndarray, " n"]
    p_values: Float[np.ndarray, " n"]
    labels: np.ndarray
    explanation: kexpfam.estimators.Explanation


def find_anomalies(search: Search, output: str | None, terminal: Terminal, *, force: bool) -> None:
    """Judge all rows, show those that are flagged, and write a table of all."""
    if output is not None:
        check_table_output(output, force, terminal)
        if Path(output).suffix.lower() == ".npy":
            raise typer.BadParameter(
                f"{output} can hold numbers only, and this table has a column of words. Write a "
                ".csv or .parquet file."
            )
    detector = kexpfam.KernelAnomalyDetector(
        false_alarms=search.false_alarms,
        columns=kinds_from(search.kinds),
        random_state=search.seed,
        verbose=terminal.lively,
    )
    flagged: list[dict[str, Any]] = []
    n_rows = 0
    with ExitStack() as stack:
        pieces = _judged(search, detector, terminal)
        write = None
        for judged in pieces:
            if output is not None and write is None:
                write = stack.enter_context(table_output(output, _HEADINGS))
            flagged += _records(judged, n_rows)
            if write is not None:
                write(_table(judged, n_rows))
            n_rows += len(judged.scores)
    flagged.sort(key=lambda one: -one["score"])
    record = {
        "output": output,
        "rows": n_rows,
        "training_rows": len(detector.decision_scores_),
        "false_alarms": search.false_alarms,
        "threshold": detector.threshold_,
        "anomalies": flagged,
    }
    lines = _lines(flagged, n_rows, search, output)
    if output == STANDARD:
        terminal.done(record, lines)
    else:
        terminal.result(record, lines)


def _judged(search: Search, detector: Any, terminal: Terminal) -> Iterator[_Judged]:
    """Rows of the data, some at a time."""
    options: dict[str, Any] = {
        "columns": split_names(search.columns),
        "exclude": split_names(search.exclude),
        "dialect": search.dialect,
    }
    files = search.training_files or search.files
    with opened(files, terminal, **options) as data:
        frame = _fitted(search, detector, data, terminal)
    if not search.training_files:
        places = np.flatnonzero(detector.labels_)
        yield _Judged(
            detector.decision_scores_,
            detector.p_values_,
            detector.labels_,
            detector.explain_training_rows(frame, places),
        )
        return
    names = columns_for(detector, list(search.files))
    with opened(search.files, terminal, columns=names, dialect=search.dialect) as data:
        for rows, _ in table_blocks(detector, data):
            scores = detector.decision_function(rows)
            p_values = detector.p_values_of(scores)
            labels = (p_values <= search.false_alarms).astype(int)
            places = np.flatnonzero(labels)
            yield _Judged(scores, p_values, labels, detector.explain(rows_at(rows, places)))


def _fitted(search: Search, detector: Any, data: Data, terminal: Terminal) -> Any:
    """The rows that the detector was fitted to."""
    read = data.table(search.seed)
    for doubt in read.doubts:
        terminal.warn(doubt)
    if len(read.frame) < read.n_rows and not search.training_files:
        raise ValueError(
            f"The data have {read.n_rows} rows, but without --train at most {len(read.frame)} can "
            "be judged. Give some of the rows as --train, and all of them as DATA."
        )
    with in_options():
        detector.fit(read.frame)
    return read.frame


def _records(judged: _Judged, first: int) -> list[dict[str, Any]]:
    """Flagged rows, with why they are."""
    why = judged.explanation
    words = why.in_words()
    return [
        {
            "row": int(first + place + 1),
            "score": float(judged.scores[place]),
            "p_value": float(judged.p_values[place]),
            "column": why.columns[number],
            "value": why.values[number],
            "low": why.low[number],
            "high": why.high[number],
            "in_words": words[number],
        }
        for number, place in enumerate(np.flatnonzero(judged.labels))
    ]


def _table(judged: _Judged, first: int) -> list[np.ndarray]:
    """The columns of the file; cells of words, since some values are."""
    n_rows = len(judged.scores)
    cells = np.full((4, n_rows), None, object)
    places, why = np.flatnonzero(judged.labels), judged.explanation
    for row, values in zip(cells, (why.columns, why.values, why.low, why.high), strict=True):
        row[places] = [str(value) for value in values]
    numbers = np.arange(first + 1, first + n_rows + 1)
    return [numbers, judged.scores, judged.p_values, judged.labels, *cells]


def _lines(
    flagged: Sequence[dict[str, Any]], n_rows: int, search: Search, output: str | None
) -> list[str]:
    """What is shown: a line for each flagged row, and what the rate means."""
    share = f"{100 * search.false_alarms:g} %"
    meaning = (
        f"About {share} of ordinary rows are flagged by mistake."
        if search.training_files
        else f"The most unusual {share} are flagged; with --train GOOD, that is the rate of false "
        "alarms."
    )
    are = "is" if len(flagged) == 1 else "are"
    lines = [f"{len(flagged)} of {n_rows} rows {are} flagged. {meaning}"]
    if flagged:
        lines.append(f"{'row':>8}  {'score':>8}  {'p-value':>8}  least expected value")
    for one in flagged[:_MOST_SHOWN]:
        lines.append(
            f"{one['row']:>8}  {one['score']:>8.2f}  {one['p_value']:>8.2g}  {one['in_words']}"
        )
    if len(flagged) > _MOST_SHOWN:
        where = f"All are in {output}." if output else "Give -o FILE for all of them."
        lines.append(f"… and {len(flagged) - _MOST_SHOWN} more. {where}")
    if output not in (None, STANDARD):
        lines.append(f"Table: {output}")
    return lines
