"""From rows of inputs and targets to the density of the target given the inputs.

rows → units, copies merged, in the order of their keys
     → kernel, length-scales and a map of the target, by evidence
     → location, with every row predicted by the others
     → folds: a factor for the scale; the tilt over a path of penalties
     → the gate: held-out rows under the tilted density and under its base density
     → the tilt of all rows
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.pairs import Pairs, make_pairs
from kexpfam.features.inputs import input_functions
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.health import Comparison, Health, nothing_compared
from kexpfam.progress import Progress
from kexpfam.threads import in_turn
from kexpfam.tuning.evidence import choose_by_evidence
from kexpfam.tuning.gate import mean_and_error, share_below
from kexpfam.tuning.held_out import (
    PENALTIES,
    ConditionalSettings,
    Ground,
    Judged,
    held_out_folds,
    judge,
    left_out_residuals,
    likeliest_factor,
    scale_factor,
)

__all__ = ["ConditionalFit", "ConditionalSettings", "fit_conditional"]

# Functions of the inputs by solution; the rows that a tilt is fitted to, at most and at least.
_FUNCTIONS = {"likelihood": 200, "closed_form": 40}
_TILT_ROWS, _FEWEST_ROWS_TO_TILT = 20_000, 40
# Rows and draws that held-out rows are compared with.
_COMPARED_ROWS = 400


class ConditionalFit(NamedTuple):
    """The density, what was chosen, and how far it can be believed."""

    density: ConditionalDensity
    penalty: float
    health: Health


@in_turn
def fit_conditional(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    settings: ConditionalSettings,
    seed: int,
    progress: Progress,
) -> ConditionalFit:
    """Fit p(y | x) to rows."""
    standardizer, rows = make_pairs(X, y, weights, seed)
    covariance, response = choose_by_evidence(rows, settings.kernel, progress)
    residuals = left_out_residuals(rows, covariance, response, settings.bounds, _TILT_ROWS)
    some = rows.where(slice(0, _TILT_ROWS))
    folds = []
    if len(rows.y) >= _FEWEST_ROWS_TO_TILT:
        folds = held_out_folds(some, covariance, response, settings.bounds, progress)
    if folds:
        factor = scale_factor(folds, response)
    else:
        factor = likeliest_factor(residuals.values, some.weights)
    count = settings.n_components
    if count == "auto":
        count = _FUNCTIONS[settings.solution]
    points = rows.inputs[: 2 * count]
    functions = input_functions(covariance.kind, covariance.length_scale, points, count)
    ground = Ground(standardizer, response, factor, functions, settings)

    judged = judge(folds, ground, progress) if folds else None
    density, penalty = ground.density(residuals.location, ground.no_tilt), np.inf
    if judged is not None and (not settings.gate or judged.wins):
        penalty = judged.penalty
        path = [one for one in PENALTIES if one >= penalty]
        *_, coefficients = ground.tilts(some, residuals.rescaled(factor), path)
        density = ground.density(residuals.location, coefficients)
    comparison = _compared(judged, density, rows, seed)
    return ConditionalFit(density, float(penalty), Health(density.has_tilt, comparison))


def _compared(
    judged: Judged | None, density: ConditionalDensity, rows: Pairs, seed: int
) -> Comparison:
    """What held-out rows say of the density that is returned."""
    if judged is None:
        return nothing_compared()
    gain, gain_error = judged.gain()
    logs = judged.tilted if density.has_tilt else judged.base
    held_out, held_out_error = mean_and_error(logs, judged.weights)
    some = rows.where(slice(0, _COMPARED_ROWS))
    X = density.standardizer.backward(some.inputs)
    seen = density.log_density(X, some.y)
    levels = np.random.default_rng(seed).uniform(size=(len(X), 1))
    draws = density.quantiles(X, levels)[:, 0]
    drawn = density.log_density(X, draws)
    return Comparison(
        n_rows=len(logs),
        gain=gain,
        gain_error=gain_error,
        held_out=held_out,
        held_out_error=held_out_error,
        training=mean_and_error(seen, some.weights)[0],
        below_training=share_below(logs, judged.weights, seen, some.weights),
        below_draws=share_below(logs, judged.weights, drawn, some.weights),
    )
