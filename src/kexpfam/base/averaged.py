"""An average of Gaussian mixtures, each shrunk toward shared covariances.

    q0 = (1 − w) mean over starts s of Σ_k π_sk N(μ_sk, Σ_sk)  +  w N(0, wide² I)

A mixture with full covariances has more parameters than a table has rows for; those here share what
they have in common (see `kexpfam.base.shrunk`), and with many small components become a compressed
kernel density estimate. Mixtures of half, once and twice the chosen size from several starts are
averaged, which removes what is accidental in each; size and shrinkage are chosen by
`kexpfam.base.average_search`. One wide component of small weight w covers rows far from all others.
Rows are expected whitened, or nearly so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.clusters import Start
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.monomial_tables import MonomialTable
from kexpfam.base.shrunk import CONVERGED, improved_mixtures, mixture_path, nearly_converged
from kexpfam.logarithms import log_sum_exp

__all__ = [
    "N_AVERAGED",
    "ROWS_PER_COMPONENT",
    "STRONGEST",
    "Average",
    "AverageSearch",
    "averaged_sizes",
    "compared_starts",
    "fit_average",
    "held_out_logs",
    "log_densities_of",
    "n_starts",
    "refit_average",
]

N_AVERAGED = 16
# Rows a component needs at least.
ROWS_PER_COMPONENT = 8
# The strongest shrinkage.
STRONGEST = 60.0
# Mixtures that coordinates are compared by.
_N_COMPARED = 4
# Components of all mixtures together, and numbers in their covariances: every row meets them all.
_MOST_COMPONENTS, _MOST_NUMBERS = 512, 400_000
# Sizes that are averaged, as multiples of the chosen one.
_FACTORS = (1.0, 0.5, 2.0)
_WIDE, _WIDE_WEIGHT = 3.0, 3e-4
# Standard deviations for rows far out, and their weight together: about the tails of a power.
_FAR, _FAR_WEIGHT = (12.0, 48.0, 192.0, 768.0, 3072.0, 12288.0), 1e-4


class AverageSearch(NamedTuple):
    """Size and shrinkage of averaged mixtures, and the held-out likelihood foreseen for them.

    `error` is the standard error of a mean log density over as many rows as there are;
    `pseudo_rows` of a standard normal are added to every component.
    """

    n_components: int
    shrinkage: float
    held_out: float
    error: float
    pseudo_rows: float = 0.0


class Average(NamedTuple):
    """Mixtures of several sizes and starts."""

    mixtures: tuple[GaussianMixtureDensity, ...]

    def widened(self, factor: float) -> Average:
        """With standard deviations times a factor."""
        return Average(tuple(mixture.widened(factor) for mixture in self.mixtures))

    def density(self, *, far: bool = False) -> GaussianMixtureDensity:
        """All components together, and the wide one; with tails for rows far out, if asked."""
        count, n_columns = len(self.mixtures), self.mixtures[0].means.shape[1]
        scales, shares = np.array([_WIDE]), np.array([_WIDE_WEIGHT])
        if far:
            scales = np.append(scales, _FAR)
            shares = np.append(shares, np.full(len(_FAR), _FAR_WEIGHT / len(_FAR)))
        share = (1 - shares.sum()) / count
        wide = scales[:, None, None] ** 2 * np.eye(n_columns)
        centers = np.zeros((len(scales), n_columns))
        return GaussianMixtureDensity(
            np.concatenate([shares, *(share * one.weights for one in self.mixtures)]),
            np.concatenate([centers, *(one.means for one in self.mixtures)]),
            np.concatenate([wide, *(one.covariances for one in self.mixtures)]),
        )


def fit_average(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    search: AverageSearch,
    seed: int,
    n_averaged: int = N_AVERAGED,
    copies: int = 1,
    converged: float = CONVERGED,
) -> Average:
    """Several mixtures of about the chosen size, on all rows (or on copies, filled in anew).

    Steps end when they gain less than `converged`, in nats a row.
    """
    table = MonomialTable(rows, weights, search.pseudo_rows, copies)
    count = n_starts(search.n_components, rows.shape[1], n_averaged)
    sizes = averaged_sizes(search.n_components, count, table.n_rows)
    # Mixtures of one size side by side, as they are worked on together.
    each = sorted(Start(int(size), seed + number) for number, size in enumerate(sizes))
    return Average(tuple(next(mixture_path(table, each, [search.shrinkage], converged))))


def refit_average(
    average: Average,
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    search: AverageSearch,
    copies: int = 1,
) -> Average:
    """The same mixtures, improved with other rows."""
    table = MonomialTable(rows, weights, search.pseudo_rows, copies)
    return Average(tuple(improved_mixtures(average.mixtures, table, search.shrinkage)))


def n_starts(size: int, n_columns: int, n_averaged: int) -> int:
    """How many mixtures of a size are averaged."""
    most = min(_MOST_COMPONENTS, _MOST_NUMBERS // n_columns**2)
    return 1 if size == 1 else min(n_averaged, max(2, most // size))


def averaged_sizes(size: int, count: int, n_rows: int) -> Int[np.ndarray, " s"]:
    """Sizes of the mixtures that are averaged."""
    sizes = np.resize([factor * size for factor in _FACTORS], count)
    return np.clip(np.round(sizes), 1, max(1, n_rows // ROWS_PER_COMPONENT)).astype(int)


def held_out_logs(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    held: Bool[np.ndarray, " n"],
    seed: int,
) -> Float[np.ndarray, " k"]:
    """Held-out log densities of mixtures of middling size: enough to compare coordinates by.

    Averages of a few, since where a single one begins can make more of a difference than the
    coordinates.
    """
    table, enough = MonomialTable(rows[~held], weights[~held]), nearly_converged(rows.shape[1])
    mixtures = next(mixture_path(table, compared_starts(table.n_rows, seed), [STRONGEST], enough))
    each = np.stack([log_densities_of(mixture, rows[held]) for mixture in mixtures])
    return log_sum_exp(each, axis=0) - np.log(len(each))


def compared_starts(n_rows: int, seed: int) -> list[Start]:
    """Where the mixtures begin that coordinates are compared by."""
    size = max(1, min(8, n_rows // 20), min(32, n_rows // 80))
    return [Start(size, seed + number) for number in range(_N_COMPARED if size > 1 else 1)]


def log_densities_of(
    mixture: GaussianMixtureDensity, rows: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, " n"]:
    """Log densities of a mixture and of the wide component."""
    logs = log_sum_exp(mixture.component_log_densities(rows), axis=1)
    n_columns = rows.shape[1]
    wide = -(rows**2).sum(axis=1) / 2 / _WIDE**2 - n_columns * np.log(_WIDE * np.sqrt(2 * np.pi))
    return np.logaddexp(logs + np.log1p(-_WIDE_WEIGHT), wide + np.log(_WIDE_WEIGHT))
