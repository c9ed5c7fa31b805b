"""What the columns of a mixed table are: kinds, ranges or vocabularies, and what is missing."""

from __future__ import annotations

import numpy as np

from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import summarized
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import count, element, joined, table
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
    body = joined([element("p", words), table("Kinds of the columns", heads, lines, numeric=False)])
    data = {"columns": [one._asdict() for one in columns]}
    return Section("columns", "What the columns are", body, data)
