"""What the columns of a mixed table are: kinds, ranges or vocabularies, and what is missing."""

from __future__ import annotations

import numpy as np

from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import ColumnSummary, summarized
from kexpfam.report.charts import bar_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, count, element, joined, table
from kexpfam.report.section import Section

__all__ = ["columns_section"]


def columns_section(evidence: Evidence) -> Section | None:
    """A line for every column; None where all of them are real numbers."""
    if all(kind == ColumnKind("real") for kind in evidence.kinds):
        return None
    rows = np.concatenate([evidence.training, evidence.rows])
    known = len(rows) > 0
    columns = summarized(evidence.names, evidence.kinds, rows)
    heads = ["Column", "Kind", "Values", *(["Missing"] if known else [])]
    lines = [
        [one.name, one.kind, one.values or "–", *([f"{100 * one.missing:.1f} %"] if known else [])]
        for one in columns
    ]
    words = (
        "Kinds are read from the columns’ types and values, or were given. Real and bounded "
        "columns have a density, per unit of the column; all other values, and atoms, have "
        "probabilities."
    )
    if known:
        words += f" Ranges and shares are those of {count(len(rows), 'row')}."
    body = joined(
        [
            element("p", words),
            table("Kinds of the columns", heads, lines, numeric=False),
            _missing_chart(columns),
        ]
    )
    data = {"columns": [one._asdict() for one in columns]}
    return Section("columns", "What the columns are", body, data)


def _missing_chart(columns: list[ColumnSummary]) -> Html | None:
    """Shares of missing values, of the columns that have some, most first."""
    holes = sorted((one for one in columns if one.missing), key=lambda one: -one.missing)
    if not holes:
        return None
    names, shares = [one.name for one in holes], np.array([one.missing for one in holes])
    label = "; ".join(f"{one.name}: {100 * one.missing:.1f} % missing" for one in holes)
    return element(
        "figure",
        bar_chart(names, 100 * shares, None, label),
        element("figcaption", "Values that are missing, in per cent of the rows."),
        class_="small",
    )
