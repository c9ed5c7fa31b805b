"""From rows of inputs and targets to the density of the target given the inputs.

rows → units, copies merged, in the order of their keys; of more than 20 000, a sample by keys
     → kernel, length-scales and a map of the target, by evidence
     → location: exact, or from sums over all rows; with every row predicted by the others
     → folds: a factor for the scale; the tilt over a path of penalties
     → the gate: held-out rows under the tilted density and under its base density
     → the tilt: the likeliest one of the sample, or in closed form from sums over all rows

In closed form location and tilt are solved from sums, which rows are added to and taken out of
afterwards. Residuals are then measured by the location of the first fit, the *reference*: what a
row adds to the sums of the tilt must not depend on the rows that came before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.location import (
    LocationSums,
    PointsLocation,
    fewer_directions,
    refuse_impossible,
    solve_points,
)
from kexpfam.data.pairs import Pairs, PairTable, with_target
from kexpfam.data.rows import RowSource
from kexpfam.data.sketch import InUnits, Sketching
from kexpfam.data.standardize import Standardizer
from kexpfam.features.inputs import input_functions
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.health import Comparison, Health, nothing_compared
from kexpfam.moments.arithmetic import add_moments, scale_moments
from kexpfam.moments.conditional import ConditionalSums, LocationSummation, TiltSummation
from kexpfam.moments.fold import Summation
from kexpfam.pipeline.adding import require_rows_left
from kexpfam.progress import Progress
from kexpfam.solve.conditional import closed_form_path
from kexpfam.threads import in_turn
from kexpfam.tuning.evidence import choose_by_evidence
from kexpfam.tuning.gate import judged_further, mean_and_error, share_below
from kexpfam.tuning.held_out import (
    EXACT_ROWS,
    NOISE_SCALE,
    POINTS,
    ConditionalSettings,
    Ground,
    Residuals,
    folds_have_points,
    held_out_folds,
    left_out_residuals,
    likeliest_factor,
    residuals_of,
    scale_factor,
)
from kexpfam.tuning.judging import Judged, judge
from kexpfam.tuning.pooling import choose_pool
from kexpfam.tuning.support import found_bounds, found_step, spanned_lattice

__all__ = [
    "MOST_ROWS",
    "ConditionalFit",
    "ConditionalSettings",
    "TargetSums",
    "emptied",
    "fit_conditional",
    "with_rows",
    "with_sums",
]

# Rows that are looked at one by one; of more, sums are kept.
MOST_ROWS = 20_000
# Functions of the inputs by solution; rows that a tilt needs at least.
_FUNCTIONS, _FEWEST_ROWS_TO_TILT = {"likelihood": 200, "closed_form": 40}, 40
# Rows and draws that held-out rows are compared with; rows that judge when some are added.
_COMPARED_ROWS, _JUDGES = 400, 4000

Walk = Callable[[RowSource, Summation], dict[int, Any]]


class TargetSums(NamedTuple):
    """Sums over rows for the location and for the tilt."""

    location: LocationSums
    tilt: ConditionalSums


class ConditionalFit(NamedTuple):
    """The density, what was chosen, and how reliable it is.

    `penalty` is the one that was chosen, also where the gate has left the base density alone, and
    infinite where none was tried. `unit` is the weight of a row that is as noisy as the location
    says. `reference` and `sums` are what rows are added with; None for the likeliest tilt.
    `target` is the name of the target, if it had one.
    """

    density: ConditionalDensity
    penalty: float
    health: Health
    weight: float
    unit: float
    reference: PointsLocation | None
    sums: TargetSums | None
    target: str | None = None

    def summary(self, names: Sequence[str]) -> dict[str, Any]:
        """What was fitted, for people; `names` are those of the inputs."""
        density = self.density
        scales = density.location.covariance.length_scale * density.standardizer.scale
        return {
            "target": self.target,
            "rows": self.weight,
            "points": len(density.location.points),
            "kernel": density.location.covariance.kind,
            "length_scale": dict(zip(names, scales, strict=True)),
            "penalty": self.penalty if density.bell_is_tilted else float("inf"),
            "mixture_share": density.share,
            "bounds": density.bounds,
            "lattice": None if density.lattice is None else density.lattice.step,
        }


def _walked(source: RowSource, summation: Summation) -> dict[int, Any]:
    return source.total(summation, summation.combine, "sums")


@in_turn
def fit_conditional(
    table: PairTable,
    settings: ConditionalSettings,
    seed: int,
    progress: Progress,
    walks: Sequence[Walk] = (),
) -> ConditionalFit:
    """Fit p(y | x) to rows; `walks` are how they are visited for location and tilt, if at all."""
    walk, other_walk = walks or (_walked, _walked)
    rows, unit = table.rows, float(table.rows.weights.mean())
    step = found_step(rows.y, settings.lattice)
    covariance, response = choose_by_evidence(rows, settings.kernel, progress, bends=step is None)
    # What rounding to a lattice adds, at least.
    least_noise = 0.0 if step is None else (step / response.unit) ** 2 / 12
    covariance = covariance.with_noise(least_noise)
    reference, sums = None, None
    if len(rows.y) <= EXACT_ROWS and settings.solution == "likelihood":
        residuals = left_out_residuals(rows, covariance, response)
        location = fewer_directions(residuals.location, covariance.noise * rows.relative)
        residuals = residuals._replace(location=location)
    else:
        summation = LocationSummation(covariance, rows.inputs[:POINTS], response)
        sums = _total(walk(table.source, summation))
        targets = response.forward(rows.y)
        noises = covariance.noise * unit / rows.weights
        reference = solve_points(covariance, summation.points, sums, unit)
        left_out = reference.left_out(rows.inputs, targets, noises)
        # The factor of the scale comes from folds. Where their locations are exact, it would know
        # nothing of a noise that is chosen for points.
        if folds_have_points(len(rows.y)):
            reference = reference.calibrated(targets, noises, left_out)
        residuals = residuals_of(reference.location, left_out, targets)
    folds = []
    if len(rows.y) >= _FEWEST_ROWS_TO_TILT:
        noise = residuals.location.noise
        folds = held_out_folds(rows, covariance, response, least_noise, noise, progress)
    if folds:
        factor = scale_factor(folds, response)
    else:
        factor = likeliest_factor(residuals.values, rows.weights)
    bounds = settings.bounds
    if bounds == "auto":
        bounds = found_bounds(residuals, factor, response, table.low, table.high)
    lattice = spanned_lattice(step, table.low, table.high, bounds)
    count = settings.n_components
    if count == "auto":
        count = _FUNCTIONS[settings.solution]
    points = rows.inputs[: 2 * count]
    functions = input_functions(covariance.kind, covariance.length_scale, points, count)
    ground = Ground(
        table.standardizer, response, factor, functions, settings.solution, bounds, lattice
    )

    judged = judge(folds, ground, progress) if folds else None
    density = ground.density(residuals.location, ground.no_tilt)
    tilts = judged is not None and (not settings.gate or judged.wins)
    weight = float(rows.weights.sum() if sums is None else sums.weight)
    fit = ConditionalFit(
        density,
        float(np.inf if judged is None else judged.penalty),
        Health(has_tilt=False, comparison=nothing_compared()),
        weight,
        unit,
        None,
        None,
    )
    if settings.solution == "closed_form":
        assert reference is not None
        assert sums is not None
        fit = fit._replace(reference=reference.without_idle_directions(weight / unit))
        tilt = _total(other_walk(table.source, _tilt_summation(fit)))
        fit = fit._replace(sums=TargetSums(sums, tilt))
        coefficients = _closed_form(fit) if tilts else ground.no_tilt
    else:
        coefficients = ground.no_tilt
        if judged is not None and tilts:
            coefficients = _likeliest(ground, rows, residuals, judged)
    stretch = 1.0 if judged is None else judged.stretch
    density = replace(density, coefficients=coefficients, stretch=stretch)
    if judged is not None and settings.solution == "likelihood" and lattice is None:
        kernel = judged.tilted if tilts else judged.base
        densities = judged.densities if tilts else [one.untilted() for one in judged.densities]
        pool = choose_pool(rows, folds, judged, densities, kernel, seed, progress)
        if pool is not None:
            density = replace(density, mixture=pool.mixture, share=pool.share, stretch=pool.stretch)
            judged = judged._replace(tilted=pool.logs)
    comparison = _compared(judged, density, rows, seed)
    return fit._replace(density=density, health=Health(density.has_tilt, comparison))


def _total(by_fold: dict[int, Any]) -> Any:
    """All rows belong to one fold."""
    (found,) = by_fold.values()
    return found


def _likeliest(
    ground: Ground, rows: Pairs, residuals: Residuals, judged: Judged
) -> Float[np.ndarray, "m k"]:
    """The tilt of all rows. Those of the folds are near: there is no path to walk again."""
    (found,) = ground.tilts(rows, residuals.rescaled(ground.factor), [judged.penalty], judged.start)
    return found


def _location_summation(fit: ConditionalFit) -> LocationSummation:
    location = fit.density.location
    return LocationSummation(location.covariance, location.points, fit.density.response)


def _tilt_summation(fit: ConditionalFit) -> TiltSummation:
    assert fit.reference is not None
    density = fit.density
    return TiltSummation(
        fit.reference,
        density.response,
        density.factor,
        density.functions,
        density.bounds,
        NOISE_SCALE,
    )


def _closed_form(fit: ConditionalFit) -> Float[np.ndarray, "m k"]:
    """The tilt of the sums, or none where no penalty was found or nothing was summed."""
    assert fit.sums is not None
    if not np.isfinite(fit.penalty) or not float(fit.sums.tilt.weight) > 0:
        return np.zeros_like(fit.density.coefficients)
    (coefficients,) = closed_form_path(fit.sums.tilt, [fit.penalty])
    return coefficients


def with_rows(
    fit: ConditionalFit, source: RowSource, sign: float, settings: ConditionalSettings
) -> ConditionalFit:
    """The fit with rows added, or taken away. Rows that are added judge it first."""
    units = with_target(fit.density.standardizer)
    if sign > 0 and settings.gate and fit.weight > 0:
        fit = _judged_by(fit, source, units)
    rows = source.mapped(InUnits(units))
    sums = TargetSums(
        *(_total(_walked(rows, one)) for one in (_location_summation(fit), _tilt_summation(fit)))
    )
    assert fit.sums is not None
    total = add_moments(fit.sums, scale_moments(sums, sign))
    require_rows_left(float(total.location.weight), fit.weight)
    if sign < 0:
        refuse_impossible(total.location)
    return with_sums(fit, total, settings)


def _judged_by(fit: ConditionalFit, source: RowSource, units: Standardizer) -> ConditionalFit:
    """The fit, with what some rows that it has not seen say of its tilt."""
    density = replace(fit.density, coefficients=_closed_form(fit))
    if not density.has_tilt:
        return fit
    sketching = Sketching(units, 0, _JUDGES)
    some = source.total(sketching, sketching.combine, "rows to judge by")
    if not len(some.rows):
        return fit
    X, y = some.rows[:, :-1], some.rows[:, -1]
    gains = density.log_density(X, y) - density.untilted().log_density(X, y)
    # Outside the bounds neither has any density.
    gains = np.where(np.isfinite(gains), gains, 0.0)
    comparison = judged_further(fit.health.comparison, gains, some.weights)
    return fit._replace(health=fit.health._replace(comparison=comparison))


def with_sums(
    fit: ConditionalFit, sums: TargetSums, settings: ConditionalSettings
) -> ConditionalFit:
    """The fit of other sums: the same functions, scale factor and penalty."""
    return _solved(fit._replace(sums=sums), settings.gate)


def emptied(fit: ConditionalFit) -> ConditionalFit:
    """The fit with all choices made and no rows."""
    return _solved(fit._replace(sums=scale_moments(fit.sums, 0.0)), gated=True)


def _solved(fit: ConditionalFit, gated: bool) -> ConditionalFit:
    assert fit.sums is not None
    before = fit.density.location
    solved = solve_points(before.covariance, before.points, fit.sums.location, fit.unit)
    coefficients = _closed_form(fit)
    if gated and not fit.health.comparison.wins:
        coefficients = np.zeros_like(coefficients)
    location = solved.location._replace(noise=before.noise)
    density = replace(fit.density, location=location, coefficients=coefficients)
    health = fit.health._replace(has_tilt=density.has_tilt)
    return fit._replace(density=density, health=health, weight=float(fit.sums.location.weight))


def _compared(
    judged: Judged | None, density: ConditionalDensity, rows: Pairs, seed: int
) -> Comparison:
    """The figures of the returned density on held-out rows."""
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
