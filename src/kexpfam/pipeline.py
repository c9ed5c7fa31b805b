"""The whole journey of a table of numbers, in order: read this file first.

    rows ─▶ standardise ─▶ sketch ─▶ base q0 ─▶ features ─▶ tuned length-scales
                                                                    │
    log p ◀─ normaliser ◀─ coefficients β ◀─ chosen (λ, σ) ◀─ moments of K folds

Everything between the stages is a small immutable record; `fit_density` is their order.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base import BaseDensity, RescaledDensity, draw_defensively, fit_base
from kexpfam.data.rows import RowSource
from kexpfam.data.sketch import Folds, InUnits, Labelling, Sketch, Sketching, split_folds
from kexpfam.data.standardize import Standardizer, fit_standardizer
from kexpfam.exceptions import NormalizerWarning, SingularSystemError, TuningWarning
from kexpfam.features import Basis, QuadraticSystem, Spectrum
from kexpfam.model import FittedDensity
from kexpfam.moments import Checkpoint, CheckpointedWalk, MomentSource, total_moments
from kexpfam.noise import Noise, NoNoise
from kexpfam.normalizer import NormalizerEstimate
from kexpfam.progress import Progress
from kexpfam.solve import penalty_matrix_of, solve_ridge, system_at
from kexpfam.tuning import (
    EXCUSED_LOSS,
    Choice,
    HeldOutRows,
    Hyperparameters,
    LossSurface,
    Tuned,
    Tuning,
    TuningProblem,
    choose,
    loss_surface,
    tune,
)

__all__ = ["Fit", "Settings", "fit_density", "solve_again", "sum_rows"]

_NOISE_FACTORS = 2.0 ** np.arange(-2, 3)
_PENALTIES = 10.0 ** np.arange(-9, 2.5, 0.5)
_N_DRAWS = 8192
_FEWEST_ROWS = 4


@dataclass(frozen=True)
class Settings:
    """What to fit, as objects: the estimator resolves names into these."""

    features: Any
    n_components: int
    spectrum: Spectrum
    base: Any
    noise: Noise
    given: Hyperparameters
    criterion: str
    tuning: Tuning
    normalizer: Any
    standardize: bool


class Fit(NamedTuple):
    """A fitted density and how it came about."""

    density: FittedDensity
    normalizer: NormalizerEstimate
    hyperparameters: Tuned
    history: list[dict[str, Any]]
    surface: LossSurface | None
    moments: Any
    noise: Noise


def fit_density(
    source: RowSource,
    settings: Settings,
    seed: np.random.SeedSequence,
    progress: Progress,
    names: Sequence[str] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fit:
    """Fit a kernel exponential family density to rows."""
    streams = [np.random.default_rng(child) for child in seed.spawn(5)]
    for_base, for_features, for_tuning, for_draws, for_normalizer = streams

    spread = fit_standardizer(source, names)
    n_columns = len(spread.scale)
    standardizer = spread if settings.standardize else _identity(n_columns)
    column_scale = spread.scale / standardizer.scale
    sketching = Sketching(spread, int(seed.generate_state(1)[0]), settings.tuning.sketch_size)
    sketch = source.total(sketching, sketching.combine, "sketch")
    sketch = sketch.seen_through(standardizer)

    unit_basis = settings.features.build(
        settings.n_components, sketch, settings.spectrum, for_features
    )
    settings = _settled(settings, unit_basis)
    base = _fit_base(settings.base, sketch, standardizer, for_base)
    draws = draw_defensively(base, _N_DRAWS, for_draws)
    covariance = settings.noise.covariance_shape(n_columns)
    problem = TuningProblem(
        unit_basis, settings.noise, base, covariance, sketch, draws, settings.criterion
    )
    tuned, history = _tune(problem, settings, column_scale, for_tuning, progress)
    basis = unit_basis.rescaled(tuned.length_scale)

    folds = _folds(sketch, settings)
    rows = source.mapped(Labelling(sketching, standardizer, folds))
    moments_of = MomentSource(basis, settings.noise, base, rows)
    if checkpoint is not None:
        entropy = np.atleast_1d(np.asarray(seed.entropy)).tolist()
        moments_of = replace(moments_of, walk=CheckpointedWalk(checkpoint, entropy))
    surface = None
    if folds:
        surface = _surface(problem, basis, moments_of, tuned, settings, folds, progress)
        chosen = choose(surface, settings.criterion)
    else:
        chosen = Choice(tuned.noise_scale, tuned.penalty)

    moments = total_moments(moments_of.at(chosen.noise_scale).values())
    system = system_at(basis, moments, settings.noise, chosen.noise_scale)
    untilted = FittedDensity(basis, np.zeros(basis.n_features), base, standardizer, 0.0)
    density, estimate, penalty = _solve(
        system, untilted, chosen.penalty, sketch, settings, for_normalizer
    )
    return Fit(
        density=replace(density, log_normalizer=estimate.log_normalizer),
        normalizer=estimate,
        hyperparameters=Tuned(penalty, chosen.noise_scale, tuned.length_scale),
        history=history,
        surface=surface,
        moments=moments,
        noise=settings.noise,
    )


def sum_rows(source: RowSource, density: FittedDensity, noise: Noise, noise_scale: float) -> Any:
    """The moments of more rows, in the units, functions and base density of a fitted model."""
    rows = source.mapped(InUnits(density.standardizer))
    moments_of = MomentSource(density.basis, noise, density.base, rows)
    return total_moments(moments_of.at(noise_scale).values())


def solve_again(
    density: FittedDensity,
    moments: Any,
    noise: Noise,
    chosen: Choice,
    normalizer: Any,
    generator: np.random.Generator,
) -> tuple[FittedDensity, NormalizerEstimate]:
    """The model of other sums: the same functions, base density, penalty and noise."""
    system = system_at(density.basis, moments, noise, chosen.noise_scale)
    matrix = penalty_matrix_of(density.basis)
    solved = replace(density, coefficients=solve_ridge(system, chosen.penalty, matrix))
    estimate = normalizer.estimate(solved, generator)
    if estimate.complaint:
        warnings.warn(estimate.complaint, NormalizerWarning, stacklevel=3)
    return replace(solved, log_normalizer=estimate.log_normalizer), estimate


def _settled(settings: Settings, basis: Basis) -> Settings:
    """Settings with the noise that this basis is fitted with, or an error where they clash."""
    noise = settings.noise.settled_for(basis)
    if basis.n_derivatives < 2 and settings.criterion == "score_matching":
        raise ValueError(
            "The noise-free score matching loss does not exist for functions with kinks "
            f"({basis.n_derivatives:g} derivative). Take criterion='likelihood'."
        )
    given = settings.given
    if isinstance(noise, NoNoise):
        given = given._replace(noise_scale=0.0)
    return replace(settings, noise=noise, given=given)


def _identity(n_columns: int) -> Standardizer:
    return Standardizer(np.zeros(n_columns), np.ones(n_columns))


def _fit_base(
    base: Any, sketch: Sketch, standardizer: Standardizer, generator: np.random.Generator
) -> BaseDensity:
    """Fit a family to standardised rows, or bring a user's density into their units."""
    fitted = fit_base(base, sketch, generator)
    if hasattr(base, "fit"):
        return fitted
    return RescaledDensity(
        fitted, -standardizer.center / standardizer.scale, 1 / standardizer.scale
    )


def _tune(
    problem: TuningProblem,
    settings: Settings,
    column_scale: Float[np.ndarray, " d"],
    generator: np.random.Generator,
    progress: Progress,
) -> tuple[Tuned, list[dict[str, Any]]]:
    """Algorithm 1, from a rule of thumb that follows the columns' spread and number."""
    typical = float(np.exp(np.log(column_scale).mean()))
    # Distances grow with the number of columns, and so must the kernel's reach.
    reach = float(np.clip(0.2 * len(column_scale), 0.4, 4.0))
    thumb = Tuned(1e-3, 0.1 * typical, reach * column_scale)
    lower = Tuned(1e-9, 1e-3 * typical, 0.05 * column_scale)
    upper = Tuned(1e2, 2.0 * typical, 50.0 * column_scale)
    start = settings.tuning.start.filled(thumb)
    return tune(
        problem, settings.given, start, (lower, upper), settings.tuning, generator, progress
    )


def _folds(sketch: Sketch, settings: Settings) -> Folds | None:
    """The folds for choosing what is open, if anything is and the user wants folds."""
    if settings.given.complete or not settings.tuning.n_folds:
        return None
    if len(sketch.rows) < _FEWEST_ROWS:
        raise ValueError(
            f"Tuning holds rows out, but {len(sketch.rows)} distinct rows are too few for that. "
            "Give more rows, or numbers for penalty, noise_scale and length_scale."
        )
    return split_folds(sketch.keys, settings.tuning.n_folds)


def _surface(
    problem: TuningProblem,
    basis: Basis,
    source: MomentSource,
    tuned: Tuned,
    settings: Settings,
    folds: Folds,
    progress: Progress,
) -> LossSurface:
    """The held-out surface over what is open of (noise scale, penalty)."""
    noise_scales, penalties = np.array([tuned.noise_scale]), np.array([tuned.penalty])
    if settings.given.noise_scale is None:
        noise_scales = tuned.noise_scale * _NOISE_FACTORS
    if settings.given.penalty is None:
        penalties = _PENALTIES
    sketch = problem.sketch
    held_out = HeldOutRows(sketch.rows, sketch.weights, folds.numbers(sketch.keys), problem.draws)
    return loss_surface(basis, source, settings.noise, noise_scales, penalties, held_out, progress)


def _solve(
    system: QuadraticSystem,
    untilted: FittedDensity,
    penalty: float,
    sketch: Sketch,
    settings: Settings,
    generator: np.random.Generator,
) -> tuple[FittedDensity, NormalizerEstimate, float]:
    """Coefficients and normaliser; an open penalty grows until the rows beat the base density.

    Cross-validation sees few draws of the base density and can miss a spike of f where there are
    no rows. The normaliser's many draws show it: the training rows then are less likely than
    under the base density.
    """
    matrix = penalty_matrix_of(untilted.basis)
    tunable = settings.given.penalty is None
    while True:
        try:
            coefficients = solve_ridge(system, penalty, matrix)
        except SingularSystemError:
            if not tunable:
                raise
        else:
            density = replace(untilted, coefficients=coefficients)
            estimate = settings.normalizer.estimate(density, generator)
            gain = np.average(density.tilt(sketch.rows), weights=sketch.weights)
            excused = min(estimate.error, EXCUSED_LOSS)
            if gain >= estimate.log_normalizer - excused or not tunable:
                break
        penalty = penalty * 10 if penalty < 1e3 else float("inf")
    if np.isinf(penalty) and settings.given.penalty is not None:
        warnings.warn(
            f"With penalty={settings.given.penalty:g} no setting beats the base density on "
            "held-out rows: the base density itself is returned. Try penalty='tuned'.",
            TuningWarning,
            stacklevel=4,
        )
    if estimate.complaint:
        warnings.warn(estimate.complaint, NormalizerWarning, stacklevel=4)
    return density, estimate, penalty
