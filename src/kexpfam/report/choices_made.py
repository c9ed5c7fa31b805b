"""What was chosen on held-out rows while fitting: terms, noise levels, or the tuning's path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kexpfam.pipeline.chain import ChainFit
from kexpfam.pipeline.diffusion import DiffusionFit
from kexpfam.pipeline.family import FamilyFit
from kexpfam.report.charts import line_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, element, joined, number, table
from kexpfam.report.section import Section

__all__ = ["choices_section"]


def choices_section(evidence: Evidence) -> Section | None:
    """Terms of a `KernelChain`, levels of a `KernelDiffusion`, or tuning of a family."""
    section = _SECTIONS.get(type(evidence.model.fitted_))
    return None if section is None else section(evidence)


def _levels(evidence: Evidence) -> Section:
    model: Any = evidence.model
    scales, penalties, losses = model.noise_scales_, model.penalties_, model.losses_
    rows = [
        [str(place + 1), number(scale), number(penalty, 3), number(loss, 3)]
        for place, (scale, penalty, loss) in enumerate(zip(scales, penalties, losses, strict=True))
    ]
    alone = int(np.isinf(penalties).sum())
    words = (
        f"The model has {len(scales)} noise levels, each with a ridge penalty of its own. Losses "
        "are those of denoising on held-out rows, relative to the base density and in nats of "
        "log-likelihood: below zero the features help. "
    )
    words += (
        "No level has a tilt: the model is its base density."
        if not model.has_tilt_
        else f"Where the penalty is infinite ({alone} of {len(scales)} levels), a level has the "
        "tilt of the one above it, or none; the highest has none."
    )
    picture = element(
        "figure",
        line_chart(
            scales,
            losses,
            f"Held-out loss relative to the base density at {len(scales)} noise levels, from "
            f"{number(losses.min(), 3)} to {number(losses.max(), 3)}",
            ("noise scale, in standard deviations of whitened rows", "loss relative to base"),
            log_x=True,
            dots=True,
        ),
        element("figcaption", "Held-out loss of each level; zero is the base density."),
    )
    heads = ["Level", "Noise scale", "Penalty", "Loss relative to base"]
    body = joined(
        [
            element("p", words),
            picture,
            table("Noise levels, their penalties and held-out losses", heads, rows),
        ]
    )
    data = {"noise_scales": scales, "penalties": penalties, "losses": losses}
    return Section("choices", "What was chosen at each noise level", body, data)


def _tuning(evidence: Evidence) -> Section:
    model: Any = evidence.model
    history = model.tuning_history_
    chosen = [
        ["Penalty", number(model.penalty_, 3)],
        ["Noise scale", number(model.noise_scale_, 3)],
        *(
            [f"Length-scale of {name}", number(scale, 3)]
            for name, scale in zip(evidence.names, model.length_scale_, strict=True)
        ),
    ]
    words = (
        "Nothing beat the base density on held-out rows, so it is the model: the penalty is "
        "infinite."
        if np.isinf(model.penalty_)
        else "Scales are in standard deviations of each column."
    )
    body = joined(
        [
            element("p", words),
            _path(history),
            table("What was chosen", ["Setting", "Value"], chosen),
        ]
    )
    data = {
        "steps": [record["step"] for record in history],
        "losses": np.array([record["loss"] for record in history]),
        "penalty": float(model.penalty_),
        "noise_scale": float(model.noise_scale_),
        "length_scale": np.asarray(model.length_scale_),
    }
    return Section("choices", "What tuning chose", body, data)


def _path(history: list[dict[str, Any]]) -> Html:
    steps = np.array([record["step"] for record in history], dtype=float)
    losses = np.array([record["loss"] for record in history], dtype=float)
    if np.isfinite(losses).sum() < 2:
        return element("p", "No gradient steps were taken.")
    last = losses[np.isfinite(losses)][-1]
    return element(
        "figure",
        line_chart(
            steps,
            losses,
            f"Held-out loss over {len(steps)} tuning steps, ending at {number(last, 3)}",
            ("tuning step", "loss relative to base"),
        ),
        element(
            "figcaption",
            "Loss on held-out mini-batches, relative to the base density: it is noisy, because "
            "every step sees other rows.",
        ),
    )


def _terms(evidence: Evidence) -> Section:
    fit: ChainFit = evidence.model.fitted_
    order, found = fit.density.layout.order, fit.density.terms_in_words()
    rows = [
        [str(place + 1), evidence.names[column], found.get(column, "–")]
        for place, column in enumerate(order)
    ]
    maps = {None: "as they are", "gaussianize": "gaussianized", "yeo_johnson": "Yeo–Johnson"}
    words = (
        "The density is a product along this order, each column given the ones above it. Numbers "
        f"have a mixture of {fit.base_search.n_components} components (columns: "
        f"{maps[fit.marginals]}), and categories have their frequencies. Other terms that improve "
        "held-out rows are listed beside them."
        if fit.density.mixture is not None
        else "The density is a product along this order, each column given the ones above it."
    )
    heads = ["Place", "Column", "Terms beside the mixture or the frequencies"]
    body = joined(
        [
            element("p", words),
            table("Columns in the order of the chain", heads, rows, numeric=False),
        ]
    )
    data = {
        "order": [evidence.names[column] for column in order],
        "beside": [row[2] for row in rows],
    }
    return Section("choices", "What was chosen for each column", body, data)


_SECTIONS: dict[type, Callable[[Evidence], Section]] = {
    ChainFit: _terms,
    DiffusionFit: _levels,
    FamilyFit: _tuning,
}
