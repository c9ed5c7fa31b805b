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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from kexpfam.base.averaged import AverageSearch, choose_average, fit_average, held_out_logs
from kexpfam.data.blocks import padded
from kexpfam.data.coordinates import Coordinates, fit_coordinates
from kexpfam.data.rows import Chunk, RowSource
from kexpfam.data.sketch import Folds, Sketch, Sketching, split_folds
from kexpfam.data.standardize import Standardizer, fit_standardizer
from kexpfam.data.ties import spread_ties, tied_gaps
from kexpfam.features.interactions import InteractionFeatures
from kexpfam.ladder.flow import ScoreField, score_field, steps_needed
from kexpfam.ladder.levels import Levels, no_levels, solve_levels
from kexpfam.ladder.mixture import SmoothedMixture, smoothed_mixture
from kexpfam.ladder.moments import (
    LadderMoments,
    LadderSummation,
    PreparedBlock,
    prepared_blocks,
    sum_moments,
)
from kexpfam.moments import scale_moments
from kexpfam.progress import Progress

__all__ = ["LadderFit", "LadderSettings", "fit_ladder"]

_N_FOLDS = 5
_SKETCH = 20_000
_FEWEST_ROWS = 4
# Fewer rows than this: more folds are held out in turn and more noisy copies are drawn.
_FEW_ROWS = 5000
_COORDINATE_ROWS = 4000
# Rows times columns, within limits.
_SEARCH_NUMBERS, _SEARCH_ROWS = 100_000, (2500, 10_000)
_SEARCH_COMPONENTS = 512
_SEARCH_LEVELS = 5
_FREQUENCIES = (
    InteractionFeatures(orders=(1, 2, 3), along_axes=0.0),
    InteractionFeatures(orders=(2,), along_axes=0.0),
    InteractionFeatures(),
    InteractionFeatures(orders=(1, 2), shortest=0.1, along_axes=0.25),
)
# Where the first ones gain less than this, the others will not gain enough.
_FIRST, _HOPELESS = 2, 0.03
_SHORTER, _LONGER = (0.2, 0.1), (0.8,)
# How many functions are fitted unless told, and the nats a row that the search must gain by them:
# below, the base density is left alone, which is exact and many times faster.
_N_COMPONENTS, _WORTH_A_TILT = 1024, 0.1
# The lowest noise is this share of the base's thin directions, within limits.
_LOWEST_SHARE, _LOWEST_LIMITS, _HIGHEST = 0.2, (0.003, 0.03), 3.0
_THIN = 0.02
# Rows at which the flow's steps are tried.
_STEP_ROWS = 64


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


class LadderSums(NamedTuple):
    """Moments by part, with all that is needed to add more rows to them.

    The first `n_held_out` parts judge penalties, the others are fitted to.
    """

    parts: dict[int, LadderMoments]
    summation: LadderSummation
    view: Callable[[Chunk], Chunk]
    n_held_out: int

    def added(self, source: RowSource, sign: float) -> LadderSums:
        """Sums with the rows of a source added, or taken away."""
        more = source.mapped(self.view).total(self.summation, self.summation.combine, "moments")
        signed = {number: scale_moments(one, sign) for number, one in more.items()}
        return self._replace(parts=self.summation.combine(self.parts, signed))

    def solved(self, progress: Progress) -> Levels:
        """Every level's coefficients."""
        basis, noise_scales = self.summation.basis, self.summation.levels
        parts = list(self.parts.values())
        return solve_levels(basis, noise_scales, parts, self.n_held_out, progress)


class _Folds:
    """Folds numbered such that the first one holds a row of the sketch."""

    def __init__(self, folds: Folds, sketch: Sketch) -> None:
        self._folds = folds
        self._first = folds.numbers(sketch.keys[:1])[0]

    def numbers(self, keys: UInt64[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return (self._folds.numbers(keys) - self._first) % self._folds.n_folds


@dataclass(frozen=True)
class _View:
    """A function of chunks: rows spread over their ties and whitened, with their part."""

    sketching: Sketching
    gaps: Float[np.ndarray, " d"]
    coordinates: Coordinates
    folds: _Folds
    places: Int[np.ndarray, " f"]

    def __call__(self, chunk: Chunk) -> Chunk:
        keys = self.sketching.keys(chunk.rows)
        rows = spread_ties(chunk.rows, keys, self.gaps)
        labels = self.places[self.folds.numbers(keys)]
        return Chunk(self.coordinates.forward(rows), chunk.weights, labels)


def _places(numbers: Int[np.ndarray, " k"], n_held_out: int) -> Int[np.ndarray, " f"]:
    """The part that each fold goes to: one of those held out in turn, or all others together."""
    places = np.zeros(_N_FOLDS, int)
    for place, number in enumerate(np.unique(numbers)):
        places[number] = min(place, n_held_out)
    return places


class _Fitted(NamedTuple):
    """What the search for frequencies starts from."""

    coordinates: Coordinates
    base: SmoothedMixture
    noise_range: tuple[float, float]


def fit_ladder(
    source: RowSource,
    settings: LadderSettings,
    seed: np.random.SeedSequence,
    progress: Progress,
    names: Any = None,
) -> LadderFit:
    """Fit every level of the ladder to rows."""
    for_search, for_features, for_base = (np.random.default_rng(s) for s in seed.spawn(3))
    standardizer = fit_standardizer(source, names)
    sketching = Sketching(standardizer, int(seed.generate_state(1)[0]), _SKETCH)
    sketch = source.total(sketching, sketching.combine, "sketch")
    if len(sketch.rows) < _FEWEST_ROWS:
        raise ValueError(
            f"A ladder of noise levels needs at least {_FEWEST_ROWS} distinct rows, since some "
            f"are held out; got {len(sketch.rows)}. Try KernelExponentialFamily."
        )
    gaps = tied_gaps(sketch.rows)
    sketch = sketch._replace(rows=spread_ties(sketch.rows, sketch.keys, gaps))
    folds = _Folds(split_folds(sketch.keys, _N_FOLDS), sketch)
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
    fitted = _Fitted(coordinates, base, noise_range)
    features, n_components = _choose_features(
        fitted, sketch, numbers, settings, for_search, progress
    )
    basis = features.build(max(n_components, 1), coordinates.root, for_features)
    noise_scales = np.geomspace(*noise_range, settings.n_levels)
    sums = None
    if n_components == 0:
        levels = no_levels(basis, noise_scales)
    else:
        held_out = _n_held_out(len(sketch.rows))
        view = _View(sketching, gaps, coordinates, folds, _places(numbers, held_out))
        n_directions = _n_directions(len(sketch.rows))
        summation = LadderSummation(basis, base, noise_scales, n_directions)
        sums = LadderSums({}, summation, view, held_out).added(source, 1.0)
        levels = sums.solved(progress)
    field = score_field(basis, base, levels)
    n_steps = 0
    if levels.coefficients.any():
        n_steps = steps_needed(field, padded(whitened[:_STEP_ROWS], _STEP_ROWS), settings.tolerance)
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


def _n_held_out(n_rows: int) -> int:
    """How many of the folds are held out in turn: more where rows are few and one fold is noisy."""
    return 2 if n_rows < _FEW_ROWS else 1


def _n_directions(n_rows: int) -> int:
    """Noisy copies of each row, in pairs."""
    return 2 if n_rows < _FEW_ROWS else 1


def _prepared_folds(
    base: SmoothedMixture,
    noise_scales: Float[np.ndarray, " l"],
    whitened: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    numbers: Int[np.ndarray, " n"],
    n_held_out: int,
) -> Iterator[Iterator[PreparedBlock]]:
    """Blocks of each fold that is held out, and of all others together."""
    labels, n_directions = _places(numbers, n_held_out)[numbers], _n_directions(len(whitened))
    for part in np.unique(labels):
        rows, shares = whitened[labels == part], weights[labels == part]
        yield prepared_blocks(base, noise_scales, rows, shares, n_directions)


def _choose_features(
    fitted: _Fitted,
    sketch: Sketch,
    numbers: Int[np.ndarray, " k"],
    settings: LadderSettings,
    generator: np.random.Generator,
    progress: Progress,
) -> tuple[InteractionFeatures, int]:
    """Orders, range and number of the frequencies, by what small bases gain along the flow."""
    chosen, n_components = settings.features, settings.n_components
    if not isinstance(chosen, str) and not isinstance(n_components, str):
        return chosen, n_components
    some = slice(0, int(np.clip(_SEARCH_NUMBERS // sketch.rows.shape[1], *_SEARCH_ROWS)))
    whitened = fitted.coordinates.forward(sketch.rows[some])
    held_out = _n_held_out(len(whitened))
    noise_scales = np.geomspace(*fitted.noise_range, _SEARCH_LEVELS)
    step = np.log(noise_scales[1] / noise_scales[0])
    folds = [
        list(blocks)
        for blocks in _prepared_folds(
            fitted.base, noise_scales, whitened, sketch.weights[some], numbers[some], held_out
        )
    ]
    seed = int(generator.integers(2**31))
    count = min(
        _SEARCH_COMPONENTS, _N_COMPONENTS if isinstance(n_components, str) else n_components
    )

    def gain(features: InteractionFeatures) -> float:
        root, draws = fitted.coordinates.root, np.random.default_rng(seed)
        basis = features.build(count, root, draws)
        parts: list[LadderMoments] = [sum_moments(basis, blocks) for blocks in folds]
        levels = solve_levels(basis, noise_scales, parts, held_out, Progress())
        return -2 * step * float(np.minimum(levels.losses, 0) @ noise_scales**2)

    candidates = _FREQUENCIES if isinstance(chosen, str) else (chosen,)
    gains: list[float] = []
    for features in progress.track(candidates, "frequencies"):
        gains.append(gain(features))
        if len(gains) == _FIRST and max(gains) < _HOPELESS:
            break
    gained, best = max(gains), candidates[int(np.argmax(gains))]
    if isinstance(chosen, str) and gained > _WORTH_A_TILT:
        for direction in (_LONGER, _SHORTER):
            start = gained
            for shortest in direction:
                other = replace(best, shortest=shortest)
                found = gain(other)
                if found <= gained:
                    break
                gained, best = found, other
            if gained > start:
                break
    if isinstance(n_components, str):
        n_components = _N_COMPONENTS if gained > _WORTH_A_TILT else 0
    return best, n_components
