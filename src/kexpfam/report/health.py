"""Whether the numbers themselves can be relied upon: normaliser, flow, Markov chains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import count, element, joined, number, table, with_error
from kexpfam.report.section import Finding, Section

__all__ = ["health_section"]

_HEAVY_TAIL = 0.7
_LARGE_LOG_ERROR = 0.1
_POOR_FLOW = 100.0


def health_section(evidence: Evidence) -> Section | None:
    """Error estimates of the model's own numbers, and the warnings that came up."""
    model = evidence.model
    if hasattr(model, "n_steps_"):
        rows, good, words = _flow(evidence)
    elif hasattr(model, "log_normalizer_"):
        rows, good, words = _normalizer(evidence)
    else:
        return None
    good = good and not evidence.complaints
    complaints = [element("li", text) for text in evidence.complaints]
    body = joined(
        [
            element("p", words),
            element("h3", "Warnings") if complaints else None,
            element("ul", *complaints, class_="warnings") if complaints else None,
            table(
                "Figures of the computation",
                ["Figure", "Value", "What it means"],
                [[name, value, meaning] for name, value, meaning in rows],
            ),
        ]
    )
    data = {
        "good": good,
        "words": words,
        "warnings": list(evidence.complaints),
        "figures": {name: value for name, value, _ in rows},
    }
    brief = "nothing to worry about" if good else "read the section below"
    finding = Finding("Computation", "sound" if good else "doubtful", brief, good)
    return Section("health", "Whether the numbers can be relied upon", body, data, finding)


def _flow(evidence: Evidence) -> tuple[list[tuple[str, str, str]], bool, str]:
    model: Any = evidence.model
    rows = [
        (
            "Steps of the flow",
            str(model.n_steps_),
            "0: the base density is alone and known exactly"
            if model.n_steps_ == 0
            else f"chosen to meet the tolerance of {number(model.tolerance)} nats",
        )
    ]
    if model.n_steps_ == 0:
        words = "The model is its base density alone, and its log density is known exactly."
    else:
        words = "The probability flow gives a log density that needs no normaliser."
    good = True
    if evidence.errors is not None and model.n_steps_ > 0:
        errors = evidence.errors
        limit = _POOR_FLOW * model.tolerance
        poor = int((~(errors <= limit)).sum())
        good = poor == 0
        for name, share in (("Median", 0.5), ("99th percentile", 0.99), ("Largest", 1.0)):
            value = number(np.quantile(errors, share), 2)
            rows.append((f"{name} error", value, "of a log density, estimated, in nats"))
        words += (
            f" Its estimated numerical error is at most {number(errors.max(), 2)} nats at the "
            f"{count(len(errors), evidence.kind)}."
            if good
            else f" At {count(poor, 'row')} its error estimate is above {number(limit)} nats: they "
            "may lie far outside the rows that the model was fitted to."
        )
    search = model.base_search_
    rows.append(
        (
            "Base components",
            str(search.n_components),
            "of each mixture that the base density averages, chosen on held-out rows",
        )
    )
    rows.append(("Marginal maps", str(model.marginals_), "columns made normal before all else"))
    tied = [name for name, gap in zip(evidence.names, model.tie_gaps_, strict=True) if gap > 0]
    rows.append(
        (
            "Tied columns",
            str(len(tied)),
            f"their values were spread over cells: {', '.join(tied)}" if tied else "none",
        )
    )
    return rows, good, words


def _normalizer(evidence: Evidence) -> tuple[list[tuple[str, str, str]], bool, str]:
    model: Any = evidence.model
    error, shape = float(model.log_normalizer_error_), float(model.pareto_shape_)
    light = math.isnan(shape) or shape <= _HEAVY_TAIL
    exact = error <= _LARGE_LOG_ERROR
    rows = [
        (
            "log Z",
            with_error(model.log_normalizer_, error),
            "every log density is off by as much as this is",
        ),
        (
            "Effective sample size",
            number(model.effective_sample_size_),
            "of the draws that estimate log Z",
        ),
        (
            "Pareto shape",
            number(shape, 2),
            f"tail of the weights: dependable below 0.5, worthless above {_HEAVY_TAIL}",
        ),
    ]
    if evidence.chains is not None:
        chains = evidence.chains
        rows += [
            (
                "Largest R-hat",
                number(chains.r_hat.max()),
                "of the draws’ columns: chains agree near 1",
            ),
            (
                "Least effective draws",
                number(chains.effective_sample_size.min()),
                "what all chains together are worth, in the worst column",
            ),
            (
                "Mean acceptance",
                number(chains.acceptance.mean(), 3),
                f"of {chains.method.upper()} proposals",
            ),
        ]
    if light and exact:
        words = (
            f"log Z is known to ± {number(error, 2)}, and the weights behind it have a light "
            "tail: log densities can be relied upon to that precision."
        )
    elif light:
        words = f"log Z is known only to ± {number(error, 2)}: log densities share that error."
    else:
        words = (
            f"The weights behind log Z have a heavy tail (Pareto shape {number(shape, 2)}): its "
            "error bar is not to be trusted. Gradients and draws do not depend on it."
        )
    return rows, light and exact, words
