"""The interactive pair plot: which points it holds, and the controls around it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, count, element, joined
from kexpfam.report.section import Section
from kexpfam.report.unusual import most_unusual

__all__ = ["pairs_section"]

# Points of a kind, and numbers in all: a page should stay under some megabytes.
_MOST_POINTS, _LEAST_POINTS, _MOST_NUMBERS = 1500, 200, 60_000


def pairs_section(evidence: Evidence) -> Section:
    """Judged rows and draws, two columns at a time."""
    n_columns = len(evidence.names)
    most = int(np.clip(_MOST_NUMBERS // n_columns, _LEAST_POINTS, _MOST_POINTS))
    kept = _kept_rows(evidence, most)
    # As many draws as rows, so that neither kind hides the other.
    n_draws = len(kept) if len(kept) else most
    draws = evidence.draws[:n_draws]
    first, second = _default_columns(evidence.rows if len(kept) else draws)
    has_levels = any(kind.names() is not None for kind in evidence.kinds)
    data = {
        "columns": [*evidence.names, "log density"],
        "levels": [*(kind.names() for kind in evidence.kinds), None],
        "start": [first, second],
        "data": {
            "values": evidence.rows[kept],
            "log_density": evidence.log_density[kept],
            "numbers": evidence.row_numbers[kept],
        },
        "draws": {"values": draws, "log_density": evidence.draw_log_density[:n_draws]},
    }
    body = joined(
        [
            element("p", _what_is_shown(evidence, len(kept), len(draws))),
            _controls(evidence, (first, second), len(kept) > 0),
            element(
                "div",
                element(
                    "svg",
                    id="pairs-plot",
                    class_="plot",
                    tabindex="0",
                    role="application",
                    aria_roledescription="scatter plot",
                    aria_label="Pair plot of rows and draws",
                    aria_describedby="pairs-help",
                ),
                element("div", id="pairs-detail", class_="detail", role="status"),
                class_="pairs",
            ),
            element(
                "p",
                "Point at a dot, or give the picture the focus and press the arrow keys: left and "
                "right go along the horizontal axis, up and down along the vertical one. Drag to "
                "zoom in; + and − zoom too, Escape shows everything."
                + (" Points of a category are spread sideways." if has_levels else ""),
                id="pairs-help",
                class_="note",
            ),
            element("noscript", element("p", "Only the pair plot needs JavaScript.")),
        ]
    )
    title = "Rows and draws, two columns at a time"
    if len(evidence.names) == 1:
        title = "Rows and draws, by their density"
    return Section("pairs", title, body, data)


def _kept_rows(evidence: Evidence, most: int) -> Int[np.ndarray, " k"]:
    """The unusual rows, which the table beside refers to, and the first of the others."""
    unusual = most_unusual(evidence.log_density)
    others = np.setdiff1d(np.arange(len(evidence.rows)), unusual)
    return np.sort(np.concatenate([unusual, others[: max(0, most - len(unusual))]]))


def _default_columns(rows: Float[np.ndarray, "n d"]) -> tuple[int, int]:
    """The two columns whose ranks are most correlated; one column goes against the log density."""
    if rows.shape[1] == 1:
        return 0, 1
    middle = np.nanmedian(np.where(np.isfinite(rows), rows, np.nan), axis=0)
    ranks = rankdata(np.where(np.isfinite(rows), rows, np.nan_to_num(middle)), axis=0)
    ranks -= ranks.mean(axis=0)
    lengths = np.sqrt((ranks**2).sum(axis=0))
    strength = np.abs(ranks.T @ ranks) / np.maximum(np.outer(lengths, lengths), 1e-300)
    upper = np.triu(strength, 1)
    first, second = np.unravel_index(int(np.argmax(upper)), upper.shape)
    return (int(first), int(second)) if second > first else (0, 1)


def _what_is_shown(evidence: Evidence, n_rows: int, n_draws: int) -> str:
    drawn = f"{count(n_draws, 'draw')} of the model"
    if not n_rows:
        return f"{drawn}."
    if n_rows < len(evidence.rows):
        shown = f"A sample of {count(n_rows, evidence.kind)} (of {len(evidence.rows)})"
    else:
        shown = f"All {count(n_rows, evidence.kind)}"
    return f"{shown} and {drawn}."


def _controls(evidence: Evidence, start: tuple[int, int], with_rows: bool) -> Html:
    def choice(name: str, words: str, chosen: int) -> Html:
        options = [
            element("option", text, value=place, selected="" if place == chosen else None)
            for place, text in enumerate([*evidence.names, "log density"])
        ]
        return element(
            "div",
            element("label", words, for_=name),
            element("select", *options, id=name),
            class_="control",
        )

    def toggle(name: str, words: str, kind: str) -> Html:
        box = Html(f'<input type="checkbox" id="{name}" checked>')
        swatch = element("span", class_=f"swatch {kind}", aria_hidden="true")
        return element("div", box, element("label", swatch, words, for_=name), class_="control box")

    buttons = [
        element("button", "Zoom in", type="button", id="pairs-in"),
        element("button", "Zoom out", type="button", id="pairs-out"),
        element("button", "Show all", type="button", id="pairs-all"),
    ]
    return element(
        "div",
        choice("pairs-x", "Horizontal", start[0]),
        choice("pairs-y", "Vertical", start[1]),
        toggle("pairs-data", "rows", "data") if with_rows else None,
        toggle("pairs-draws", "draws", "draws"),
        element("div", *buttons, class_="control buttons"),
        class_="controls",
        role="group",
        aria_label="What the pair plot shows",
    )
