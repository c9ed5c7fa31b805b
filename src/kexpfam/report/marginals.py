"""Every column by itself: the histogram or shares of rows and draws, and the same of log densities.

Where the model is right, log p(x) has the same distribution over rows as over draws: the last
picture finds faults that no single column shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import ks_2samp

from kexpfam.data.kinds import ColumnKind
from kexpfam.report.charts import bar_chart, histogram_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, element, joined, number
from kexpfam.report.section import Section

__all__ = ["histogram", "marginals_section"]

_LEFT_OUT = 0.002
_MOST_BARS = 10


def marginals_section(evidence: Evidence) -> Section:
    """A small histogram for every column, and one for the log density."""
    columns = zip(evidence.names, evidence.kinds, evidence.rows.T, evidence.draws.T, strict=True)
    pictures = [_of_column(*column) for column in columns]
    # The log density of an incomplete row has fewer terms than that of a draw.
    logs = evidence.log_density[evidence.complete]
    name = "log density" if evidence.complete.all() else "log density of complete rows"
    pictures.append(_picture(name, logs, evidence.draw_log_density))
    legend = element(
        "p",
        element("span", class_="swatch data", aria_hidden="true"),
        f"{evidence.kind}s ",
        element("span", class_="swatch draws", aria_hidden="true"),
        "draws of the model",
        class_="legend",
    )
    words = "Each histogram has area one; 0.2 % at either end is left out."
    has_levels = any(kind.names() is not None for kind in evidence.kinds)
    if len(evidence.rows):
        words += (
            " The gap is the largest difference between the two distribution functions, the "
            "Kolmogorov–Smirnov distance."
        )
    if has_levels:
        words += " Bars are shares of a column’s levels"
        words += "; their gap is the total variation distance." if len(evidence.rows) else "."
    body = joined(
        [
            element("p", words),
            legend if len(evidence.rows) else None,
            element("div", *(picture for picture, _ in pictures), class_="gallery"),
            element(
                "p",
                "If a model is right, rows and draws have similar log densities. Rows with lower "
                "log densities than the draws are rows that the model does not expect.",
                class_="note",
            )
            if len(evidence.rows)
            else None,
        ]
    )
    return Section(
        "marginals", "Every column by itself", body, {"columns": [data for _, data in pictures]}
    )


def _of_column(
    name: str, kind: ColumnKind, rows: Float[np.ndarray, " n"], draws: Float[np.ndarray, " k"]
) -> tuple[Html, dict[str, Any]]:
    """Bars of levels, or a histogram of numbers, whole or not."""
    levels = kind.names()
    missing = float(np.isnan(rows).mean()) if len(rows) else 0.0
    more = f", {100 * missing:.0f} % missing" if missing else ""
    if levels is not None:
        return _bars(name, levels, rows, draws, more)
    return _picture(name, rows, draws, more, whole=kind.is_discrete)


def _bars(
    name: str,
    levels: list[str],
    rows: Float[np.ndarray, " n"],
    draws: Float[np.ndarray, " k"],
    more: str,
) -> tuple[Html, dict[str, Any]]:
    shares, drawn = (_shares(codes, len(levels)) for codes in (rows, draws))
    assert drawn is not None
    gap = None if shares is None else float(np.abs(shares - drawn).sum() / 2)
    # The commonest, in their own order; all others together.
    common = np.sort(np.argsort(-(drawn if shares is None else shares), kind="stable")[:_MOST_BARS])
    others = np.setdiff1d(np.arange(len(levels)), common)
    names = [levels[place] for place in common]
    if len(others):
        names.append(f"{len(others)} others")

    def shown(values: Float[np.ndarray, " k"] | None) -> Float[np.ndarray, " b"] | None:
        if values is None or not len(others):
            return None if values is None else values[common]
        return np.append(values[common], values[others].sum())

    words = "" if gap is None else f", gap {number(gap, 2)}"
    picture = element(
        "figure",
        bar_chart(names, shown(shares), shown(drawn), f"Shares of {name} in {len(levels)} levels"),
        element("figcaption", element("strong", name), f"{words}{more}"),
    )
    return picture, {"name": name, "levels": levels, "rows": shares, "draws": drawn, "gap": gap}


def _shares(codes: Float[np.ndarray, " n"], n_levels: int) -> Float[np.ndarray, " k"] | None:
    codes = codes[np.isfinite(codes)].astype(int)
    return np.bincount(codes, minlength=n_levels) / len(codes) if len(codes) else None


def _picture(
    name: str,
    rows: Float[np.ndarray, " n"],
    draws: Float[np.ndarray, " k"],
    more: str = "",
    *,
    whole: bool = False,
) -> tuple[Html, dict[str, Any]]:
    rows, draws = rows[np.isfinite(rows)], draws[np.isfinite(draws)]
    edges, bars, steps = histogram(rows, draws, whole=whole)
    gap = float(ks_2samp(rows, draws).statistic) if len(rows) and len(draws) else None
    label = f"Histogram of {name} from {number(edges[0])} to {number(edges[-1])}"
    words = "" if gap is None else f", gap {number(gap, 2)}"
    picture = element(
        "figure",
        histogram_chart(edges, bars, steps, f"{label}{words}"),
        element("figcaption", element("strong", name), f"{words}{more}"),
    )
    return picture, {"name": name, "edges": edges, "rows": bars, "draws": steps, "gap": gap}


def histogram(
    rows: Float[np.ndarray, " n"], draws: Float[np.ndarray, " k"], *, whole: bool = False
) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " b"] | None, Float[np.ndarray, " b"] | None]:
    """Edges, and heights of rows and of draws in the bins between them; None where none are."""
    edges = _edges(rows, draws)
    if whole:
        edges = _whole_edges(edges)
    return edges, _heights(rows, edges), _heights(draws, edges)


def _edges(
    rows: Float[np.ndarray, " n"], draws: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " e"]:
    """Bins over what both have, without the outermost few; fewer bins for few rows."""
    ends = [
        np.quantile(values, [_LEFT_OUT, 1 - _LEFT_OUT]) for values in (rows, draws) if len(values)
    ]
    if not ends:
        return np.array([0.0, 1.0])
    low, high = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
    if not high > low:
        low, high = low - 0.5, high + 0.5
    n_bins = int(np.clip(2 * np.cbrt(len(rows) or len(draws)), 8, 40))
    return np.linspace(low, high, n_bins + 1)


def _whole_edges(edges: Float[np.ndarray, " e"]) -> Float[np.ndarray, " w"]:
    """Edges between whole numbers, as many of them in each bin."""
    low, high = np.floor(edges[0]), np.ceil(edges[-1])
    step = max(1.0, np.ceil((high - low + 1) / (len(edges) - 1)))
    return np.arange(low - 0.5, high + 0.5 + step, step)


def _heights(
    values: Float[np.ndarray, " n"], edges: Float[np.ndarray, " e"]
) -> Float[np.ndarray, " b"] | None:
    if not len(values):
        return None
    return np.histogram(values, edges)[0] / (len(values) * np.diff(edges))
