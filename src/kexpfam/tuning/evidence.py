"""Kernel, length-scales and the map of the target, by the evidence of a Gaussian process.

Kernel and map are chosen on few rows, where a step costs milliseconds, and the length-scales then
tuned on more. Evidences of different maps are compared in the units of the target: each has the
mean of log t'(y) added.
"""

from __future__ import annotations

from typing import Literal

from kexpfam.base.covariance import Covariance, Kind, tune_covariance
from kexpfam.data.pairs import Pairs
from kexpfam.data.response import Response, bent_responses, straight_response
from kexpfam.progress import Progress

__all__ = ["choose_by_evidence", "retuned"]

# Rows that kernel and map are chosen on, and rows that length-scales are then tuned on.
_CHOICE_ROWS, _TUNING_ROWS, _FOLD_ROWS = 320, 800, 400
_CHOICE_STEPS, _MAP_STEPS, _TUNING_STEPS, _FOLD_STEPS = 40, 12, 25, 8


def choose_by_evidence(
    rows: Pairs, kernel: Kind | Literal["auto"], progress: Progress, *, bends: bool = True
) -> tuple[Covariance, Response]:
    """Kernel and map of the target, if it may bend, on some rows, then length-scales on more."""
    some = rows.where(slice(0, _CHOICE_ROWS))
    straight = straight_response(rows.y, rows.weights)
    kinds: tuple[Kind, ...] = ("rbf", "matern")
    if kernel != "auto":
        kinds = (kernel,)
    best: tuple[float, Covariance, Response] | None = None
    start = None
    for kind in progress.track(kinds, "kernels"):
        start, found = tune_covariance(
            kind, some.inputs, straight.forward(some.y), some.relative, start, _CHOICE_STEPS
        )
        found += float(straight.log_slope(some.y).mean())
        if best is None or found > best[0]:
            best = found, start, straight
    assert best is not None
    kind, start = best[1].kind, best[1]
    maps = bent_responses(rows.y, rows.weights) if bends else []
    for response in progress.track(maps, "maps of the target"):
        covariance, found = tune_covariance(
            kind, some.inputs, response.forward(some.y), some.relative, start, _MAP_STEPS
        )
        found += float(response.log_slope(some.y).mean())
        if found > best[0]:
            best = found, covariance, response
    more = rows.where(slice(0, _TUNING_ROWS))
    _, covariance, response = best
    covariance, _ = tune_covariance(
        kind, more.inputs, response.forward(more.y), more.relative, covariance, _TUNING_STEPS
    )
    return covariance, response


def retuned(covariance: Covariance, response: Response, rows: Pairs) -> Covariance:
    """The covariance after a few steps on other rows, for folds that must not know too much."""
    some = rows.where(slice(0, _FOLD_ROWS))
    targets = response.forward(some.y)
    return tune_covariance(
        covariance.kind, some.inputs, targets, some.relative, covariance, _FOLD_STEPS
    )[0]
