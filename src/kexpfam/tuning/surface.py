"""Held-out losses over (noise scale, penalty) from the moments of K folds.

No data pass for a basis whose moments do not follow the noise, one per noise scale for others.

For every fold and noise scale σ: H_t(σ), h_t(σ) from the other folds' moments added up, one
eigendecomposition for all penalties λ, and the noise-free loss h_vᵀβ + ½βᵀH_vβ on the fold's own
moments. (Adding the other folds rather than subtracting one keeps every digit.) Beside it, the
gain in held-out log-likelihood over the base density, mean f − log Z with log Z from draws of q0,
on the sketch's rows of that fold.

| name         | shape     | at the base density |
|--------------|-----------|---------------------|
| noise_scales | (s,)      |                     |
| penalties    | (l,)      |                     |
| losses       | (s, l)    | 0; lower is better; NaN if the basis lacks two derivatives |
| gains        | (s, l)    | 0; higher is better |
| gain_errors  | (s, l)    | 0; of log Z, by its draws |
| fold_losses, fold_gains | (k, s, l) |          |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from kexpfam.base import BaseDraws
from kexpfam.features import Basis
from kexpfam.model import evaluate_blocks, evaluate_padded
from kexpfam.moments import MomentSource, total_moments
from kexpfam.noise import Noise
from kexpfam.precision import compiled
from kexpfam.progress import Progress
from kexpfam.solve import penalty_matrix_of, ridge_path, system_at

__all__ = ["HeldOutRows", "LossSurface", "loss_surface"]


class HeldOutRows(NamedTuple):
    """Rows with their folds, and draws of the base density, for held-out likelihoods."""

    rows: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    folds: Int[np.ndarray, " n"]
    draws: BaseDraws


class LossSurface(NamedTuple):
    """Held-out score matching losses and likelihood gains, relative to the base density."""

    noise_scales: Float[np.ndarray, " s"]
    penalties: Float[np.ndarray, " l"]
    losses: Float[np.ndarray, "s l"]
    gains: Float[np.ndarray, "s l"]
    gain_errors: Float[np.ndarray, "s l"]
    fold_losses: Float[np.ndarray, "k s l"]
    fold_gains: Float[np.ndarray, "k s l"]


@compiled
def _values_of_many(basis: Any, columns: Any, rows: Any) -> Any:
    """f at each row for each column of coefficients."""
    return jax.vmap(basis.values, in_axes=(1, None), out_axes=1)(columns, rows)


def loss_surface(
    basis: Basis,
    source: MomentSource,
    noise: Noise,
    noise_scales: Float[np.ndarray, " s"],
    penalties: Float[np.ndarray, " l"],
    held_out: HeldOutRows,
    progress: Progress,
) -> LossSurface:
    """Losses and gains of every setting, averaged over folds by their weight."""
    solutions: dict[int, list[np.ndarray]] = {}
    for noise_scale in progress.track(list(noise_scales), "cross-validating"):
        for number, columns in _fold_solutions(basis, source, noise, noise_scale, penalties):
            solutions.setdefault(number, []).append(columns)
    noise_free = source.at(0.0)
    figures = []
    for number, moments in noise_free.items():
        columns = np.concatenate(solutions[number], axis=1)
        quadratic, linear = system_at(basis, moments, noise, 0.0)
        curved = np.einsum("mc,mc->c", columns, quadratic @ columns)
        losses = linear @ columns + curved / 2
        if basis.n_derivatives < 2:
            losses = np.full_like(losses, np.nan)
        figures.append([losses, *_gains(basis, columns, held_out, number)])
    weights = np.array([float(moments.weight) for moments in noise_free.values()])
    by_fold = np.reshape(figures, (len(weights), 3, len(noise_scales), len(penalties)))
    losses, gains, errors = np.tensordot(weights / weights.sum(), by_fold, axes=1)
    return LossSurface(
        noise_scales=noise_scales,
        penalties=penalties,
        losses=losses,
        gains=gains,
        gain_errors=errors,
        fold_losses=by_fold[:, 0],
        fold_gains=by_fold[:, 1],
    )


def _fold_solutions(
    basis: Basis,
    source: MomentSource,
    noise: Noise,
    noise_scale: float,
    penalties: Float[np.ndarray, " l"],
) -> Iterator[tuple[int, Float[np.ndarray, "m l"]]]:
    """For each fold left out: β for every penalty, as columns."""
    folds = source.at(noise_scale)
    matrix = penalty_matrix_of(basis)
    for number in folds:
        others = total_moments([moments for name, moments in folds.items() if name != number])
        path = ridge_path(system_at(basis, others, noise, noise_scale), matrix)
        yield number, path.coefficients(penalties)


def _gains(
    basis: Basis, columns: Float[np.ndarray, "m c"], held_out: HeldOutRows, number: int
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]]:
    """Held-out gain in mean log-likelihood over the base density, and the error of its log Z."""

    def of_block(rows: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b c"]:
        return evaluate_padded(lambda rows: _values_of_many(basis, columns, rows), rows)

    members = held_out.folds == number
    if not members.any():  # a fold too small to have a row in the sketch
        return np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
    log_proportions = held_out.draws.log_proportions[:, None]
    log_weights = evaluate_blocks(of_block, held_out.draws.rows) + log_proportions
    log_normalizers = logsumexp(log_weights, axis=0)
    changes = np.exp(log_weights - log_normalizers) - np.exp(log_proportions)
    shares = held_out.weights[members] / held_out.weights[members].sum()
    gains = shares @ evaluate_blocks(of_block, held_out.rows[members]) - log_normalizers
    return gains, np.sqrt((changes**2).sum(axis=0))
