"""The score of the data at every noise level: one ridge solve for each.

At level σ the model's score is ∇f_σ + ∇log q_σ with f_σ = φᵀβ_σ and

    β_σ = −(H_σ + λ_σI)⁻¹ h_σ.

λ_σ is the penalty with the lowest denoising loss hᵀβ + ½βᵀHβ at that level on held-out rows, summed
over the folds that are held out in turn; where none is below zero, β_σ = 0 and the base alone
remains. The coefficients are then solved once more with all rows. Penalties change little from one
level to the next, so the search walks downhill from the last one.

| symbol | name         | shape   |
|--------|--------------|---------|
| σ      | noise_scales | (l,)    |
| β_σ    | coefficients | (l, m)  |
| λ_σ    | penalties    | (l,)    |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack

from kexpfam.features import FourierBasis, QuadraticSystem
from kexpfam.ladder.moments import LadderMoments, level_system
from kexpfam.progress import Progress

__all__ = ["Levels", "no_levels", "solve_levels"]

_PENALTIES = 10.0 ** np.arange(-12.0, 3.0)


class Levels(NamedTuple):
    """Coefficients of all levels, with how they were chosen.

    Losses are held-out means per unit of weight, relative to the base density.
    """

    noise_scales: Float[np.ndarray, " l"]
    coefficients: Float[np.ndarray, "l m"]
    penalties: Float[np.ndarray, " l"]
    losses: Float[np.ndarray, " l"]


def solve_levels(
    basis: FourierBasis,
    noise_scales: Float[np.ndarray, " l"],
    folds: Sequence[LadderMoments],
    n_held_out: int,
    progress: Progress,
) -> Levels:
    """Solve from the highest noise down, where the problem is easiest.

    The first `n_held_out` of the folds are held out in turn.
    """
    weights = np.array([float(fold.weight) for fold in folds])
    n_held_out = min(n_held_out, len(folds) - 1)
    shares = weights[:n_held_out] / weights[:n_held_out].sum()
    coefficients = np.zeros((len(noise_scales), basis.n_features))
    penalties, losses = np.full(len(noise_scales), np.inf), np.zeros(len(noise_scales))
    place = int(np.searchsorted(_PENALTIES, 1e-3))
    for number in progress.track(list(range(len(noise_scales)))[::-1], "levels"):
        # Systems are linear in the moments: those of the folds give all others.
        systems = [
            level_system(basis, fold, noise_scales[number], fold.base_terms[number])
            for fold in folds
        ]
        whole = _combined(systems, weights / weights.sum())
        pairs = [
            (_combined([whole, held], np.array([1.0, -share]) / (1 - share)), held)
            for held, share in zip(systems[:n_held_out], weights / weights.sum(), strict=False)
        ]
        place, losses[number] = _best_penalty(pairs, shares, place)
        if losses[number] < 0:
            penalties[number], coefficients[number] = _first_solution(whole, place)
    return Levels(noise_scales, coefficients, penalties, losses)


def no_levels(basis: FourierBasis, noise_scales: Float[np.ndarray, " l"]) -> Levels:
    """The base density alone."""
    count = len(noise_scales)
    return Levels(
        noise_scales, np.zeros((count, basis.n_features)), np.full(count, np.inf), np.zeros(count)
    )


def _combined(
    systems: Sequence[QuadraticSystem], shares: Float[np.ndarray, " k"]
) -> QuadraticSystem:
    quadratic: Any = np.zeros_like(systems[0].quadratic)
    linear: Any = np.zeros_like(systems[0].linear)
    for system, share in zip(systems, shares, strict=True):
        quadratic += share * system.quadratic
        linear += share * system.linear
    return QuadraticSystem(quadratic, linear)


def _first_solution(system: QuadraticSystem, place: int) -> tuple[float, Float[np.ndarray, " m"]]:
    """The solution for a penalty, or the next larger one with which the system is positive."""
    for penalty in _PENALTIES[place:]:
        solution = _ridge(system, float(penalty))
        if solution is not None:
            return float(penalty), solution
    return float("inf"), np.zeros_like(system.linear)


def _best_penalty(
    systems: Sequence[tuple[QuadraticSystem, QuadraticSystem]],
    shares: Float[np.ndarray, " k"],
    start: int,
) -> tuple[int, float]:
    """The place on the grid of the lowest held-out loss, by walking downhill from `start`."""
    known: dict[int, float] = {}

    def loss(place: int) -> float:
        if place not in known:
            losses = [_held_out_loss(*pair, _PENALTIES[place]) for pair in systems]
            known[place] = float(shares @ losses)
        return known[place]

    place = start
    while True:
        around = [p for p in (place - 1, place, place + 1) if 0 <= p < len(_PENALTIES)]
        best = min(around, key=loss)
        if best == place:
            return place, loss(place)
        place = best


def _held_out_loss(train: QuadraticSystem, held_out: QuadraticSystem, penalty: float) -> float:
    solution = _ridge(train, penalty)
    if solution is None:
        return float("inf")
    return float(held_out.linear @ solution + solution @ held_out.quadratic @ solution / 2)


def _ridge(system: QuadraticSystem, penalty: float) -> Float[np.ndarray, " m"] | None:
    matrix = np.array(system.quadratic, order="F")
    matrix[np.diag_indices_from(matrix)] += penalty
    _, solution, failed = lapack.dposv(matrix, system.linear, lower=True, overwrite_a=True)
    return None if failed else -solution
