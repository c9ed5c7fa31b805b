"""The journey of a table into a ladder of noise levels.

    rows ─▶ marginals and whitening ─▶ base mixture ─▶ frequencies ─▶ moments of all levels
                                                                             │
    log p, draws ◀─ flow through the levels ◀─ coefficients of each level ◀──┘

What is open (the marginal transform, the mixture's size, the frequencies' range and orders, each
level's penalty) is chosen on held-out rows. Transform and mixture are chosen together by held-out
likelihood of the mixture; frequencies by the denoising loss summed over a few levels as σ²J dt, the
gain in log-likelihood along the flow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from kexpfam.data.coordinates import Coordinates, fit_coordinates
from kexpfam.data.sketch import Folds, Sketch, repeated_rows, row_keys, sketch_rows, split_folds
from kexpfam.data.standardize import fit_standardizer
from kexpfam.features import FourierBasis
from kexpfam.features.interactions import InteractionFeatures
from kexpfam.ladder.flow import ScoreField, score_field
from kexpfam.ladder.levels import Levels, solve_levels
from kexpfam.ladder.mixture import BaseSearch, SmoothedMixture, choose_mixture, fit_mixture
from kexpfam.ladder.moments import LadderMoments, ladder_moments
from kexpfam.progress import Progress

__all__ = ["LadderFit", "LadderSettings", "fit_ladder"]

_N_FOLDS = 8
_SKETCH = 20_000
_SEARCH_ROWS = 4000
_SEARCH_COMPONENTS = 512
_SEARCH_LEVELS = 6
_SHORTEST = (0.1, 0.2, 0.4, 0.8)
_ORDERS = ((1,), (1, 2), (1, 2, 3, 4))
_FEWEST_ROWS = 4
_FEW_ROWS = 5000


@dataclass(frozen=True)
class LadderSettings:
    """What to fit."""

    n_components: int
    features: InteractionFeatures | None
    marginals: str | None
    n_levels: int
    noise_range: tuple[float, float]


class _Folds:
    """Folds numbered such that the first one holds a row of the sketch."""

    def __init__(self, folds: Folds, sketch: Sketch) -> None:
        self._folds = folds
        self._first = folds.numbers(sketch.keys[:1])[0]

    def numbers(self, keys: UInt64[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return (self._folds.numbers(keys) - self._first) % self._folds.n_folds


class LadderFit(NamedTuple):
    """A fitted ladder and what was chosen on the way."""

    coordinates: Coordinates
    field: ScoreField
    levels: Levels
    features: InteractionFeatures
    base: BaseSearch


def fit_ladder(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    settings: LadderSettings,
    seed: np.random.SeedSequence,
    progress: Progress,
    names: Any = None,
) -> LadderFit:
    """Fit every level of the ladder to rows."""
    for_search, for_features, for_base = (np.random.default_rng(s) for s in seed.spawn(3))
    standardizer = fit_standardizer(rows, weights, names)
    keys = row_keys(standardizer.forward(rows), int(seed.generate_state(1)[0]))
    sketch = sketch_rows(rows, weights, keys, _SKETCH)
    if len(sketch.rows) < _FEWEST_ROWS:
        raise ValueError(
            f"A ladder of noise levels needs at least {_FEWEST_ROWS} distinct rows, since some "
            f"are held out; got {len(sketch.rows)}. Try KernelExponentialFamily."
        )
    folds = _Folds(split_folds(sketch.keys, _N_FOLDS), sketch)
    held = folds.numbers(sketch.keys) == 0
    mixture_seed = int(for_base.integers(2**31))
    coordinates, search = _choose_coordinates(sketch, held, standardizer, settings, mixture_seed)
    base = fit_mixture(coordinates.forward(repeated_rows(sketch)), search, mixture_seed)
    noise_scales = np.geomspace(*settings.noise_range, settings.n_levels)
    features = settings.features
    if features is None:
        features = _choose_features(
            coordinates, base, sketch, folds.numbers(sketch.keys), settings, for_search, progress
        )
    basis = features.build(settings.n_components, coordinates.root, for_features)
    held_out = _n_held_out(len(sketch.rows))
    whitened, numbers = coordinates.forward(rows), folds.numbers(keys)
    parts = _fold_moments(basis, base, noise_scales, whitened, weights, numbers, held_out)
    levels = solve_levels(basis, noise_scales, parts, held_out, progress)
    return LadderFit(coordinates, score_field(basis, base, levels), levels, features, search)


def _fold_moments(
    basis: FourierBasis,
    base: SmoothedMixture,
    noise_scales: Float[np.ndarray, " l"],
    whitened: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    numbers: Int[np.ndarray, " n"],
    n_held_out: int,
) -> list[LadderMoments]:
    """Moments of the folds that are held out, and of all others together."""
    numbers = np.minimum(numbers, n_held_out)
    kept = [number for number in range(n_held_out + 1) if weights[numbers == number].sum() > 0]
    return [
        ladder_moments(basis, base, noise_scales, whitened[side], weights[side])
        for side in (numbers == number for number in kept)
    ]


def _n_held_out(n_rows: int) -> int:
    """How many of the folds are held out in turn: more where rows are few and one fold is noisy."""
    return 4 if n_rows < _FEW_ROWS else 1


def _choose_coordinates(
    sketch: Sketch, held: np.ndarray, standardizer: Any, settings: LadderSettings, seed: int
) -> tuple[Coordinates, BaseSearch]:
    """Marginal transform and mixture with the best held-out likelihood in the user's units."""
    options = {"auto": (False, True), "yeo_johnson": (True,), None: (False,)}[settings.marginals]
    found = []
    for powers in options:
        coordinates = fit_coordinates(sketch.rows, sketch.weights, standardizer, powers)
        whitened = coordinates.forward(sketch.rows)
        search = choose_mixture(whitened[~held], whitened[held], seed)
        volume = coordinates.log_jacobian(sketch.rows[held]).mean()
        found.append((search.held_out + volume, coordinates, search))
    _, coordinates, search = max(found, key=lambda item: item[0])
    return coordinates, search


def _choose_features(
    coordinates: Coordinates,
    base: SmoothedMixture,
    sketch: Sketch,
    numbers: Int[np.ndarray, " k"],
    settings: LadderSettings,
    generator: np.random.Generator,
    progress: Progress,
) -> InteractionFeatures:
    """Range and orders of the frequencies, by what small bases gain along the flow."""
    n_columns = sketch.rows.shape[1]
    some = slice(0, _SEARCH_ROWS)
    whitened = coordinates.forward(sketch.rows[some])
    weights, numbers = sketch.weights[some], numbers[some]
    held_out = _n_held_out(len(whitened))
    noise_scales = np.geomspace(*settings.noise_range, _SEARCH_LEVELS)
    seed = int(generator.integers(2**31))
    orders = list(dict.fromkeys(tuple(o for o in option if o <= n_columns) for option in _ORDERS))

    def gain(features: InteractionFeatures) -> float:
        basis: FourierBasis = features.build(
            min(_SEARCH_COMPONENTS, settings.n_components),
            coordinates.root,
            np.random.default_rng(seed),
        )
        parts = _fold_moments(basis, base, noise_scales, whitened, weights, numbers, held_out)
        levels = solve_levels(basis, noise_scales, parts, held_out, Progress())
        return -float(np.minimum(levels.losses, 0) @ noise_scales**2)

    best, most = InteractionFeatures(), -1.0
    candidates = [InteractionFeatures(shortest=shortest) for shortest in _SHORTEST]
    for features in progress.track(candidates, "frequencies"):
        found = gain(features)
        if found > most:
            best, most = features, found
    for features in [replace(best, orders=option) for option in orders if option != best.orders]:
        found = gain(features)
        if found > most:
            best, most = features, found
    return best
