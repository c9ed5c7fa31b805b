"""Whether the numbers themselves can be relied upon, as `kexpfam.model.health` judges them.

A model that was fitted for the page is judged by the page's held-out rows, of which there are more
than the fit itself held out, and which stand in all other sections; a fitted one by what it knows.
"""

from __future__ import annotations

import math

import numpy as np

from kexpfam.model.health import Comparison, Health
from kexpfam.model.health import Finding as Figure
from kexpfam.report.evidence import Evidence
from kexpfam.report.likelihood import mean_and_error
from kexpfam.report.markup import element, joined, number, table
from kexpfam.report.section import Finding, Section
from kexpfam.tuning.gate import share_below

__all__ = ["health_section"]


def health_section(evidence: Evidence) -> Section:
    """The model's own figures, what was chosen with them, and the warnings that came up."""
    health = _health(evidence)
    figures = [*health.findings(), *_about_draws(evidence), *_about_columns(evidence)]
    # A warning of a fit says what its health says.
    warnings = [text for text in evidence.complaints if text not in health.complaints]
    complaints = [*health.complaints, *warnings]
    good = not complaints
    body = joined(
        [
            element("p", health.about_the_tilt),
            element("h3", "Warnings") if complaints else None,
            element("ul", *(element("li", text) for text in complaints), class_="warnings")
            if complaints
            else None,
            table(
                "Figures of the model",
                ["Figure", "Value", "What it means"],
                [[figure.name, _printed(figure.value), figure.meaning] for figure in figures],
            ),
        ]
    )
    data = {
        "good": good,
        "words": health.in_words,
        "warnings": complaints,
        "figures": {figure.name: figure.value for figure in figures},
        "optimism": health.comparison.optimism,
        "gain": health.comparison.gain,
        "gain_error": health.comparison.gain_error,
    }
    brief = "nothing to worry about" if good else "read the section below"
    tiles = (
        Finding("Trust", "sound" if good else "doubtful", brief, good),
        *(
            Finding(one.name, _printed(one.value), one.meaning, one.good)
            for one in health.headlines()
        ),
    )
    return Section("health", "Whether the numbers can be trusted", body, data, tiles)


def _printed(value: str) -> str:
    """With a proper minus."""
    return value.replace("-", "−")


def _health(evidence: Evidence) -> Health:
    """By the rows of this page, where the model was fitted for it."""
    known: Health = evidence.model.health_
    if not evidence.fitted_here:
        return known
    logs, seen = evidence.log_density, evidence.training_log_density
    gain, gain_error = math.nan, math.nan
    if evidence.model.has_tilt_:
        base = evidence.base_log_density
        with np.errstate(invalid="ignore"):
            gain, gain_error = mean_and_error(np.where(np.isfinite(base), logs - base, 0.0))
    # Draws are complete, and are compared with rows that are.
    whole = logs[evidence.complete] if evidence.complete.any() else logs
    below_training, below_draws = (
        share_below(lower, np.ones(len(lower)), upper, np.ones(len(upper)))
        for lower, upper in ((logs, seen), (whole, evidence.draw_log_density))
    )
    mean, error = mean_and_error(logs)
    training = mean_and_error(seen)[0]
    shares = below_training, below_draws
    comparison = Comparison(len(logs), gain, gain_error, mean, error, training, *shares)
    return known._replace(comparison=comparison)


def _about_draws(evidence: Evidence) -> list[Figure]:
    """Diagnostics of Markov chains, where the draws came from some."""
    if evidence.chains is None:
        return []
    chains = evidence.chains
    return [
        Figure(
            "Largest R-hat",
            number(chains.r_hat.max()),
            "of the draws’ columns: chains agree near 1",
        ),
        Figure(
            "Least effective draws",
            number(chains.effective_sample_size.min()),
            "independent draws that all chains are worth, in the worst column",
        ),
        Figure(
            "Mean acceptance",
            number(chains.acceptance.mean(), 3),
            f"of {chains.method.upper()} proposals",
        ),
    ]


def _about_columns(evidence: Evidence) -> list[Figure]:
    """Columns whose repeated values were spread over cells."""
    gaps = getattr(evidence.model, "tie_gaps_", ())
    tied = [name for name, gap in zip(evidence.names, gaps, strict=False) if gap > 0]
    if not tied:
        return []
    return [
        Figure(
            "Tied columns",
            str(len(tied)),
            f"their repeated values were spread over cells: {', '.join(tied)}",
        )
    ]
