"""From rows of inputs and targets to the density of the target given the inputs.

rows → units, copies merged, in the order of their keys
     → kernel, length-scales and a map of the target, by evidence
     → location, with every row predicted by the others; one factor for the scale
     → functions of the inputs; the tilt on folds, over a path of penalties
     → the gate: held-out rows under the tilted density and under its base density
     → the tilt of all rows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt64
from scipy.optimize import minimize_scalar

from kexpfam.base.bell import bell_log_density
from kexpfam.base.covariance import Covariance, Kind, tune_covariance
from kexpfam.base.location import LeftOut, Location, fit_exact, fit_points
from kexpfam.data.response import Response, bent_responses, straight_response
from kexpfam.data.sketch import number_folds, row_keys, sketch_rows
from kexpfam.data.standardize import Standardizer
from kexpfam.features.inputs import InputFunctions, input_functions
from kexpfam.features.residual import N_RESIDUAL_FUNCTIONS, residual_functions
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.health import Comparison, Health, nothing_compared
from kexpfam.model.slices import node_masses
from kexpfam.moments.conditional import conditional_sums
from kexpfam.progress import Progress
from kexpfam.solve.conditional import TiltProblem, closed_form_path, likeliest_path
from kexpfam.tuning.gate import mean_and_error, share_below

__all__ = ["ConditionalFit", "ConditionalSettings", "fit_conditional"]

# Rows that choices are made on; those that length-scales are then tuned on; and up to how many the
# location is exact (beyond that its cost would grow with the cube), else the number of its points.
_CHOICE_ROWS, _TUNING_ROWS, _EXACT_ROWS, _POINTS = 320, 1000, 2000, 1024
_CHOICE_STEPS, _MAP_STEPS, _TUNING_STEPS = 40, 12, 25
# Functions of the inputs, points that they sit at, and rows that the tilt is fitted to.
_FUNCTIONS, _TILT_ROWS = {"likelihood": 200, "closed_form": 40}, 20_000
_FOLDS, _FEWEST_ROWS_TO_TILT = 4, 40
# With more rows than this a single fold is enough to choose and to judge by.
_ONE_FOLD_ROWS = 3000
_PENALTIES = tuple(0.3 * 4.0**-k for k in range(11))
# Steps of L-BFGS for each penalty; noise on the residual in the closed form.
_STEPS, _NOISE_SCALE = 25, 0.2
# A path is left when so many penalties in a row gained no more than so many nats.
_PATIENCE, _LEAST_GAIN = 2, 1e-3
# Held-out rows of a single fold take turns: one part chooses the penalty that judges the others.
_TURNS = 4


@dataclass(frozen=True)
class ConditionalSettings:
    """What users choose, checked."""

    n_components: int | Literal["auto"]
    solution: Literal["likelihood", "closed_form"]
    kernel: Kind | Literal["auto"]
    bounds: tuple[float, float]
    gate: bool


class ConditionalFit(NamedTuple):
    """The density, what was chosen, and how far it can be believed."""

    density: ConditionalDensity
    penalty: float
    health: Health


class _Rows(NamedTuple):
    """Distinct rows in the order of their keys: standardised inputs, targets, weights."""

    inputs: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    keys: UInt64[np.ndarray, " n"]

    def where(self, chosen: Bool[np.ndarray, " n"] | slice) -> _Rows:
        return _Rows(*(part[chosen] for part in self))

    @property
    def relative(self) -> Float[np.ndarray, " n"]:
        """The noise of each row relative to the others: a heavier row counts as a surer one."""
        return self.weights.mean() / self.weights


class _Residuals(NamedTuple):
    """A location and what it leaves of the rows that it was fitted to, each left out."""

    location: Location
    values: Float[np.ndarray, " n"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]

    def rescaled(self, factor: float) -> _Residuals:
        """In units of a scale that is larger by the factor."""
        return _Residuals(self.location, *(one / factor for one in self[1:]))

    def where(self, chosen: slice) -> _Residuals:
        return _Residuals(self.location, *(one[chosen] for one in self[1:]))


class _Ground(NamedTuple):
    """What the tilt stands on."""

    standardizer: Standardizer
    response: Response
    covariance: Covariance
    factor: float
    functions: InputFunctions
    settings: ConditionalSettings

    def density(
        self, location: Location, coefficients: Float[np.ndarray, "m k"]
    ) -> ConditionalDensity:
        return ConditionalDensity(
            self.standardizer,
            self.response,
            location,
            self.factor,
            self.functions,
            coefficients,
            self.settings.bounds,
        )

    @property
    def no_tilt(self) -> Float[np.ndarray, "m k"]:
        return np.zeros((self.functions.n_functions, N_RESIDUAL_FUNCTIONS))

    def tilts(
        self, rows: _Rows, residuals: _Residuals, penalties: Sequence[float]
    ) -> Iterator[Float[np.ndarray, "m k"]]:
        """Coefficients for one penalty after the other, from the strongest."""
        inputs, values = self.functions(rows.inputs), residuals.values
        if self.settings.solution == "closed_form":
            sums = conditional_sums(inputs, values, rows.weights, _NOISE_SCALE)
            return closed_form_path(sums, penalties)
        nodes, log_masses = node_masses(residuals.low, residuals.high)
        problem = TiltProblem(
            inputs,
            residual_functions(values),
            residual_functions(nodes),
            log_masses,
            rows.weights / rows.weights.sum(),
        )
        return likeliest_path(problem, penalties, _STEPS)


class _Judged(NamedTuple):
    """Log densities of held-out rows, with and without a tilt."""

    penalty: float
    tilted: Float[np.ndarray, " n"]
    base: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]


def fit_conditional(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    settings: ConditionalSettings,
    seed: int,
    progress: Progress,
) -> ConditionalFit:
    """Fit p(y | x) to rows."""
    standardizer, rows = _prepared(X, y, weights, seed)
    covariance, response = _chosen_by_evidence(rows, settings, progress)
    everything = _residuals(rows, covariance, response, settings.bounds)
    factor = _scale_factor(everything.values, rows.weights)
    points = rows.inputs[: 2 * _n_functions(settings)]
    functions = input_functions(
        covariance.kind, covariance.length_scale, points, _n_functions(settings)
    )
    ground = _Ground(standardizer, response, covariance, factor, functions, settings)

    judged = None
    if len(rows.y) >= _FEWEST_ROWS_TO_TILT:
        judged = _judged_on_folds(rows.where(slice(0, _TILT_ROWS)), ground, progress)
    tilted = judged is not None and (not settings.gate or _gain(judged)[0] > _gain(judged)[1])
    if not tilted or judged is None:
        density = ground.density(everything.location, ground.no_tilt)
        penalty = np.inf
    else:
        some = slice(0, _TILT_ROWS)
        penalty = judged.penalty
        path = [one for one in _PENALTIES if one >= penalty]
        residuals = everything.rescaled(factor).where(some)
        *_, coefficients = ground.tilts(rows.where(some), residuals, path)
        density = ground.density(everything.location, coefficients)
    comparison = _compared(judged, density, rows, seed)
    return ConditionalFit(density, float(penalty), Health(density.has_tilt, comparison))


def _prepared(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    seed: int,
) -> tuple[Standardizer, _Rows]:
    """Units from all rows; copies of a row become one with their weights' sum."""
    table = np.column_stack([X, y])
    kept = weights > 0
    table, weights = table[kept], weights[kept]
    # Sorted before anything is summed, so that the order of the rows changes no last digit.
    order = np.lexsort(table.T)
    table, weights = table[order], weights[order]
    first = np.append(True, (np.diff(table, axis=0) != 0).any(axis=1))
    totals = np.add.reduceat(weights, np.flatnonzero(first))
    table = table[first]
    center = np.average(table, axis=0, weights=totals)
    scale = np.sqrt(np.average((table - center) ** 2, axis=0, weights=totals))
    scale[~(scale > 1e-12 * np.abs(center))] = 1.0
    keys = row_keys((table - center) / scale, seed)
    sketch = sketch_rows(table, totals, keys, len(table))
    standardizer = Standardizer(center[:-1], scale[:-1])
    inputs = standardizer.forward(sketch.rows[:, :-1])
    return standardizer, _Rows(inputs, sketch.rows[:, -1], sketch.weights, sketch.keys)


def _chosen_by_evidence(
    rows: _Rows, settings: ConditionalSettings, progress: Progress
) -> tuple[Covariance, Response]:
    """Kernel and map of the target on some rows, then length-scales on more."""
    some = rows.where(slice(0, _CHOICE_ROWS))
    straight = straight_response(rows.y, rows.weights)
    kinds: tuple[Kind, ...] = ("rbf", "matern")
    if settings.kernel != "auto":
        kinds = (settings.kernel,)
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
    for response in progress.track(bent_responses(rows.y, rows.weights), "maps of the target"):
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


def _residuals(
    rows: _Rows,
    covariance: Covariance,
    response: Response,
    bounds: tuple[float, float],
) -> _Residuals:
    """The location of rows, and their residuals out of sample, in units of the scale."""
    targets, noises = response.forward(rows.y), covariance.noise * rows.relative
    left_out: LeftOut
    if len(rows.y) <= _EXACT_ROWS:
        location, left_out = fit_exact(covariance, rows.inputs, targets, noises)
    else:
        points = rows.inputs[:_POINTS]
        location, left_out = fit_points(covariance, points, rows.inputs, targets, noises)
    scale = np.sqrt(left_out.variance + covariance.noise)
    low, high = (
        (response.forward(np.array([bound])) - left_out.mean) / scale
        if np.isfinite(bound)
        else np.full(len(targets), bound)
        for bound in bounds
    )
    return _Residuals(location, (targets - left_out.mean) / scale, low, high)


def _scale_factor(residuals: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    """The factor under which left-out residuals are likeliest."""

    def loss(log_factor: float) -> float:
        logs = bell_log_density(residuals * np.exp(-log_factor))
        return log_factor - float(np.average(logs, weights=weights))

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))


def _n_functions(settings: ConditionalSettings) -> int:
    if settings.n_components == "auto":
        return _FUNCTIONS[settings.solution]
    return settings.n_components


def _judged_on_folds(rows: _Rows, ground: _Ground, progress: Progress) -> _Judged:
    """The penalty that held-out rows prefer, and what it is worth to rows that did not choose it.

    Location and tilt of a fold have not seen its rows. The penalty that a row is judged with is
    chosen by the rows of other folds, or of other turns where there is one fold.
    """
    folds = number_folds(rows.keys, _FOLDS).numbers(rows.keys)
    one = len(rows.y) > _ONE_FOLD_ROWS
    held_out = [0] if one else sorted(set(folds.tolist()))
    turns = np.arange(len(rows.y)) % _TURNS if one else folds
    judging = np.concatenate([np.flatnonzero(folds == fold) for fold in held_out])
    weights, turns = rows.weights[judging], turns[judging]
    # Folds go along the path side by side.
    logs: list[Float[np.ndarray, " n"]] = []
    paths = [_fold_path(rows, folds == fold, ground) for fold in held_out]
    for _ in progress.track(range(1 + len(_PENALTIES)), "penalties"):
        logs.append(np.concatenate([next(path) for path in paths]))
        if _settled([float(np.average(one, weights=weights)) for one in logs[1:]]):
            break
    tilted, base = np.stack(logs[1:], axis=1), logs[0]
    chosen = np.zeros(len(judging), int)
    for turn in np.unique(turns):
        others = turns != turn
        if others.any():
            chosen[~others] = _best(tilted[others], weights[others])
    best = _best(tilted, weights)
    picked = np.take_along_axis(tilted, chosen[:, None], 1)[:, 0]
    return _Judged(_PENALTIES[best], picked, base, weights)


def _settled(means: list[float]) -> bool:
    """Whether the last penalties were hardly better than those before."""
    before, last = means[:-_PATIENCE], means[-_PATIENCE:]
    return bool(before) and max(last) < max(before) + _LEAST_GAIN


def _best(logs: Float[np.ndarray, "n p"], weights: Float[np.ndarray, " n"]) -> int:
    return int((weights @ logs).argmax())


def _fold_path(
    rows: _Rows, held: Bool[np.ndarray, " n"], ground: _Ground
) -> Iterator[Float[np.ndarray, " n"]]:
    """Log densities of held-out rows: the base density's, then one for each penalty."""
    others, judges = rows.where(~held), rows.where(held)
    left = _residuals(others, ground.covariance, ground.response, ground.settings.bounds)
    X = ground.standardizer.backward(judges.inputs)
    density = ground.density(left.location, ground.no_tilt)
    yield density.log_density(X, judges.y)
    for coefficients in ground.tilts(others, left.rescaled(ground.factor), _PENALTIES):
        yield replace(density, coefficients=coefficients).log_density(X, judges.y)


def _gain(judged: _Judged) -> tuple[float, float]:
    return mean_and_error(judged.tilted - judged.base, judged.weights)


def _compared(
    judged: _Judged | None, density: ConditionalDensity, rows: _Rows, seed: int
) -> Comparison:
    """What held-out rows say of the density that is returned."""
    if judged is None:
        return nothing_compared()
    gain, gain_error = _gain(judged)
    logs = judged.tilted if density.has_tilt else judged.base
    held_out, held_out_error = mean_and_error(logs, judged.weights)
    some = rows.where(slice(0, _CHOICE_ROWS))
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
