"""A test of whether the judged rows are rows of the model, and its result in words.

Tables of real numbers have a kernel Stein test: rows and gradients are divided by the columns'
standard deviations first, because the test's kernel treats all columns alike. For other tables, log
densities of rows and of draws are compared, whose distributions are the same where the model is
right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import ks_2samp

from kexpfam.goodness_of_fit import SteinResult, stein_test
from kexpfam.report.charts import histogram_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import count, element, joined, number
from kexpfam.report.section import Finding, Section

__all__ = ["goodness_section"]

# The cost grows with the square of the rows.
_MOST_ROWS = 1500
_BINS = 30
_FEWEST_ROWS = 10
# Differences between distribution functions below this are no reason to distrust a model.
_SMALL_GAP = 0.1


def goodness_section(evidence: Evidence) -> Section | None:
    """Whether the judged rows look like rows of the model; None without such rows."""
    if not len(evidence.rows):
        return None
    title = "Whether rows look like draws from the model"
    if evidence.columns_without_gradient:
        return _by_log_density(evidence, title)
    try:
        result = _tested(evidence)
    except ValueError as error:
        body = joined(
            [element("p", "The kernel Stein test could not be run."), element("p", str(error))]
        )
        finding = Finding("Rows and draws", "not tested", "see below")
        return Section("goodness", title, body, {"problem": str(error)}, (finding,))
    n_rows = min(len(evidence.rows), _MOST_ROWS)
    words = _in_words(result.p_value, count(n_rows, evidence.kind))
    heights, edges = np.histogram(result.null_draws, _BINS)
    label = (
        f"Histogram of {len(result.null_draws)} draws of the statistic under the model, from "
        f"{number(edges[0])} to {number(edges[-1])}; the statistic is {number(result.statistic)}."
    )
    body = joined(
        [
            element("p", words),
            element(
                "figure",
                histogram_chart(
                    edges, heights.astype(float), None, label, mark=float(result.statistic)
                ),
                element(
                    "figcaption",
                    f"The statistic n·KSD² = {number(result.statistic)} (line), and what it would "
                    f"be for rows of the model ({len(result.null_draws)} draws of the bootstrap).",
                ),
                class_="small",
            ),
            element(
                "p",
                "The test compares ∇log p with the rows and needs no normalizing constant. With "
                "few rows or many columns it misses small faults; with very many rows it finds "
                "faults that do not matter.",
                class_="note",
            ),
        ]
    )
    data = {
        "statistic": result.statistic,
        "p_value": result.p_value,
        "width": result.width,
        "n_rows": n_rows,
        "words": words,
    }
    good = _verdict(result.p_value)
    brief = {True: "no difference found", None: "some sign of a difference", False: "they differ"}
    shown = f"p = {number(result.p_value, 2)}"
    finding = Finding("Rows and draws", shown, f"kernel Stein test: {brief[good]}", good)
    return Section("goodness", title, body, data, (finding,))


def _by_log_density(evidence: Evidence, title: str) -> Section:
    """Log densities of complete rows beside those of draws, where a Stein test cannot be had."""
    logs = evidence.log_density[evidence.complete]
    without = evidence.columns_without_gradient
    more = f" and {len(without) - 3} more" if len(without) > 3 else ""
    why = (
        "A kernel Stein test compares ∇log p with the rows, and needs complete columns of real "
        f"numbers without bounds and atoms; here are {', '.join(without[:3])}{more}. For it, make "
        "a report on the columns of real numbers alone."
    )
    if len(logs) < _FEWEST_ROWS:
        words = f"There are {count(len(logs), 'complete row')}, too few to compare with draws."
        body = joined([element("p", words), element("p", why, class_="note")])
        return Section("goodness", title, body, {"problem": words})
    result = ks_2samp(logs, evidence.draw_log_density)
    p_value = float(result.pvalue)
    words = (
        f"The log densities of {count(len(logs), f'complete {evidence.kind}')} and those of draws "
        f"differ by {number(result.statistic, 2)} (Kolmogorov–Smirnov, p = {number(p_value, 2)}): "
    )
    good = _verdict(p_value)
    if good is False and result.statistic < _SMALL_GAP:
        # Many rows find faults that hardly matter.
        good = None
    words += {
        True: "no sign of a difference. That does not prove that there is none.",
        None: f"some sign of a difference{', though a small one' if p_value <= 0.01 else ''}.",
        False: "the rows are not like draws from the model.",
    }[good]
    caution = (
        "If a model is right, rows and draws have similar log densities. This test finds rows that "
        "are more or less likely than they should be, but no fault that leaves log densities as "
        "they are: look at the columns below, too."
    )
    body = joined(
        [
            element("p", words),
            element("p", caution, class_="note"),
            element("p", why, class_="note"),
        ]
    )
    data = {
        "statistic": float(result.statistic),
        "p_value": p_value,
        "method": "Kolmogorov–Smirnov test of log densities",
        "n_rows": len(logs),
        "words": words,
    }
    brief = {
        True: "no difference found",
        None: "they differ a little",
        False: "they differ",
    }[good]
    gap = f"largest gap between the distributions of their log densities, p = {number(p_value, 2)}"
    finding = Finding("Rows and draws", number(result.statistic, 2), f"{brief}: {gap}", good)
    return Section("goodness", title, body, data, (finding,))


def _verdict(p_value: float) -> bool | None:
    """Whether there is no sign of a difference; None for one that may be chance."""
    return None if 0.01 < p_value <= 0.05 else p_value > 0.05


def _tested(evidence: Evidence) -> SteinResult:
    impossible = int((~np.isfinite(evidence.log_density)).sum())
    if impossible:
        raise ValueError(
            f"The density at {count(impossible, 'row')} is zero or could not be found: no test is "
            "needed to tell these from rows of the model."
        )
    if evidence.model.density_.support_box() is not None:
        raise ValueError(
            "It needs a density that is smooth everywhere, but one with a uniform base density "
            "ends at the edge of a box."
        )
    rows, gradients = evidence.rows[:_MOST_ROWS], evidence.gradients[:_MOST_ROWS]
    scale = rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def standardized_gradient(_: Any) -> Float[np.ndarray, "n d"]:
        return gradients * scale

    centered = (rows - rows.mean(axis=0)) / scale
    return stein_test(standardized_gradient, centered, random_state=evidence.seed)


def _in_words(p_value: float, rows: str) -> str:
    shown = number(p_value, 2)
    if p_value <= 0.01:
        return (
            f"The kernel Stein test tells the {rows} from rows of the model (p = {shown}): "
            "something about them is not in the model."
        )
    if p_value <= 0.05:
        return (
            f"There is some sign that the {rows} are not rows of the model (kernel Stein test, "
            f"p = {shown}); chance alone would give such a sign once in {round(1 / p_value)} times."
        )
    return (
        f"The kernel Stein test finds no difference between the {rows} and rows of the model "
        f"(p = {shown}). That does not prove that there is none."
    )
