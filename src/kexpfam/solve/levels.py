"""Coefficients at every noise level, for a tilt that is right between the levels too.

Between neighboring levels the coefficients are straight lines in t = log σ: the tilt there is a
weighted mean of two functions, and since the denoising loss is convex, no worse than they are on
average. (A curve through each coefficient by itself is another matter. Functions that are nearly
dependent have large coefficients that cancel, and those of a monotone cubic do not: a rolled sheet
of 3500 rows lost ten nats between levels that were each better than the base density.)

At the highest level there is no tilt: the model there is the smoothed base density. From it down,
every level minimizes the loss over the stretch up to the level above, which is known by then. With
β = β_above + δ at the level and β_above + a_n δ at the nodes n of the stretch (the level itself,
a = 1, and halfway up, a = ½),

    Σ_n w_n J_n(β_above + a_n δ) + (λ/2)|δ|²,     Σ_n w_n J_n ≈ ∫ 2σ² J_σ dt,

a ridge system in δ. Weighted like this, a loss is the log-likelihood that the stretch costs along
the flow, in nats (Song et al. 2021). λ is the penalty with the lowest loss on held-out rows, added
up over the folds that are held out in turn. Where it is no better, a level keeps the tilt of the
one above (λ = ∞) or has none. What was chosen is then solved once more with all rows.

| symbol     | name         | shape     |
|------------|--------------|-----------|
| σ          | noise_scales | (l,)      |
| β          | coefficients | (l, m)    |
| λ          | penalties    | (l,)      |
| Σ w aᵏ H   | quadratics   | (3, m, m), for k = 0, 1, 2 |
| Σ w aᵏ h   | linears      | (2, m), for k = 0, 1 |
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kexpfam.exceptions import SingularSystemError
from kexpfam.features import FourierBasis
from kexpfam.moments.levels import LevelMoments, node_scales, node_system
from kexpfam.precision import compiled
from kexpfam.progress import Progress
from kexpfam.quadratic import QuadraticSystem
from kexpfam.solve.path import ridge_path
from kexpfam.solve.ridge import minimizer
from kexpfam.threads import one_blas_thread

__all__ = ["Levels", "no_levels", "solve_levels"]

_PENALTIES = 10.0 ** np.arange(-12.0, 3.0)
# How far up the stretch a node stands counts as δ: the level itself, and halfway.
_SHARES = np.array([1.0, 0.5])
# Simpson's rule over a stretch; its other end belongs to the level above.
_SIMPSON = np.array([1.0, 2.0]) / 3


class Levels(NamedTuple):
    """Coefficients of all levels, with how they were chosen.

    Losses are held-out, in nats of log-likelihood per row, relative to the base density; one for
    the stretch above each level, and zero for the highest.
    """

    noise_scales: Float[np.ndarray, " l"]
    coefficients: Float[np.ndarray, "l m"]
    penalties: Float[np.ndarray, " l"]
    losses: Float[np.ndarray, " l"]


class _Stretch(NamedTuple):
    """Sums over the nodes of a stretch, per unit of weight. They are linear in the moments."""

    quadratics: Float[Any, "three m m"]
    linears: Float[Any, "two m"]

    def about(self, above: Float[np.ndarray, " m"]) -> _Change:
        """The loss as a function of δ."""
        plain, once, twice = self.quadratics
        return _Change(
            float(self.linears[0] @ above + above @ plain @ above / 2),
            QuadraticSystem(twice, self.linears[1] + once @ above),
        )


class _Change(NamedTuple):
    """constant + hᵀδ + ½δᵀHδ."""

    constant: float
    system: QuadraticSystem

    def losses(self, changes: Float[np.ndarray, "m c"]) -> Float[np.ndarray, " c"]:
        """Losses of several δ, as columns."""
        quadratic, linear = self.system
        curved = (changes * (quadratic @ changes)).sum(axis=0)
        return self.constant + linear @ changes + curved / 2


class _Fold(NamedTuple):
    """A fit without a fold, and what that fold says of it, at one stretch."""

    above: Float[np.ndarray, " m"]
    train: _Change
    held_out: _Change


def solve_levels(
    basis: FourierBasis,
    noise_scales: Float[np.ndarray, " l"],
    parts: Sequence[LevelMoments],
    n_held_out: int,
    progress: Progress,
) -> Levels:
    """Solve from the highest noise down.

    The first `n_held_out` of the parts are held out in turn; all are fitted to in the end.
    """
    weights = np.array([float(part.weight) for part in parts])
    n_held_out = min(n_held_out, len(parts) - 1)
    shares = weights / weights.sum()
    counts = weights[:n_held_out] / weights[:n_held_out].sum()
    levels = no_levels(basis, noise_scales)
    # Threads of one reduction mostly wait for each other: each fold gets one of its own.
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        _solve_down(basis, levels, parts, shares, counts, pool, progress)
    return levels


def _solve_down(
    basis: FourierBasis,
    levels: Levels,
    parts: Sequence[LevelMoments],
    shares: Float[np.ndarray, " p"],
    counts: Float[np.ndarray, " k"],
    pool: Executor,
    progress: Progress,
) -> None:
    """Fill in levels, from the highest noise down."""
    noise_scales, n_held_out = levels.noise_scales, len(counts)
    # The tilt of the level above: of all rows, and without each of the folds.
    above = np.zeros((n_held_out + 1, basis.n_features))
    for number in progress.track(list(range(len(noise_scales) - 1))[::-1], "levels"):
        node_weights = _node_weights(noise_scales[number : number + 2])
        stretches = [_stretch(basis, part, number, noise_scales, node_weights) for part in parts]
        whole = _combined(stretches, shares)
        folds = [
            _Fold(
                above[held],
                _combined([whole, stretches[held]], np.array([1, -share]) / (1 - share)).about(
                    above[held]
                ),
                stretches[held].about(above[held]),
            )
            for held, share in enumerate(shares[:n_held_out])
        ]
        choice = _choose(folds, counts, pool)
        fits = [fold.train for fold in folds] + [whole.about(above[-1])]
        above = np.stack(list(pool.map(choice.solve, above, fits)))
        levels.coefficients[number] = above[-1]
        levels.penalties[number] = choice.penalty
        levels.losses[number] = choice.loss * node_weights.sum()


def no_levels(basis: FourierBasis, noise_scales: Float[np.ndarray, " l"]) -> Levels:
    """The base density alone."""
    count = len(noise_scales)
    return Levels(
        noise_scales, np.zeros((count, basis.n_features)), np.full(count, np.inf), np.zeros(count)
    )


def _node_weights(ends: Float[np.ndarray, " two"]) -> Float[np.ndarray, " n"]:
    """Weights of the nodes of ∫ 2σ² J dt over a stretch."""
    width = np.log(ends[1] / ends[0])
    return 2 * width * _SIMPSON * np.asarray(node_scales(ends)) ** 2


def _stretch(
    basis: FourierBasis,
    part: LevelMoments,
    number: int,
    noise_scales: Float[np.ndarray, " l"],
    node_weights: Float[np.ndarray, " n"],
) -> _Stretch:
    """The sums over the nodes between two levels, for some rows; weights add up to one."""
    nodes = slice(2 * number, 2 * number + 2)
    scales = node_scales(noise_scales)[nodes]
    return _summed(basis, part._replace(base_terms=part.base_terms[nodes]), scales, node_weights)


@compiled(tuned=False)
def _summed(basis: Any, part: LevelMoments, scales: Any, weights: Any) -> _Stretch:
    quadratics: Any = 0.0
    linears: Any = 0.0
    for scale, share, weight, base_term in zip(
        scales, _SHARES, weights / weights.sum(), part.base_terms, strict=True
    ):
        quadratic, linear = node_system(basis, part, scale, base_term)
        powers = weight * share ** np.arange(3)
        quadratics += powers[:, None, None] * quadratic
        linears += powers[:2, None] * linear
    return _Stretch(jnp.asarray(quadratics), jnp.asarray(linears))


def _combined(stretches: Sequence[_Stretch], shares: Float[np.ndarray, " k"]) -> _Stretch:
    quadratics: Any = np.zeros_like(stretches[0].quadratics)
    linears: Any = np.zeros_like(stretches[0].linears)
    for stretch, share in zip(stretches, shares, strict=True):
        quadratics += share * stretch.quadratics
        linears += share * stretch.linears
    return _Stretch(quadratics, linears)


class _Choice(NamedTuple):
    """A penalty and the held-out loss with it. A level may also have no tilt at all."""

    penalty: float
    loss: float
    has_tilt: bool = True

    def solve(self, above: Float[np.ndarray, " m"], fit: _Change) -> Float[np.ndarray, " m"]:
        """β of a level; with a larger penalty where the system is singular with the chosen one."""
        if not self.has_tilt:
            return np.zeros_like(above)
        for penalty in _PENALTIES[self.penalty <= _PENALTIES]:
            try:
                return above + minimizer(fit.system, penalty)
            except SingularSystemError:
                continue
        return above


def _choose(folds: Sequence[_Fold], counts: Float[np.ndarray, " k"], pool: Executor) -> _Choice:
    """The penalty with the lowest held-out loss, or the tilt above, or none."""

    def judged(fold: _Fold) -> Float[np.ndarray, " c"]:
        path = ridge_path(fold.train.system, _PENALTIES)
        kept, dropped = np.zeros_like(fold.above), -fold.above
        return fold.held_out.losses(np.column_stack([path, kept, dropped]))

    losses = counts @ np.stack(list(pool.map(judged, folds)))
    losses = np.where(np.isfinite(losses), losses, np.inf)
    choices = [
        *(_Choice(float(one), float(loss)) for one, loss in zip(_PENALTIES, losses, strict=False)),
        _Choice(float("inf"), float(losses[-2])),
        _Choice(float("inf"), float(losses[-1]), has_tilt=False),
    ]
    # Of equals the last: no tilt is the simplest.
    return min(reversed(choices), key=lambda one: one.loss)
