"""Held-out losses over (noise scale, penalty) from the moments of K folds.

No data pass for a basis whose moments do not follow the noise, one per noise scale for others.

For every fold and noise scale σ: H_t(σ), h_t(σ) from the other folds' moments added up, one
reduction for all penalties λ, and the noise-free loss h_vᵀβ + ½βᵀH_vβ on the fold's own
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

import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kexpfam.base import BaseDraws
from kexpfam.data.blocks import cut, padded
from kexpfam.features import Basis
from kexpfam.moments import MomentSource, total_moments
from kexpfam.noise import Noise
from kexpfam.precision import compiled
from kexpfam.progress import Progress
from kexpfam.solve import penalty_matrix_of, ridge_path, system_at
from kexpfam.threads import one_blas_thread

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


class _Sums(NamedTuple):
    """Sums of p e^f, p² e^{2f} and p² e^f over draws with proportions p, about the largest f."""

    largest: Float[Any, " c"]
    first: Float[Any, " c"]
    second: Float[Any, " c"]
    mixed: Float[Any, " c"]


@compiled
def _sums_over_draws(basis: Any, columns: Any, rows: Any, proportions: Any) -> _Sums:
    values = _values_of_many(basis, columns, rows)
    largest = values.max(axis=0)
    raised = jnp.exp(values - largest)
    return _Sums(largest, proportions @ raised, proportions**2 @ raised**2, proportions**2 @ raised)


@compiled
def _weighted_values(basis: Any, columns: Any, rows: Any, shares: Any) -> Any:
    return shares @ _values_of_many(basis, columns, rows)


def _values_of_many(basis: Any, columns: Any, rows: Any) -> Any:
    """f at each row for each column of coefficients."""
    return basis.features(rows) @ columns


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
    # Threads of one decomposition mostly wait for each other: each fold gets one of its own.
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        started: dict[int, Future[np.ndarray]] = {}
        for noise_scale in progress.track(list(noise_scales), "cross-validating"):
            earlier = started
            started = _start_solutions(basis, source, noise, noise_scale, penalties, pool)
            _collect(solutions, earlier)
        _collect(solutions, started)
    noise_free = source.at(0.0)
    joined = [np.concatenate(solutions[number], axis=1) for number in noise_free]
    all_gains = _gains(basis, joined, held_out, list(noise_free))
    figures = []
    for moments, columns, gains in zip(noise_free.values(), joined, all_gains, strict=True):
        quadratic, linear = system_at(basis, moments, noise, 0.0)
        curved = np.einsum("mc,mc->c", columns, quadratic @ columns)
        losses = linear @ columns + curved / 2
        if basis.n_derivatives < 2:
            losses = np.full_like(losses, np.nan)
        figures.append([losses, *gains])
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


def _start_solutions(
    basis: Basis,
    source: MomentSource,
    noise: Noise,
    noise_scale: float,
    penalties: Float[np.ndarray, " l"],
    pool: Executor,
) -> dict[int, Future[np.ndarray]]:
    """For each fold left out: β for every penalty, as columns, in a while."""
    folds = source.at(noise_scale)
    matrix = penalty_matrix_of(basis)

    def without(number: int) -> Float[np.ndarray, "m l"]:
        others = total_moments([moments for name, moments in folds.items() if name != number])
        return ridge_path(system_at(basis, others, noise, noise_scale), penalties, matrix)

    return {number: pool.submit(without, number) for number in folds}


def _collect(solutions: dict[int, list[np.ndarray]], found: dict[int, Future[np.ndarray]]) -> None:
    for number, columns in found.items():
        solutions.setdefault(number, []).append(columns.result())


def _gains(
    basis: Basis,
    columns: list[Float[np.ndarray, "m c"]],
    held_out: HeldOutRows,
    numbers: list[int],
) -> Iterator[tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]]]:
    """For each fold, held-out gains in mean log-likelihood over the base density, with the errors
    of their log Z.
    """
    proportions = np.exp(held_out.draws.log_proportions)
    sums = _joined(basis, np.concatenate(columns, axis=1), held_out.draws.rows, proportions)
    log_normalizers = np.log(sums.first) + sums.largest
    # Of Σ (p e^f / Z − p)².
    normalizers = sums.first
    squares = sums.second / normalizers**2 - 2 * sums.mixed / normalizers
    errors = np.sqrt(np.maximum(squares + (proportions**2).sum(), 0.0))
    count = columns[0].shape[1]
    for place, (number, own) in enumerate(zip(numbers, columns, strict=True)):
        here = slice(place * count, (place + 1) * count)
        members = held_out.folds == number
        if not members.any():  # a fold too small to have a row in the sketch
            yield np.zeros(count), np.zeros(count)
            continue
        shares = held_out.weights[members] / held_out.weights[members].sum()
        means = sum(
            _weighted_values(basis, own, *block)
            for block in _blocks(held_out.rows[members], shares)
        )
        yield means - log_normalizers[here], errors[here]


def _blocks(rows: Float[np.ndarray, "n d"], shares: Float[np.ndarray, " n"]) -> Iterator[Any]:
    """Rows with their shares, padded to sizes that few others differ from."""
    for piece, size in cut(len(rows)):
        yield padded(rows[piece], size), padded(shares[piece], size)


def _joined(
    basis: Basis,
    columns: Float[np.ndarray, "m c"],
    rows: Float[np.ndarray, "n d"],
    proportions: Float[np.ndarray, " n"],
) -> _Sums:
    """The sums over all draws, about the largest of all."""
    parts = [_sums_over_draws(basis, columns, *block) for block in _blocks(rows, proportions)]
    largest = np.max([part.largest for part in parts], axis=0)
    factors = [np.exp(part.largest - largest) for part in parts]
    sums = [
        np.sum(
            [
                getattr(part, name) * factor**power
                for part, factor in zip(parts, factors, strict=True)
            ],
            axis=0,
        )
        for name, power in (("first", 1), ("second", 2), ("mixed", 1))
    ]
    return _Sums(largest, *sums)
