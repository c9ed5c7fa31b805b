"""Every column by itself: the rows' histogram and that of draws, and the same of log densities.

Where the model is right, log p(x) has the same distribution over rows as over draws: the last
picture finds faults that no single column shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import ks_2samp

from kexpfam.report.charts import histogram_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, element, joined, number
from kexpfam.report.section import Section

__all__ = ["marginals_section"]

_LEFT_OUT = 0.002


def marginals_section(evidence: Evidence) -> Section:
    """A small histogram for every column, and one for the log density."""
    pictures = [
        _picture(name, evidence.rows[:, place], evidence.draws[:, place])
        for place, name in enumerate(evidence.names)
    ]
    pictures.append(_picture("log density", evidence.log_density, evidence.draw_log_density))
    legend = element(
        "p",
        element("span", class_="swatch data", aria_hidden="true"),
        f"{evidence.kind}s ",
        element("span", class_="swatch draws", aria_hidden="true"),
        "draws of the model",
        class_="legend",
    )
    words = (
        "Each histogram has area one; 0.2 % at either end is left out. The gap is the largest "
        "difference between the two distribution functions, the Kolmogorov–Smirnov distance."
        if len(evidence.rows)
        else "Each histogram has area one; 0.2 % at either end is left out."
    )
    body = joined(
        [
            element("p", words),
            legend if len(evidence.rows) else None,
            element("div", *(picture for picture, _ in pictures), class_="gallery"),
            element(
                "p",
                "Where a model is right, rows and draws have log densities alike. Rows that lie "
                "lower than draws do are rows that it does not expect.",
                class_="note",
            )
            if len(evidence.rows)
            else None,
        ]
    )
    return Section(
        "marginals", "Every column by itself", body, {"columns": [data for _, data in pictures]}
    )


def _picture(
    name: str, rows: Float[np.ndarray, " n"], draws: Float[np.ndarray, " k"]
) -> tuple[Html, dict[str, Any]]:
    rows, draws = rows[np.isfinite(rows)], draws[np.isfinite(draws)]
    edges = _edges(rows, draws)
    bars, steps = (_heights(values, edges) for values in (rows, draws))
    gap = float(ks_2samp(rows, draws).statistic) if len(rows) and len(draws) else None
    label = f"Histogram of {name} from {number(edges[0])} to {number(edges[-1])}"
    words = "" if gap is None else f", gap {number(gap, 2)}"
    picture = element(
        "figure",
        histogram_chart(edges, bars, steps, f"{label}{words}"),
        element("figcaption", element("strong", name), words),
    )
    return picture, {"name": name, "edges": edges, "rows": bars, "draws": steps, "gap": gap}


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


def _heights(
    values: Float[np.ndarray, " n"], edges: Float[np.ndarray, " e"]
) -> Float[np.ndarray, " b"] | None:
    if not len(values):
        return None
    return np.histogram(values, edges)[0] / (len(values) * np.diff(edges))
