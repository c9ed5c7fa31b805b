"""The journey of a table into a density of many noise levels.

    rows ─▶ marginals and whitening ─▶ base mixtures ─▶ frequencies ─▶ moments of all levels
                                                                             │
    log p, draws ◀─ flow through the levels ◀─ coefficients of each level ◀──┘

What is open is chosen on held-out rows: the marginal maps by the likelihood of a small mixture in
the user's units, the base's size and shrinkage by its own likelihood, frequencies and the range of
noise by trials, and each level's penalty by that level's loss. Choices are made on a sketch of the
rows; with more rows than that, mixtures and moments are those of all.

All of that happens without one fold of the rows, the *judges*. They then compare the density with
its base density (see `kexpfam.tuning.gate`), and only if it wins are the levels fitted again, to
all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.average_search import choose_average
from kexpfam.base.averaged import Average, AverageSearch, fit_average, refit_average
from kexpfam.base.smoothed import SmoothedMixture, smoothed_mixture
from kexpfam.data.coordinates import Coordinates
from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.data.sketch import NumberedFolds, Sketch, Sketching, number_folds
from kexpfam.data.standardize import Standardizer
from kexpfam.data.ties import spread_ties
from kexpfam.features import FourierBasis
from kexpfam.features.interactions import InteractionFeatures
from kexpfam.model.flow_density import FlowDensity, flow_density
from kexpfam.model.health import Comparison, Health, flow_quality, nothing_compared
from kexpfam.model.score_field import score_field
from kexpfam.moments import Checkpoint, CheckpointedWalk
from kexpfam.moments.level_sums import (
    LevelSums,
    LevelView,
    fold_parts,
    n_directions,
    n_held_out,
)
from kexpfam.moments.levels import LevelSummation, node_scales
from kexpfam.pipeline.adding import require_rows_left, require_rows_seen
from kexpfam.pipeline.further_rows import Further, grown_by
from kexpfam.pipeline.prepare import prepare, stored_rows
from kexpfam.progress import Progress
from kexpfam.solve.levels import Levels, no_levels, solve_levels
from kexpfam.threads import in_turn
from kexpfam.tuning.coordinates import choose_coordinates
from kexpfam.tuning.frequencies import Trial, choose_frequencies
from kexpfam.tuning.gate import Weighted, compare, compare_further
from kexpfam.tuning.growing import refitted_average

__all__ = [
    "DiffusionFit",
    "DiffusionSettings",
    "emptied",
    "fit_diffusion",
    "with_rows",
    "with_sums",
]

_SKETCH = 20_000
_N_FOLDS = 5
# Fewer distinct rows cannot be fitted; with fewer than the second, none are held out to judge.
_FEWEST_ROWS, _FEWEST_TO_JUDGE = 4, 50
# Rows that judge at the most, and training rows and draws that are used beside them.
_JUDGES, _TRAINING, _DRAWS = 2048, 256, 256
# The lowest noise is this share of the base's thin directions, within limits.
_LOWEST_SHARE, _LOWEST_LIMITS, _HIGHEST = 0.2, (0.003, 0.03), 3.0
_THIN = 0.02
# With more rows than the sketch: passes over them when the judges have joined.
_LAST_PASSES = 2


@dataclass(frozen=True)
class DiffusionSettings:
    """What to fit; "auto" is chosen from the rows."""

    n_components: int | Literal["auto"]
    features: InteractionFeatures | Literal["auto"]
    marginals: Literal["auto", "gaussianize", "yeo_johnson"] | None
    n_levels: int
    noise_range: tuple[float, float] | Literal["auto"]
    tolerance: float
    gate: bool
    keep_sums: bool


class DiffusionFit(NamedTuple):
    """A fitted density, what was chosen on the way, and the sums for adding rows to it."""

    density: FlowDensity
    levels: Levels
    features: InteractionFeatures
    base_search: AverageSearch
    marginals: Literal["gaussianize", "yeo_johnson"] | None
    tie_gaps: Float[np.ndarray, " d"]
    health: Health
    sums: LevelSums | None

    def summary(self, names: Sequence[str]) -> dict[str, Any]:
        """What was fitted, for people; `names` are those of the columns."""
        return {
            "marginals": self.marginals,
            "noise_scales": self.levels.noise_scales,
            "penalties": self.levels.penalties,
            "held_out_losses": self.levels.losses,
            "base_components": self.base_search.n_components,
            "flow_steps": int(self.density.steps.sum()),
            "tied_columns": [n for n, gap in zip(names, self.tie_gaps, strict=True) if gap > 0],
        }


class _Rows(NamedTuple):
    """Some rows of the sketch: as they came, spread over their ties, and by fold."""

    given: Float[np.ndarray, "k d"]
    spread: Float[np.ndarray, "k d"]
    weights: Float[np.ndarray, " k"]
    numbers: Int[np.ndarray, " k"]

    def where(self, chosen: Bool[np.ndarray, " k"]) -> _Rows:
        return _Rows(*(part[chosen] for part in self))

    def some(self, count: int) -> Weighted:
        return Weighted(self.spread[:count], self.weights[:count])


class _Choices(NamedTuple):
    """All that is chosen on held-out rows, but the penalties."""

    marginals: Literal["gaussianize", "yeo_johnson"] | None
    search: AverageSearch
    features: InteractionFeatures
    n_components: int
    noise_scales: Float[np.ndarray, " l"]


class _Table(NamedTuple):
    """What every part of a fit needs to know of the rows.

    `source` has those that the sketch has no place for, if there are any: beyond the last key.
    """

    sketching: Sketching
    spread: Standardizer
    gaps: Float[np.ndarray, " d"]
    folds: NumberedFolds
    source: RowSource | None
    last_key: int


class _Foundation(NamedTuple):
    """Coordinates, base density and functions, fitted to some rows.

    `further` are rows beyond the sketch, in these coordinates.
    """

    coordinates: Coordinates
    average: Average
    base: SmoothedMixture
    basis: FourierBasis
    further: RowSource | None


class _Seeds(NamedTuple):
    """Numbers that everything random follows from."""

    search: int
    features: int
    base: int
    draws: int


@in_turn
def fit_diffusion(
    source: RowSource,
    settings: DiffusionSettings,
    seed: np.random.SeedSequence,
    progress: Progress,
    names: Sequence[str] | None = None,
    checkpoint: Checkpoint | None = None,
) -> DiffusionFit:
    """Fit every level to rows."""
    seeds = _Seeds(*(int(child.generate_state(1)[0]) for child in seed.spawn(4)))
    spread, sketching, sketch, gaps = prepare(source, seed, _SKETCH, names, spreads_ties=True)
    if len(sketch.rows) < _FEWEST_ROWS:
        raise ValueError(
            f"KernelDiffusion needs at least {_FEWEST_ROWS} distinct rows, since some are held "
            f"out; got {len(sketch.rows)}. Give more rows, or use KernelExponentialFamily."
        )
    folds, beyond = number_folds(sketch.keys, _N_FOLDS), len(sketch.keys) == _SKETCH
    further = source if beyond else None
    table = _Table(sketching, spread, gaps, folds, further, int(sketch.keys[-1]))
    rows = _sketch_rows(sketch, table)
    judges, others = _without_judges(rows)

    choices, foundation = _choose(others, table, settings, seeds, progress)
    seen = ArrayRows(others.given, others.weights)
    sums = _summed(seen, others, table, foundation, choices)
    levels = _solved(sums, choices.noise_scales, foundation.basis, progress)
    density = _density(foundation, levels, settings)
    comparison, errors = nothing_compared(), np.zeros(0)
    if judges is not None:
        comparison, errors = compare(
            density,
            judges.some(_JUDGES),
            others.some(_TRAINING),
            _DRAWS,
            np.random.default_rng(seeds.draws),
            gated=settings.gate,
        )
    tilted = comparison.wins if settings.gate else density.has_tilt
    if not tilted and not settings.keep_sums:
        choices = choices._replace(n_components=0)

    foundation = _with_base_of(rows, foundation, choices.search)
    walk = None
    if checkpoint is not None:
        walk = CheckpointedWalk(checkpoint, np.atleast_1d(np.asarray(seed.entropy)).tolist())
    sums = _summed(source, rows, table, foundation, choices, walk)
    if tilted and sums is not None:
        levels = _solved(sums, choices.noise_scales, foundation.basis, progress)
    else:
        levels, errors = no_levels(foundation.basis, choices.noise_scales), np.zeros(0)
    field = score_field(foundation.basis, foundation.base, levels)
    # Steps that were enough for the fit that was compared are enough for one so like it.
    density = replace(density, field=field) if tilted else _density(foundation, levels, settings)
    return DiffusionFit(
        density=density,
        levels=levels,
        features=choices.features,
        base_search=choices.search,
        marginals=choices.marginals,
        tie_gaps=table.gaps,
        health=_health(density, comparison, errors),
        sums=sums,
    )


def _health(
    density: FlowDensity, comparison: Comparison, errors: Float[np.ndarray, " n"]
) -> Health:
    flow = flow_quality(int(density.steps.sum()), density.tolerance, errors)
    return Health(density.has_tilt, comparison, flow=flow)


def _untilted(fit: DiffusionFit) -> DiffusionFit:
    """The base density alone, with the sums of the tilt that it could have."""
    density = fit.density.untilted()
    return fit._replace(
        density=density,
        levels=no_levels(density.field.basis, fit.levels.noise_scales),
        health=_health(density, fit.health.comparison, np.zeros(0)),
    )


def with_rows(
    fit: DiffusionFit, source: RowSource, sign: float, settings: DiffusionSettings
) -> DiffusionFit:
    """The fit with rows added, or taken away. Rows that are added judge it first."""
    sums = _sums_of(fit)
    if sign > 0 and settings.gate and sums.weight > 0:
        view: LevelView = sums.view  # type: ignore[assignment]
        some = replace(view.sketching, size=_JUDGES)
        sketch = source.total(some, some.combine, "rows to judge by")
        judges = Weighted(spread_ties(sketch.rows, sketch.keys, view.gaps), sketch.weights)
        density = _solved_again(fit, sums).density
        if density.has_tilt and len(judges.rows):
            comparison = compare_further(fit.health.comparison, density, judges)
            fit = fit._replace(health=fit.health._replace(comparison=comparison))
    changed = sums.added(source, sign)
    if sign < 0:
        require_rows_left(changed.weight, sums.weight)
        require_rows_seen(np.asarray(part.gram) for part in changed.parts.values())
    return with_sums(fit, changed, settings)


def with_sums(fit: DiffusionFit, sums: LevelSums, settings: DiffusionSettings) -> DiffusionFit:
    """The fit of other sums: the same coordinates, base density and functions."""
    require_rows_left(sums.weight, _sums_of(fit).weight)
    again = _solved_again(fit, sums)
    return again if again.health.comparison.wins or not settings.gate else _untilted(again)


def emptied(fit: DiffusionFit) -> DiffusionFit:
    """The fit with all choices made and no rows."""
    return _untilted(fit._replace(sums=_sums_of(fit).emptied()))


def _sums_of(fit: DiffusionFit) -> LevelSums:
    assert fit.sums is not None
    return fit.sums


def _solved_again(fit: DiffusionFit, sums: LevelSums) -> DiffusionFit:
    levels = _solved(sums, fit.levels.noise_scales, sums.summation.basis, Progress())
    field = score_field(sums.summation.basis, fit.density.field.base, levels)
    density = flow_density(fit.density.coordinates, field, fit.density.tolerance)
    health = _health(density, fit.health.comparison, np.zeros(0))
    if fit.health.flow is not None and density.has_tilt:
        health = health._replace(flow=fit.health.flow._replace(n_steps=int(density.steps.sum())))
    return fit._replace(density=density, levels=levels, health=health, sums=sums)


def _sketch_rows(sketch: Sketch, table: _Table) -> _Rows:
    spread = spread_ties(sketch.rows, sketch.keys, table.gaps)
    return _Rows(sketch.rows, spread, sketch.weights, table.folds.numbers(sketch.keys))


def _without_judges(rows: _Rows) -> tuple[_Rows | None, _Rows]:
    """The rows of one fold, and all others; all where there are too few to judge by."""
    if len(rows.weights) < _FEWEST_TO_JUDGE:
        return None, rows
    judging = rows.numbers == 0
    return rows.where(judging), rows.where(~judging)


def _choose(
    rows: _Rows,
    table: _Table,
    settings: DiffusionSettings,
    seeds: _Seeds,
    progress: Progress,
) -> tuple[_Choices, _Foundation]:
    """Everything that is open, by rows of the first fold that is there."""
    coordinates, marginals = choose_coordinates(
        rows.spread, rows.weights, rows.numbers, table.spread, settings.marginals, seeds.base
    )
    whitened = coordinates.forward(rows.spread)
    search = choose_average(whitened, rows.weights, rows.numbers, seeds.base, progress)
    average = fit_average(whitened, rows.weights, search, seeds.base)
    further = None
    if table.source is not None:
        view = Further(table.sketching, table.gaps, coordinates, table.last_key)
        further = stored_rows(table.source, view, progress)
        sketched = whitened, rows.weights, rows.numbers
        average, search = grown_by(further, average, search, *sketched, seeds.base, progress)
    base = smoothed_mixture(average.density(far=True))
    noise_range = settings.noise_range
    low, high = _noise_range(base) if isinstance(noise_range, str) else noise_range
    trial = Trial(whitened, rows.weights, rows.numbers, coordinates.root, base, (low, high))
    found = choose_frequencies(
        trial,
        settings.features,
        settings.n_components,
        np.random.default_rng(seeds.search),
        progress,
    )
    if isinstance(noise_range, str):
        high = found.highest
    noise_scales = np.geomspace(low, high, settings.n_levels)
    choices = _Choices(marginals, search, found.features, found.n_components, noise_scales)
    basis = _basis(choices, coordinates, seeds)
    return choices, _Foundation(coordinates, average, base, basis, further)


def _noise_range(base: SmoothedMixture) -> tuple[float, float]:
    """From well below the base's thin directions to where everything is a Gaussian."""
    deviations = np.sqrt(np.asarray(base.variances))
    shares = np.broadcast_to(np.exp(np.asarray(base.log_weights))[:, None], deviations.shape)
    order = np.argsort(deviations, axis=None)
    reached = np.cumsum(shares.ravel()[order]) / shares.sum()
    thin = deviations.ravel()[order][np.searchsorted(reached, _THIN)]
    return float(np.clip(_LOWEST_SHARE * thin, *_LOWEST_LIMITS)), _HIGHEST


def _with_base_of(rows: _Rows, foundation: _Foundation, search: AverageSearch) -> _Foundation:
    """The base density of more rows, in the same coordinates."""
    whitened = foundation.coordinates.forward(rows.spread)
    if foundation.further is None:
        average = refit_average(foundation.average, whitened, rows.weights, search)
    else:
        sources = [foundation.further, ArrayRows(whitened, rows.weights)]
        average = refitted_average(foundation.average, search, sources, _LAST_PASSES)
    return foundation._replace(average=average, base=smoothed_mixture(average.density(far=True)))


def _basis(choices: _Choices, coordinates: Coordinates, seeds: _Seeds) -> FourierBasis:
    generator = np.random.default_rng(seeds.features)
    return choices.features.build(max(choices.n_components, 1), coordinates.root, generator)


def _summed(
    source: RowSource,
    rows: _Rows,
    table: _Table,
    foundation: _Foundation,
    choices: _Choices,
    walk: CheckpointedWalk | None = None,
) -> LevelSums | None:
    """One pass over the rows, if there is to be a tilt."""
    if choices.n_components == 0:
        return None
    coordinates, _, base, basis, _ = foundation
    held_out = n_held_out(len(rows.weights))
    parts = fold_parts(rows.numbers, _N_FOLDS, held_out)
    view = LevelView(table.sketching, table.gaps, coordinates, table.folds, parts)
    copies = n_directions(len(rows.weights))
    summation = LevelSummation(basis, base, node_scales(choices.noise_scales), copies)
    return LevelSums({}, summation, view, held_out).added(source, 1.0, walk)


def _solved(
    sums: LevelSums | None,
    noise_scales: Float[np.ndarray, " l"],
    basis: FourierBasis,
    progress: Progress,
) -> Levels:
    """Every level's coefficients; none as long as some part has no rows to judge or fit by."""
    if sums is None:
        return no_levels(basis, noise_scales)
    parts = list(sums.parts.values())
    if min(float(part.weight) for part in parts) <= 1e-9 * sums.weight:
        return no_levels(basis, noise_scales)
    return solve_levels(basis, noise_scales, parts, sums.n_held_out, progress)


def _density(foundation: _Foundation, levels: Levels, settings: DiffusionSettings) -> FlowDensity:
    field = score_field(foundation.basis, foundation.base, levels)
    return flow_density(foundation.coordinates, field, settings.tolerance)
