"""The journey of a table into a kernel exponential family, in order.

    rows ─▶ standardize ─▶ sketch ─▶ base q0 ─▶ features ─▶ tuned length-scales
                                                                    │
    log p ◀─ gate ◀─ normalizer ◀─ coefficients β ◀─ chosen (λ, σ) ◀─ moments of K folds

Everything between the stages is a small immutable record; `fit_family` is their order. The gate
compares what was chosen with its base density, on rows that a fit of the same kind had not seen
(see `kexpfam.tuning.gate`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base import (
    AutomaticBase,
    BaseDensity,
    RescaledDensity,
    draw_defensively,
    fit_base,
)
from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.data.sketch import (
    Folds,
    InUnits,
    Labeling,
    Sketch,
    Sketching,
    number_folds,
    split_folds,
)
from kexpfam.data.standardize import Standardizer
from kexpfam.exceptions import NormalizerWarning, SingularSystemError, TuningWarning
from kexpfam.features import Basis, Spectrum
from kexpfam.model import TiltedDensity
from kexpfam.model.health import (
    Comparison,
    Health,
    NormalizerEstimate,
    normalizer_complaint,
    nothing_compared,
)
from kexpfam.moments import (
    Checkpoint,
    CheckpointedWalk,
    MomentSource,
    add_moments,
    scale_moments,
    total_moments,
)
from kexpfam.noise import Noise, NoNoise
from kexpfam.pipeline.adding import require_rows_left
from kexpfam.pipeline.coefficients import Coefficients, require_means
from kexpfam.pipeline.prepare import prepare
from kexpfam.progress import Progress
from kexpfam.threads import in_turn
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
from kexpfam.tuning.gate import Weighted, compare, compare_further
from kexpfam.tuning.likelihood import choose_likeliest

__all__ = ["FamilyFit", "FamilySettings", "emptied", "fit_family", "with_moments", "with_rows"]

_NOISE_FACTORS = 2.0 ** np.arange(-2, 3)
_PENALTIES = 10.0 ** np.arange(-9, 2.5, 0.5)
_N_DRAWS = 8192
# Fewer distinct rows cannot be tuned by; with fewer than the second, none are held out to judge.
_FEWEST_ROWS, _FEWEST_TO_JUDGE = 4, 50
# One in this many folds judges; rows, training rows and draws that are used.
_JUDGING_FOLDS, _JUDGES, _TRAINING, _DRAWS = 5, 4000, 2000, 2000


@dataclass(frozen=True)
class FamilySettings:
    """What to fit, as objects: the estimator resolves names into these."""

    features: Any
    n_components: int
    spectrum: Spectrum
    base: Any
    noise: Noise
    given: Hyperparameters
    solution: str
    criterion: str
    tuning: Tuning
    normalizer: Any
    standardize: bool
    gate: bool


class FamilyFit(NamedTuple):
    """A fitted density, how it came about, and the sums for adding rows to it.

    `hyperparameters` are those that were chosen, also where the gate has left the base density
    alone; an infinite penalty among them stands for no tilt.
    """

    density: TiltedDensity
    normalizer: NormalizerEstimate
    hyperparameters: Tuned
    history: list[dict[str, Any]]
    surface: LossSurface | None
    health: Health
    noise: Noise
    sketching: Sketching
    entropy: list[int]
    weight: float
    moments: Any

    def summary(self, names: Sequence[str]) -> dict[str, Any]:
        """What was fitted, for people; `names` are those of the columns."""
        chosen = self.hyperparameters
        return {
            "rows": self.weight,
            "functions": len(self.density.coefficients),
            "length_scale": dict(zip(names, chosen.length_scale, strict=True)),
            "noise_scale": chosen.noise_scale,
            "penalty": chosen.penalty if self.density.has_tilt else float("inf"),
            "log_normalizer": self.normalizer.log_normalizer,
        }


@in_turn
def fit_family(
    source: RowSource,
    settings: FamilySettings,
    entropy: list[int],
    progress: Progress,
    names: Sequence[str] | None = None,
    checkpoint: Checkpoint | None = None,
) -> FamilyFit:
    """Fit a kernel exponential family density to rows."""
    seed = np.random.SeedSequence(entropy)
    seeds = _Seeds(*seed.spawn(6))
    for_tuning, for_draws, for_normalizer = map(
        np.random.default_rng, (seeds.tuning, seeds.draws, seeds.normalizer)
    )
    spread, sketching, sketch, _ = prepare(
        source, seed, settings.tuning.sketch_size, names, spreads_ties=False
    )
    n_columns = len(spread.scale)
    standardizer = spread if settings.standardize else _identity(n_columns)
    column_scale = spread.scale / standardizer.scale
    sketch = sketch.seen_through(standardizer)

    if isinstance(settings.base, AutomaticBase):
        # Once: the tilt of one family is not to be judged beside another.
        chosen_base = settings.base.choose(sketch, np.random.default_rng(seeds.base))
        settings = replace(settings, base=chosen_base)
    unit_basis, base = _functions_and_base(settings, sketch, standardizer, seeds)
    settings = _fitting(settings, unit_basis)
    draws = draw_defensively(base, _N_DRAWS, for_draws)
    covariance = settings.noise.covariance_shape(n_columns)
    problem = TuningProblem(
        unit_basis, settings.noise, base, covariance, sketch, draws, settings.criterion
    )
    folds = _folds(sketch, settings)
    history: list[dict[str, Any]] = []
    if settings.solution == "likelihood":
        tuned = _likeliest(problem, settings, column_scale, progress)
        folds = None
    else:
        tuned, history = _tune(problem, settings, column_scale, for_tuning, progress)
    basis = unit_basis.rescaled(tuned.length_scale)

    rows = source.mapped(Labeling(sketching, standardizer, folds))
    moments_of = MomentSource(basis, settings.noise, base, rows)
    if checkpoint is not None:
        moments_of = replace(moments_of, walk=CheckpointedWalk(checkpoint, entropy))
    surface = None
    if folds:
        surface = _surface(problem, basis, moments_of, tuned, settings, folds, progress)
        chosen = choose(surface, settings.criterion)
    else:
        chosen = Choice(tuned.noise_scale, tuned.penalty)

    moments = total_moments(moments_of.at(chosen.noise_scale).values())
    coefficients = Coefficients(
        basis, base, moments, settings.noise, chosen.noise_scale, settings.solution
    )
    untilted = TiltedDensity(basis, np.zeros(basis.n_features), base, standardizer, 0.0)
    density, estimate, penalty = _solve(
        coefficients, untilted, chosen.penalty, sketch, settings, for_normalizer
    )
    hyperparameters = Tuned(penalty, chosen.noise_scale, tuned.length_scale)
    comparison = _compared(sketch, standardizer, settings, hyperparameters, seeds)
    fit = FamilyFit(
        density=density,
        normalizer=estimate,
        hyperparameters=hyperparameters,
        history=history,
        surface=surface,
        health=Health(density.has_tilt, comparison, estimate),
        noise=settings.noise,
        sketching=sketching,
        entropy=entropy,
        weight=float(moments.weight),
        moments=moments,
    )
    fit = _gated(fit, settings)
    if settings.given.penalty is not None and not fit.density.has_tilt:
        warnings.warn(
            f"With penalty={settings.given.penalty:g} the model does not beat its base density on "
            f"held-out rows. {fit.health.about_the_tilt} Try penalty='auto', or gate=False to "
            "keep it anyway.",
            TuningWarning,
            stacklevel=3,
        )
    return fit


class _Seeds(NamedTuple):
    base: np.random.SeedSequence
    features: np.random.SeedSequence
    tuning: np.random.SeedSequence
    draws: np.random.SeedSequence
    normalizer: np.random.SeedSequence
    comparison: np.random.SeedSequence


def _functions_and_base(
    settings: FamilySettings, sketch: Sketch, standardizer: Standardizer, seeds: _Seeds
) -> tuple[Basis, BaseDensity]:
    """The basis for unit length-scales, and the base density, of some rows."""
    basis = settings.features.build(
        settings.n_components, sketch, settings.spectrum, np.random.default_rng(seeds.features)
    )
    base = _fit_base(settings.base, sketch, standardizer, np.random.default_rng(seeds.base))
    return basis, base


def _compared(
    sketch: Sketch,
    standardizer: Standardizer,
    settings: FamilySettings,
    hyperparameters: Tuned,
    seeds: _Seeds,
) -> Comparison:
    """The comparison on one fold of a fit to the others, including its base density."""
    if len(sketch.rows) < _FEWEST_TO_JUDGE:
        return nothing_compared()
    judging = number_folds(sketch.keys, _JUDGING_FOLDS).numbers(sketch.keys) == 0
    judges, others = sketch.where(judging), sketch.where(~judging)
    unit_basis, base = _functions_and_base(settings, others, standardizer, seeds)
    basis = unit_basis.rescaled(hyperparameters.length_scale)
    density = TiltedDensity(basis, np.zeros(basis.n_features), base, standardizer, 0.0)
    generator = np.random.default_rng(seeds.comparison)
    if np.isfinite(hyperparameters.penalty):
        moments_of = MomentSource(
            basis, settings.noise, base, ArrayRows(others.rows, others.weights)
        )
        noise_scale = hyperparameters.noise_scale
        moments = total_moments(moments_of.at(noise_scale).values())
        coefficients = Coefficients(
            basis, base, moments, settings.noise, noise_scale, settings.solution
        )
        density = replace(density, coefficients=coefficients(hyperparameters.penalty))
        estimate = settings.normalizer.estimate(density, generator)
        density = replace(density, log_normalizer=estimate.log_normalizer)
    held_out, training = (
        Weighted(standardizer.backward(part.rows[:count]), part.weights[:count])
        for part, count in ((judges, _JUDGES), (others, _TRAINING))
    )
    return compare(density, held_out, training, _DRAWS, generator, gated=settings.gate)[0]


def _gated(fit: FamilyFit, settings: FamilySettings) -> FamilyFit:
    """The fit, or its base density where that is no worse; warns of an unreliable log Z."""
    if settings.gate and not fit.health.comparison.wins:
        return _untilted(fit)
    complaint = normalizer_complaint(fit.normalizer)
    if fit.density.has_tilt and complaint is not None:
        warnings.warn(complaint, NormalizerWarning, stacklevel=4)
    return fit


def _untilted(fit: FamilyFit) -> FamilyFit:
    """The base density alone, with the sums of the tilt that it could have."""
    nothing = NormalizerEstimate(0.0, 0.0, float("nan"), float("nan"))
    return fit._replace(
        density=fit.density.untilted(),
        normalizer=nothing,
        health=Health(has_tilt=False, comparison=fit.health.comparison, normalizer=nothing),
    )


def with_rows(
    fit: FamilyFit, source: RowSource, sign: float, settings: FamilySettings
) -> FamilyFit:
    """The fit with rows added, or taken away. Rows that are added judge it first."""
    density, moments = fit.density, fit.moments
    rows = source.mapped(InUnits(density.standardizer))
    if sign > 0 and settings.gate and float(moments.weight) > 0:
        some = replace(fit.sketching, size=_JUDGES)
        sketch = source.total(some, some.combine, "rows to judge by")
        tilted = fit if density.has_tilt else _solved_again(fit, moments, settings)
        if tilted.density.has_tilt and len(sketch.rows):
            judges = Weighted(sketch.rows, sketch.weights)
            comparison = compare_further(fit.health.comparison, tilted.density, judges)
            fit = fit._replace(health=fit.health._replace(comparison=comparison))
    moments_of = MomentSource(density.basis, fit.noise, density.base, rows)
    more = total_moments(moments_of.at(fit.hyperparameters.noise_scale).values())
    return with_moments(fit, add_moments(moments, scale_moments(more, sign)), settings)


def with_moments(fit: FamilyFit, moments: Any, settings: FamilySettings) -> FamilyFit:
    """The fit of other sums: the same functions, base density, penalty and noise."""
    require_rows_left(float(moments.weight), fit.weight)
    return _gated(_solved_again(fit, moments, settings), settings)


def emptied(fit: FamilyFit) -> FamilyFit:
    """The fit with all choices made and no rows."""
    return _untilted(fit._replace(moments=scale_moments(fit.moments, 0.0), weight=0.0))


def _solved_again(fit: FamilyFit, moments: Any, settings: FamilySettings) -> FamilyFit:
    chosen, old = fit.hyperparameters, fit.density
    coefficients = Coefficients(
        old.basis, old.base, moments, fit.noise, chosen.noise_scale, settings.solution
    )
    density = replace(old, coefficients=coefficients(chosen.penalty))
    estimate = settings.normalizer.estimate(density, np.random.default_rng(fit.entropy))
    density = replace(density, log_normalizer=estimate.log_normalizer)
    return fit._replace(
        density=density,
        normalizer=estimate,
        health=Health(density.has_tilt, fit.health.comparison, estimate),
        weight=float(moments.weight),
        moments=moments,
    )


def _fitting(settings: FamilySettings, basis: Basis) -> FamilySettings:
    """Settings with the noise that this basis is fitted with, or an error where they clash."""
    noise = settings.noise.checked_for(basis)
    if basis.n_derivatives < 2 and settings.criterion == "score_matching":
        raise ValueError(
            "The noise-free score matching loss does not exist for functions with kinks "
            f"({basis.n_derivatives:g} derivative). Use criterion='likelihood'."
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
    """Fit a family to standardized rows, or bring a user's density into their units."""
    fitted = fit_base(base, sketch, generator)
    if hasattr(base, "fit"):
        return fitted
    return RescaledDensity(
        fitted, -standardizer.center / standardizer.scale, 1 / standardizer.scale
    )


def _tune(
    problem: TuningProblem,
    settings: FamilySettings,
    column_scale: Float[np.ndarray, " d"],
    generator: np.random.Generator,
    progress: Progress,
) -> tuple[Tuned, list[dict[str, Any]]]:
    """Algorithm 1, from a rule of thumb."""
    typical, thumb = _rule_of_thumb(column_scale)
    lower = Tuned(1e-9, 1e-3 * typical, 0.05 * column_scale)
    upper = Tuned(1e2, 2.0 * typical, 50.0 * column_scale)
    start = settings.tuning.start.filled(thumb)
    return tune(
        problem, settings.given, start, (lower, upper), settings.tuning, generator, progress
    )


def _rule_of_thumb(column_scale: Float[np.ndarray, " d"]) -> tuple[float, Tuned]:
    """A typical scale of the columns, and settings that follow their spread and number."""
    typical = float(np.exp(np.log(column_scale).mean()))
    # Distances grow with the number of columns, and so must the kernel's reach.
    reach = float(np.clip(0.2 * len(column_scale), 0.4, 4.0))
    return typical, Tuned(1e-3, 0.1 * typical, reach * column_scale)


def _likeliest(
    problem: TuningProblem,
    settings: FamilySettings,
    column_scale: Float[np.ndarray, " d"],
    progress: Progress,
) -> Tuned:
    """Length-scale and penalty by the likelihood of held-out rows."""
    require_means(problem.basis, problem.noise)
    thumb = settings.tuning.start.filled(_rule_of_thumb(column_scale)[1])
    return choose_likeliest(
        problem.basis,
        problem.base,
        problem.sketch,
        settings.given,
        thumb,
        settings.tuning.n_folds,
        progress,
    )


def _folds(sketch: Sketch, settings: FamilySettings) -> Folds | None:
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
    settings: FamilySettings,
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
    coefficients: Coefficients,
    untilted: TiltedDensity,
    penalty: float,
    sketch: Sketch,
    settings: FamilySettings,
    generator: np.random.Generator,
) -> tuple[TiltedDensity, NormalizerEstimate, float]:
    """Coefficients and normalizer; an open penalty grows until the rows beat the base density.

    Cross-validation sees few draws of the base density and can miss a spike of f where there are
    no rows. The normalizer's many draws show it: the training rows then are less likely than
    under the base density.
    """
    tunable = settings.given.penalty is None
    while True:
        try:
            found = coefficients(penalty)
        except SingularSystemError:
            if not tunable:
                raise
        else:
            density = replace(untilted, coefficients=found)
            if not np.any(found):
                # The base density alone is normalized as it is, however hard it is to integrate.
                estimate = NormalizerEstimate(0.0, 0.0, float("nan"), float("nan"))
                break
            estimate = settings.normalizer.estimate(density, generator)
            gain = np.average(density.tilt(sketch.rows), weights=sketch.weights)
            excused = min(estimate.error, EXCUSED_LOSS)
            # Without a tilt there is nothing left to enlarge.
            if gain >= estimate.log_normalizer - excused or not tunable or np.isinf(penalty):
                break
        penalty = penalty * 10 if penalty < 1e3 else float("inf")
    if not density.has_tilt:
        # A base density is normalized, whatever a quadrature makes of a thin one.
        estimate = estimate._replace(log_normalizer=0.0, error=0.0)
    return replace(density, log_normalizer=estimate.log_normalizer), estimate, penalty
