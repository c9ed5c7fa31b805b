"""Held-out losses over (noise scale, penalty) from the moments of K folds: no data pass.

For every fold and noise scale σ: H_t(σ), h_t(σ) from the other folds' moments added up, one
eigendecomposition for all penalties λ, and the noise-free loss h_vᵀβ + ½βᵀH_vβ on the fold's own
moments. (Adding the other folds rather than subtracting one keeps every digit.) Beside it, the
gain in held-out log-likelihood over the base density, mean f − log Z with log Z from draws of q0,
on the sketch's rows of that fold.

| name         | shape     | at the base density |
|--------------|-----------|---------------------|
| noise_scales | (s,)      |                     |
| penalties    | (l,)      |                     |
| losses       | (s, l)    | 0; lower is better  |
| gains        | (s, l)    | 0; higher is better |
| fold_losses, fold_gains | (k, s, l) |          |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from kexpfam.base import BaseDraws
from kexpfam.features import Basis
from kexpfam.model import evaluate_blocks, evaluate_padded
from kexpfam.moments import total_moments
from kexpfam.noise import Noise
from kexpfam.precision import compiled
from kexpfam.progress import Progress
from kexpfam.solve import ridge_path, system_at

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
    fold_losses: Float[np.ndarray, "k s l"]
    fold_gains: Float[np.ndarray, "k s l"]


@compiled
def _values_of_many(basis: Any, columns: Any, rows: Any) -> Any:
    """f at each row for each column of coefficients."""
    return jax.vmap(basis.values, in_axes=(1, None), out_axes=1)(columns, rows)


def loss_surface(
    basis: Basis,
    folds: Mapping[int, Any],
    noise: Noise,
    noise_scales: Float[np.ndarray, " s"],
    penalties: Float[np.ndarray, " l"],
    held_out: HeldOutRows,
    progress: Progress,
) -> LossSurface:
    """Losses and gains of every setting, averaged over folds by their weight."""
    shape = (len(folds), len(noise_scales), len(penalties))
    fold_losses, fold_gains = np.empty(shape), np.empty(shape)
    for k, number in enumerate(progress.track(list(folds), "cross-validating")):
        others = total_moments([moments for name, moments in folds.items() if name != number])
        quadratic, linear = system_at(basis, folds[number], noise, 0.0)
        columns = _solutions(basis, others, noise, noise_scales, penalties)
        curved = np.einsum("mc,mc->c", columns, quadratic @ columns)
        fold_losses[k] = (linear @ columns + curved / 2).reshape(shape[1:])
        fold_gains[k] = _gains(basis, columns, held_out, number).reshape(shape[1:])
    weights = np.array([float(moments.weight) for moments in folds.values()])
    shares = weights / weights.sum()
    return LossSurface(
        noise_scales=noise_scales,
        penalties=penalties,
        losses=np.tensordot(shares, fold_losses, axes=1),
        gains=np.tensordot(shares, fold_gains, axes=1),
        fold_losses=fold_losses,
        fold_gains=fold_gains,
    )


def _solutions(
    basis: Basis,
    moments: Any,
    noise: Noise,
    noise_scales: Float[np.ndarray, " s"],
    penalties: Float[np.ndarray, " l"],
) -> Float[np.ndarray, "m c"]:
    """β as columns, penalties varying fastest."""
    matrix = basis.penalty_matrix()
    paths = [ridge_path(system_at(basis, moments, noise, s), matrix) for s in noise_scales]
    return np.concatenate([path.coefficients(penalties) for path in paths], axis=1)


def _gains(
    basis: Basis, columns: Float[np.ndarray, "m c"], held_out: HeldOutRows, number: int
) -> Float[np.ndarray, " c"]:
    """Held-out gain in mean log-likelihood over the base density, for each column."""

    def of_block(rows: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b c"]:
        return evaluate_padded(lambda rows: _values_of_many(basis, columns, rows), rows)

    members = held_out.folds == number
    if not members.any():  # a fold too small to have a row in the sketch
        return np.zeros(columns.shape[1])
    draws = held_out.draws
    log_normalizers = logsumexp(
        evaluate_blocks(of_block, draws.rows) + draws.log_proportions[:, None], axis=0
    )
    shares = held_out.weights[members] / held_out.weights[members].sum()
    return shares @ evaluate_blocks(of_block, held_out.rows[members]) - log_normalizers
