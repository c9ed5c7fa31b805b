"""Kernel, length-scales and the map of the target, by the evidence of a Gaussian process.

Kernel and map are chosen on few rows, where a step costs milliseconds, and the length-scales then
tuned on more; of many rows, the kernel is chosen on those. Evidences of different maps are compared
in the units of the target: each has the mean of log t'(y) added.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float

from kexpfam.base.covariance import Covariance, Kind
from kexpfam.base.evidence import tune_covariance
from kexpfam.data.pairs import Pairs
from kexpfam.data.response import Response, bent_responses, straight_response
from kexpfam.progress import Progress
from kexpfam.threads import one_blas_thread

__all__ = ["choose_by_evidence", "retuned"]

# Rows that kernel and map are chosen on, and rows that length-scales are then tuned on.
_CHOICE_ROWS, _TUNING_ROWS, _FOLD_ROWS = 320, 800, 400
# With more rows the kernel is chosen on as many as length-scales are tuned on.
_MANY_ROWS = 1200
_CHOICE_STEPS, _MAP_STEPS, _TUNING_STEPS, _FOLD_STEPS = 40, 12, 25, 8
# Steps after which the better of two kernels continues alone.
_RIVAL_STEPS = 8
# A step that gains less than this number of nats a row is the last.
_LEAST_GAIN = 1e-6


# Threads of BLAS cost more than they gain in matrices of a few hundred rows.
@one_blas_thread()
def choose_by_evidence(
    rows: Pairs, kernel: Kind | Literal["auto"], progress: Progress, *, bends: bool = True
) -> tuple[Covariance, Response]:
    """Kernel and map of the target, if it may bend, on some rows, then length-scales on more."""
    some = rows.where(slice(0, _CHOICE_ROWS))
    straight = straight_response(rows.y, rows.weights)
    kinds: tuple[Kind, ...] = ("rbf", "matern")
    if kernel != "auto":
        kinds = (kernel,)
    targets = straight.forward(some.y)
    found: dict[Kind, tuple[Covariance, float]] = {}
    for kind in progress.track(kinds, "kernels"):
        # From its own beginning, and from the optimum of the kernel before: either may be a local
        # optimum.
        starts = [None, *(one for one, _ in found.values())]
        found[kind] = max(
            (_tuned(kind, some, targets, start, _CHOICE_STEPS) for start in starts),
            key=lambda one: one[1],
        )
    kind = max(found, key=lambda one: found[one][1])
    start, evidence = found[kind]
    best = evidence + float(straight.log_slope(some.y).mean()), start, straight
    maps = bent_responses(rows.y, rows.weights) if bends else []
    for response in progress.track(maps, "maps of the target"):
        covariance, evidence = _tuned(kind, some, response.forward(some.y), start, _MAP_STEPS)
        evidence += float(response.log_slope(some.y).mean())
        if evidence > best[0]:
            best = evidence, covariance, response
    more = rows.where(slice(0, _TUNING_ROWS))
    _, covariance, response = best
    targets = response.forward(more.y)
    n_steps = _TUNING_STEPS
    if len(rows.y) > _MANY_ROWS:
        # A kernel that is too smooth shows with more rows only; of many, these cost little.
        rivals = [covariance, *(one for name, (one, _) in found.items() if name != kind)]
        tried = [_tuned(one.kind, more, targets, one, _RIVAL_STEPS) for one in rivals]
        covariance, n_steps = max(tried, key=lambda one: one[1])[0], n_steps - _RIVAL_STEPS
    return _tuned(covariance.kind, more, targets, covariance, n_steps)[0], response


def _tuned(
    kind: Kind,
    rows: Pairs,
    targets: Float[np.ndarray, " n"],
    start: Covariance | None,
    n_steps: int,
) -> tuple[Covariance, float]:
    return tune_covariance(
        kind, rows.inputs, targets, rows.relative, start, n_steps, least_gain=_LEAST_GAIN
    )


def retuned(covariance: Covariance, response: Response, rows: Pairs) -> Covariance:
    """The covariance after a few steps on other rows, for folds that must not know too much."""
    some = rows.where(slice(0, _FOLD_ROWS))
    return _tuned(covariance.kind, some, response.forward(some.y), covariance, _FOLD_STEPS)[0]
