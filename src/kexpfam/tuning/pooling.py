"""A Gaussian mixture of inputs and target beside the kernel's density: fitted, and its share.

    p(y | x) = (1 − w) p_kernel(y | x) + w p_mixture(y | x)

For every fold a mixture is fitted to the other rows, as the kernel's density was. The share is the
likeliest one for held-out rows; what it is worth is judged with shares that rows of other folds
chose, as a tilt is judged. Size and shrinkage of the mixtures are chosen once, without the rows of
the first fold.

| symbol | name  | meaning                            |
|--------|-------|------------------------------------|
| w      | share | of the mixture                     |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.average_search import choose_average
from kexpfam.base.averaged import AverageSearch, fit_average
from kexpfam.base.ordered import OrderedMixture, surely_positive
from kexpfam.base.target_mixture import LineMixtures, target_lines
from kexpfam.data.coordinates import whitening
from kexpfam.data.pairs import Pairs
from kexpfam.data.response import Response
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.health import beyond_doubt
from kexpfam.model.pooled_slices import log_mixture, log_pool, mixture_below
from kexpfam.progress import Progress
from kexpfam.threads import one_blas_thread
from kexpfam.tuning.gate import mean_and_error
from kexpfam.tuning.held_out import COVERAGE, Fold
from kexpfam.tuning.judging import Judged

__all__ = ["Pool", "choose_pool", "likeliest_share"]

# Folds that choose the size of the mixtures.
_N_FOLDS = 5
_SHARE_STEPS, _MOST = 100, 0.99
# Tried before the kernel's own, which was to cover without a mixture.
_STRETCHES = (0.85, 0.9, 0.95, 1.0)
# Fewer rows are not worth a mixture.
_FEWEST_ROWS = 50
_BLOCK = 256
# Mixtures that are averaged, in the end and to choose a share by.
_AVERAGED, _FOLD_AVERAGED = 16, 4


class Pool(NamedTuple):
    """A mixture of all rows and its share; log densities of held-out rows under the pool.

    `stretch` is the kernel's beside a mixture, where it can be smaller: a pool of two densities
    that cover as they should is too wide (Gneiting and Ranjan 2013).
    """

    mixture: OrderedMixture
    share: float
    stretch: float
    logs: Float[np.ndarray, " n"]


@one_blas_thread()
def choose_pool(
    rows: Pairs,
    folds: list[Fold],
    judged: Judged,
    densities: list[ConditionalDensity],
    kernel: Float[np.ndarray, " n"],
    seed: int,
    progress: Progress,
) -> Pool | None:
    """A mixture that held-out rows want beside the kernel's density, or None.

    `densities` are the kernel's for each fold, and `kernel` what they say of its rows.
    """
    response, bounds, turns = densities[0].response, densities[0].bounds, judged.turns
    if len(folds[0].others.y) < _FEWEST_ROWS:
        return None
    weights = np.concatenate([fold.judges.weights for fold in folds])
    search = _searched(folds[0].others, response, seed, progress)
    other: list[Float[np.ndarray, " n"]] = []
    mixtures = []
    for fold in folds:
        mixture = _fitted(fold.others, response, search, seed, _FOLD_AVERAGED)
        mixtures.append(mixture)
        other.append(_log_densities(mixture, fold.judges, response, bounds))
        if len(other) == 1 and not _promises(kernel[: len(other[0])], other[0]):
            return None
    logs = np.concatenate(other)
    pooled = np.empty_like(logs)
    for turn in np.unique(turns):
        mine = turns == turn
        others = ~mine if (~mine).any() else mine
        share = likeliest_share(kernel[others], logs[others], weights[others])
        pooled[mine] = log_pool(kernel[mine], logs[mine], share) if share > 0 else kernel[mine]
    gain, error = mean_and_error(pooled - kernel, weights)
    if not beyond_doubt(gain, error):
        return None
    share = likeliest_share(kernel, logs, weights)
    below = np.concatenate(
        [
            _below(mixture, fold.judges, response, bounds)
            for mixture, fold in zip(mixtures, folds, strict=True)
        ]
    )

    def kernel_below(stretch: float) -> Float[np.ndarray, " n"]:
        return np.concatenate(
            [
                replace(density, stretch=stretch).cdf(at, fold.judges.y)
                for density, at, fold in zip(densities, judged.at, folds, strict=True)
            ]
        )

    own = densities[0].stretch
    stretch = _narrowest_stretch(own, kernel_below, below, share, judged.weights)
    return Pool(_fitted(rows, response, search, seed, _AVERAGED), share, stretch, pooled)


def _narrowest_stretch(
    own: float,
    kernel_below: Callable[[float], Float[np.ndarray, " n"]],
    other_below: Float[np.ndarray, " n"],
    share: float,
    weights: Float[np.ndarray, " n"],
) -> float:
    """The smallest stretch with which nine tenths of the held-out rows are covered.

    Both say what mass is below each row, the kernel's density for a stretch.
    """
    wanted = COVERAGE * (1 + 1 / len(weights))
    for stretch in (stretch for stretch in _STRETCHES if stretch < own):
        below = (1 - share) * kernel_below(stretch) + share * other_below
        if np.average(np.abs(below - 0.5) <= COVERAGE / 2, weights=weights) >= wanted:
            return stretch
    return own


def _promises(kernel: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]) -> bool:
    """Whether the first rows that are held out would like a share at all."""
    share = likeliest_share(kernel, other, np.ones(len(kernel)))
    return share > 0 and beyond_doubt(
        *mean_and_error(log_pool(kernel, other, share) - kernel, np.ones(len(kernel)))
    )


def likeliest_share(
    kernel: Float[np.ndarray, " n"],
    other: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
) -> float:
    """The share of the other density with the largest likelihood, by expectation–maximization."""
    share = 0.5
    for _ in range(_SHARE_STEPS):
        with np.errstate(over="ignore"):
            odds = np.exp(np.minimum(kernel - other, 700.0)) * (1 - share) / share
        share = float(np.average(1 / (1 + odds), weights=weights))
        if share < 1e-6:
            return 0.0
    return min(share, _MOST)


def _searched(rows: Pairs, response: Response, seed: int, progress: Progress) -> AverageSearch:
    # Rows stand in the order of their keys.
    folds = np.arange(len(rows.y)) % _N_FOLDS
    whitened, _, _ = _whitened(rows, response, folds == 0)
    return choose_average(whitened, rows.weights, folds, seed, progress)


def _fitted(
    rows: Pairs, response: Response, search: AverageSearch, seed: int, n_averaged: int
) -> OrderedMixture:
    whitened, center, root = _whitened(rows, response, np.zeros(len(rows.y), bool))
    found = fit_average(whitened, rows.weights, search, seed, n_averaged).density()
    # A column that follows from others leaves no width in its direction but rounding.
    covariances = surely_positive(root @ found.covariances @ root.T)
    return OrderedMixture(found.weights, center + found.means @ root.T, covariances)


def _whitened(
    rows: Pairs, response: Response, held: Bool[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n w"], Float[np.ndarray, " w"], Float[np.ndarray, "w w"]]:
    """Inputs and target without their correlations; their center, and a root of the covariance."""
    table = np.column_stack([rows.inputs, response.forward(rows.y)])
    center, root = whitening(table, rows.weights, held)
    return np.linalg.solve(root, (table - center).T).T, center, root


def _log_densities(
    mixture: OrderedMixture, rows: Pairs, response: Response, bounds: tuple[float, float]
) -> Float[np.ndarray, " n"]:
    """log p(y | x) of the mixture between the bounds."""
    blocks = _blocks(mixture, rows)
    return np.concatenate([log_mixture(lines, response, y, bounds) for lines, y in blocks])


def _below(
    mixture: OrderedMixture, rows: Pairs, response: Response, bounds: tuple[float, float]
) -> Float[np.ndarray, " n"]:
    """The mass of the mixture below the targets, between the bounds."""
    blocks = _blocks(mixture, rows)
    return np.concatenate(
        [mixture_below(lines, response, y[:, None], bounds)[:, 0] for lines, y in blocks]
    )


def _blocks(
    mixture: OrderedMixture, rows: Pairs
) -> Iterator[tuple[LineMixtures, Float[np.ndarray, " n"]]]:
    lines = target_lines(mixture)
    for first in range(0, len(rows.y), _BLOCK):
        some = rows.where(slice(first, first + _BLOCK))
        yield lines.at(some.inputs), some.y
