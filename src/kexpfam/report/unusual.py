"""The rows that the model expects least, and why.

Beside its log density a row has the share of draws whose log density is lower still: how unusual it
would be for a row of the model. The value that is most surprising given all other values of its row
is marked (`kexpfam.model.expected`), with what was to be expected in its place.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import MixedTable
from kexpfam.estimators.explanations import Explanation, explained
from kexpfam.model.expected import Expected, expected_values
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, count, element, joined, number
from kexpfam.report.section import Section

__all__ = ["cell_in_words", "most_unusual", "unusual_section"]

_SHOWN = 20
# The probability of the expected range, and the share of draws that is far out.
_EXPECTED, _FAR_OUT = 0.9, 0.001


def most_unusual(log_density: Float[np.ndarray, " n"]) -> Int[np.ndarray, " k"]:
    """Places of the lowest log densities, lowest first."""
    return np.argsort(log_density, kind="stable")[:_SHOWN]


def cell_in_words(value: float, kind: ColumnKind) -> str:
    """A value for people: a level by its name."""
    if np.isnan(value):
        return "missing"
    levels = kind.names()
    if levels is None:
        return number(value, 5)
    return levels[int(value)] if np.isfinite(value) else "unknown"


def unusual_section(evidence: Evidence) -> Section | None:
    """A table of them that can be sorted; None without rows."""
    if not len(evidence.rows):
        return None
    places = most_unusual(evidence.log_density)
    lower = np.sort(evidence.draw_log_density)
    shares = np.searchsorted(lower, evidence.log_density) / len(lower)
    rows = evidence.rows[places]
    found = expected_values(evidence.model.density_, rows, _EXPECTED)
    why = explained(MixedTable(evidence.kinds, evidence.names, "numpy", "number"), rows, found)
    body = joined(
        [
            element("p", _in_words(evidence, shares)),
            element(
                "p",
                f"Here are the {len(places)} with the lowest log density. Row numbers count from 1 "
                "in the table as it was given; press one to see the row in the pair plot. The "
                "share is that of the model’s draws with a lower log density still. In bold: the "
                "value that is most surprising given all other values of its row, with the range "
                "in which nine of ten such values lie, or the likeliest level.",
            ),
            _table(evidence, places, shares[places], found, why),
            _about_missing(evidence),
        ]
    )
    data = {
        "numbers": evidence.row_numbers[places],
        "log_density": evidence.log_density[places],
        "share_of_draws_below": shares[places],
        "values": rows,
        "columns": list(evidence.names),
        "marked": found.columns,
        "surprise": found.surprise,
        "expected": np.stack([found.low, found.high], axis=1),
        "words": why.in_words(),
    }
    return Section("unusual", "The most unusual rows", body, data)


def _in_words(evidence: Evidence, shares: Float[np.ndarray, " n"]) -> str:
    """How many rows lie far out, and how many would by chance."""
    far = int((shares <= _FAR_OUT).sum())
    chance = _FAR_OUT * len(shares)
    expected = f"about {number(chance, 1)}" if chance >= 1 else "fewer than one"
    return (
        f"{far or 'None'} of {count(len(shares), evidence.kind)} {'are' if far > 1 else 'is'} as "
        "unlikely as the least likely thousandth of the model’s draws; by chance, "
        f"{expected} would be."
    )


def _about_missing(evidence: Evidence) -> Html | None:
    if evidence.complete.all():
        return None
    words = (
        "A row with missing values has the log density of its other values, which is seldom as "
        "low as that of a complete row."
    )
    return element("p", words, class_="note")


def _two_decimals(log: float) -> str:
    return f"{log:.2f}".replace("-", "−") if np.isfinite(log) else number(log)


def _table(
    evidence: Evidence,
    places: Int[np.ndarray, " k"],
    shares: Float[np.ndarray, " k"],
    found: Expected,
    why: Explanation,
) -> Html:
    names = ["Row", "Look at", "Expected", "Log density", "Share of draws below", *evidence.names]
    heads = [
        element(
            "th",
            element("button", name, type="button"),
            scope="col",
            aria_sort="none",
            class_="words" if place in (1, 2) else None,
        )
        for place, name in enumerate(names)
    ]
    rows = []
    for place, share, culprit, low, words in zip(
        places, shares, found.columns, found.low, why.expected(), strict=True
    ):
        row, log = evidence.row_numbers[place], evidence.log_density[place]
        button = element(
            "button", row, type="button", class_="pick", aria_label=f"Show row {row} in the plot"
        )
        values = evidence.rows[place]
        looked_at = f"{evidence.names[culprit]}: " + cell_in_words(
            values[culprit], evidence.kinds[culprit]
        )
        cells = [
            element("th", button, scope="row", data_value=row),
            element("td", looked_at, data_value=int(culprit), class_="words"),
            element("td", words, data_value=float(low), class_="words"),
            element("td", _two_decimals(log), data_value=float(log)),
            element("td", f"{100 * share:.2f} %", data_value=float(share)),
        ]
        for column, value in enumerate(values):
            text = cell_in_words(value, evidence.kinds[column])
            shown = element("strong", text) if column == culprit else text
            cells.append(element("td", shown, data_value=float(value)))
        rows.append(element("tr", *cells))
    caption = "Rows with the lowest log density; press a heading to sort by it"
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="numbers sortable",
        id="unusual-table",
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)
