"""The journey of a table into a ladder of noise levels.

    rows ─▶ marginals and whitening ─▶ base mixtures ─▶ frequencies ─▶ moments of all levels
                                                                             │
    log p, draws ◀─ flow through the levels ◀─ coefficients of each level ◀──┘

What is open is chosen on held-out rows: the marginal maps by the likelihood of a small mixture in
the user's units, the base's size and shrinkage by its own likelihood, frequencies (orders, range,
how many) by the denoising loss J of a few levels, summed as 2σ²J dt, which is the gain in
log-likelihood along the flow, and each level's penalty by that level's loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.averaged import AverageSearch, choose_average, fit_average, held_out_logs
from kexpfam.data.coordinates import Coordinates, fit_coordinates
from kexpfam.data.rows import RowSource
from kexpfam.data.sketch import Sketch, Sketching
from kexpfam.data.standardize import Standardizer, fit_standardizer
from kexpfam.data.ties import spread_ties, tied_gaps
from kexpfam.features.interactions import InteractionFeatures
from kexpfam.ladder.flow import ScoreField, score_field, steps_needed
from kexpfam.ladder.frequencies import Trial, choose_features
from kexpfam.ladder.levels import Levels, no_levels
from kexpfam.ladder.mixture import SmoothedMixture, smoothed_mixture
from kexpfam.ladder.moments import LadderSummation
from kexpfam.ladder.sums import (
    LadderSums,
    LadderView,
    fold_parts,
    ladder_folds,
    n_directions,
    n_held_out,
)
from kexpfam.moments import Checkpoint, CheckpointedWalk
from kexpfam.progress import Progress

__all__ = ["LadderFit", "LadderSettings", "fit_ladder"]

_SKETCH = 20_000
_FEWEST_ROWS = 4
_COORDINATE_ROWS = 4000
# The lowest noise is this share of the base's thin directions, within limits.
_LOWEST_SHARE, _LOWEST_LIMITS, _HIGHEST = 0.2, (0.003, 0.03), 3.0
_THIN = 0.02


@dataclass(frozen=True)
class LadderSettings:
    """What to fit; "auto" is chosen from the rows."""

    n_components: int | Literal["auto"]
    features: InteractionFeatures | Literal["auto"]
    marginals: Literal["auto", "gaussianize", "yeo_johnson"] | None
    n_levels: int
    noise_range: tuple[float, float] | Literal["auto"]
    tolerance: float


class LadderFit(NamedTuple):
    """A fitted ladder and what was chosen on the way."""

    coordinates: Coordinates
    field: ScoreField
    levels: Levels
    features: InteractionFeatures
    base: AverageSearch
    marginals: str | None
    gaps: Float[np.ndarray, " d"]
    n_steps: int
    sums: LadderSums | None


def fit_ladder(
    source: RowSource,
    settings: LadderSettings,
    seed: np.random.SeedSequence,
    progress: Progress,
    names: Any = None,
    checkpoint: Checkpoint | None = None,
) -> LadderFit:
    """Fit every level of the ladder to rows."""
    for_search, for_features, for_base = (np.random.default_rng(s) for s in seed.spawn(3))
    standardizer = fit_standardizer(source, names)
    sketching = Sketching(standardizer, int(seed.generate_state(1)[0]), _SKETCH)
    sketch = source.total(sketching, sketching.combine, "sketch")
    if len(sketch.rows) < _FEWEST_ROWS:
        raise ValueError(
            f"KernelDiffusion needs at least {_FEWEST_ROWS} distinct rows, since some are held "
            f"out; got {len(sketch.rows)}. Give more rows, or take KernelExponentialFamily."
        )
    gaps = tied_gaps(sketch.rows)
    sketch = sketch._replace(rows=spread_ties(sketch.rows, sketch.keys, gaps))
    folds = ladder_folds(sketch)
    numbers = folds.numbers(sketch.keys)
    base_seed = int(for_base.integers(2**31))
    coordinates, marginals = _choose_coordinates(
        sketch, numbers == 0, standardizer, settings, base_seed
    )
    whitened = coordinates.forward(sketch.rows)
    search = choose_average(whitened, sketch.weights, numbers == 0, base_seed, progress)
    base = smoothed_mixture(fit_average(whitened, sketch.weights, search, base_seed).density())
    noise_range = settings.noise_range
    if isinstance(noise_range, str):
        noise_range = _noise_range(base)
    trial = Trial(whitened, sketch.weights, numbers, coordinates.root, base, noise_range)
    features, n_components = choose_features(
        trial, settings.features, settings.n_components, for_search, progress
    )
    basis = features.build(max(n_components, 1), coordinates.root, for_features)
    noise_scales = np.geomspace(*noise_range, settings.n_levels)
    sums = None
    if n_components == 0:
        levels = no_levels(basis, noise_scales)
    else:
        held_out = n_held_out(len(sketch.rows))
        view = LadderView(sketching, gaps, coordinates, folds, fold_parts(numbers, held_out))
        summation = LadderSummation(basis, base, noise_scales, n_directions(len(sketch.rows)))
        walk = None
        if checkpoint is not None:
            entropy = np.atleast_1d(np.asarray(seed.entropy)).tolist()
            walk = CheckpointedWalk(checkpoint, entropy)
        sums = LadderSums({}, summation, view, held_out).added(source, 1.0, walk)
        levels = sums.solved(progress)
    field = score_field(basis, base, levels)
    n_steps = steps_needed(field, settings.tolerance)
    return LadderFit(coordinates, field, levels, features, search, marginals, gaps, n_steps, sums)


def _choose_coordinates(
    sketch: Sketch,
    held: np.ndarray,
    standardizer: Standardizer,
    settings: LadderSettings,
    seed: int,
) -> tuple[Coordinates, str | None]:
    """Marginal maps with the best held-out likelihood in the user's units."""
    kinds: tuple[Any, ...] = (settings.marginals,)
    if settings.marginals == "auto":
        kinds = (None, "yeo_johnson", "gaussianize")
    some = slice(0, _COORDINATE_ROWS)
    weights, judges = sketch.weights[some], held[some]
    shares = weights[judges] / weights[judges].sum()
    best: tuple[Coordinates, str | None] | None = None
    best_logs = np.array([])
    for kind in kinds:
        coordinates = fit_coordinates(sketch.rows, sketch.weights, held, standardizer, kind)
        if len(kinds) == 1:
            return coordinates, kind
        whitened = coordinates.forward(sketch.rows[some])
        logs = held_out_logs(whitened, weights, judges, seed)
        logs += coordinates.log_jacobian(sketch.rows[some][judges])
        if best is not None:
            gain = shares @ (logs - best_logs)
            error = np.sqrt(shares**2 @ (logs - best_logs - gain) ** 2)
        # A map with more to fit must be better beyond doubt.
        if best is None or gain > error:
            best, best_logs = (coordinates, kind), logs
    assert best is not None
    return best


def _noise_range(base: SmoothedMixture) -> tuple[float, float]:
    """From well below the base's thin directions to where everything is a Gaussian."""
    deviations = np.sqrt(np.asarray(base.variances))
    shares = np.broadcast_to(np.exp(np.asarray(base.log_weights))[:, None], deviations.shape)
    order = np.argsort(deviations, axis=None)
    reached = np.cumsum(shares.ravel()[order]) / shares.sum()
    thin = deviations.ravel()[order][np.searchsorted(reached, _THIN)]
    return float(np.clip(_LOWEST_SHARE * thin, *_LOWEST_LIMITS)), _HIGHEST
