"""The rows that the model expects least.

Beside its log density a row has the share of draws whose log density is lower still: how unusual it
would be for a row of the model. The value to look at first is marked (see
`kexpfam.report.suspects`), with what would be expected in its place.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, count, element, joined, number
from kexpfam.report.section import Section
from kexpfam.report.suspects import Suspects, cell_in_words, suspects_of

__all__ = ["most_unusual", "unusual_section"]

_SHOWN = 20
# The probability of the expected range.
_EXPECTED = 0.9


def most_unusual(log_density: Float[np.ndarray, " n"]) -> Int[np.ndarray, " k"]:
    """Places of the lowest log densities, lowest first."""
    return np.argsort(log_density, kind="stable")[:_SHOWN]


def unusual_section(evidence: Evidence) -> Section | None:
    """A table of them that can be sorted; None without rows."""
    if not len(evidence.rows):
        return None
    places = most_unusual(evidence.log_density)
    lower = np.sort(evidence.draw_log_density)
    shares = np.searchsorted(lower, evidence.log_density[places]) / len(lower)
    rows, kind = evidence.rows[places], evidence.kind
    suspects = suspects_of(evidence, rows, _EXPECTED)
    body = joined(
        [
            element(
                "p",
                f"The {len(places)} of {count(len(evidence.rows), kind)} to which the model gives "
                "the lowest log density. Row numbers count from 1 in the table as it was given; "
                "press one to see the row in the pair plot. The share is that of the model’s draws "
                f"with a lower log density still. {suspects.in_words}",
            ),
            _table(evidence, places, shares, suspects),
        ]
    )
    data = {
        "numbers": evidence.row_numbers[places],
        "log_density": evidence.log_density[places],
        "share_of_draws_below": shares,
        "values": evidence.rows[places],
        "columns": list(evidence.names),
        "marked": suspects.columns,
        "surprise": suspects.surprise,
        "measure": suspects.measure,
        "expected": suspects.expected,
    }
    return Section("unusual", "The most unusual rows", body, data)


def _two_decimals(log: float) -> str:
    return f"{log:.2f}".replace("-", "−") if np.isfinite(log) else number(log)


def _table(
    evidence: Evidence,
    places: Int[np.ndarray, " k"],
    shares: Float[np.ndarray, " k"],
    suspects: Suspects,
) -> Html:
    names = ["Row", "Log density", "Share of draws below", "Look at", "Expected", *evidence.names]
    heads = [
        element("th", element("button", name, type="button"), scope="col", aria_sort="none")
        for name in names
    ]
    rows = []
    for place, share, culprit, ends, words in zip(
        places, shares, suspects.columns, suspects.expected, suspects.expected_in_words, strict=True
    ):
        row, log = evidence.row_numbers[place], evidence.log_density[place]
        button = element(
            "button", row, type="button", class_="pick", aria_label=f"Show row {row} in the plot"
        )
        cells = [
            element("th", button, scope="row", data_value=row),
            element("td", _two_decimals(log), data_value=float(log)),
            element("td", f"{100 * share:.2f} %", data_value=float(share)),
            element("td", evidence.names[culprit], data_value=int(culprit)),
            element("td", words, data_value=float(ends[0])),
        ]
        for column, value in enumerate(evidence.rows[place]):
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
