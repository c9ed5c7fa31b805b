"""Functions of rows whose means are compared: of one column, of two columns, of whole rows.

All of them are chosen by the rows of both tables together, whatever table a row is in. Hence a
permutation of the tables' labels leaves them as they are, and the test is exact.

A number x in a column has its middle rank u ∈ (0, 1) among the values that are present, and

    L_1(u), …, L_6(u)                       Legendre's polynomials: location, spread, skewness, …
    log² u, log² (1 − u), log² (1 − v)      the lower tail, the upper tail, both,

with v the rank of the distance from the median. A category has the indicators of its levels, and
any column the indicator of a missing cell. With z = Φ⁻¹(u), the functions of a pair are products
such as z_i z_j, z_i (z_j² − 1) or z_i 1[x_j = a], less the best sum of a function of x_i and a
function of x_j:

    r = h_i h_j − (a(x_i) + b(x_j)),      (a, b) by least squares over the rows of both tables.

Where the ratio of the two densities is a(x_i) + b(x_j), as it is to first order where single
columns moved, r has the same mean in both tables: pairs are named that changed beyond their
columns. Residuals of a column given all others, and their squares, see small moves off a plane that
the rows lie near to. Beyond pairs there are products of the ranks of three columns, and for all
that is left cos and sin of w·z with frequencies w of whole rows: the differences of their means add
up to a kernel's distance between the tables (maximum mean discrepancy).

| symbol | name              | shape  |
|--------|-------------------|--------|
| x      | codes             | (N, d) |
| u, z   | ranks, quantiles  | (N,)   |
| L, 1[·]| values            | (N, k) |
| h      | factors           | (N, h) |
| r      | `interactions`    | (N, q) |
| w      | frequencies       | (m, D) |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial import legendre
from scipy.special import ndtri

from kexpfam.data.kinds import ColumnKind

__all__ = [
    "ColumnFunctions",
    "column_functions",
    "interactions",
    "residuals",
    "row_functions",
    "triples",
]

N_POLYNOMIALS = 6
# Levels whose indicators are multiplied with other columns' functions, and the shares of missing
# cells between which that is done for them.
_MOST_FACTORS, _RARELY = 4, 0.01
# A function that is nearly constant tells nothing, and would be divided by its spread.
_LEAST_SPREAD = 1e-9
# Of frequencies of whole rows, in units of the columns' standard deviations over the root of their
# number.
_KERNEL_SCALES = (0.5, 1.0)
_AT_A_TIME = 16
# Added to correlations of one, so that columns that follow from others do no harm.
_LEAST_PENALTY = 1e-4


class ColumnFunctions(NamedTuple):
    """Functions of one column, with mean zero and standard deviation one over both tables' rows.

    | name    | shape  | meaning                                                                 |
    |---------|--------|-------------------------------------------------------------------------|
    | values  | (N, k) | functions of the value, zero where it is missing                        |
    | missing | (N, 1) | whether the cell is empty; (N, 0) where all or none are                 |
    | factors | (N, h) | what is multiplied with other columns' factors                          |
    | coordinates | (N, c) | numbers, or levels 0 and 1, for functions of whole rows             |
    """

    values: Float[np.ndarray, "N k"]
    missing: Float[np.ndarray, "N m"]
    factors: Float[np.ndarray, "N h"]
    coordinates: Float[np.ndarray, "N c"]
    is_number: bool

    @property
    def additive(self) -> Float[np.ndarray, "N b"]:
        """What functions of this column alone are made of."""
        return np.concatenate([self.values, self.missing], axis=1)


def column_functions(column: Float[np.ndarray, " N"], kind: ColumnKind) -> ColumnFunctions:
    """The functions of a column of codes: NaN where a value is missing."""
    there = ~np.isnan(column)
    missing = _standardized((~there)[:, None].astype(float))
    found = _of_levels(column, there) if kind.is_category else _of_numbers(column, there)
    if _RARELY < there.mean() < 1 - _RARELY:
        found = found._replace(factors=np.concatenate([found.factors, missing], axis=1))
    return found._replace(missing=missing)


def _of_numbers(column: Float[np.ndarray, " N"], there: Bool[np.ndarray, " N"]) -> ColumnFunctions:
    values = np.zeros((len(column), N_POLYNOMIALS + 3))
    quantiles = np.zeros(len(column))
    if there.any():
        ranks = _middle_ranks(column[there])
        polynomials = legendre.legvander(2 * ranks - 1, N_POLYNOMIALS)[:, 1:]
        folded = _middle_ranks(np.abs(column[there] - np.median(column[there])))
        tails = [np.log(ranks) ** 2, np.log1p(-ranks) ** 2, np.log1p(-folded) ** 2]
        values[there] = np.column_stack([polynomials, *tails])
        values[there] -= values[there].mean(axis=0)
        quantiles[there] = ndtri(ranks)
    squares = np.where(
        there, quantiles**2 - (quantiles[there] ** 2).mean() if there.any() else 0, 0
    )
    factors = _standardized(np.stack([quantiles, squares], axis=1))
    return ColumnFunctions(
        _standardized(values, drop=False), factors[:, :0], factors, quantiles[:, None], True
    )


def _of_levels(column: Float[np.ndarray, " N"], there: Bool[np.ndarray, " N"]) -> ColumnFunctions:
    levels, counts = np.unique(column[there], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    indicators = (column[:, None] == levels[order]).astype(float)
    values = np.where(there[:, None], indicators - indicators[there].mean(axis=0), 0.0)
    # The indicators of all levels add up to one: the last says nothing new.
    factors = values[:, : min(len(levels) - 1, _MOST_FACTORS)]
    return ColumnFunctions(
        _standardized(values), values[:, :0], _standardized(factors), values, False
    )


def _middle_ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Ranks in (0, 1), the middle one for equal values."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts / 2) / len(values))[places]


def _standardized(values: Float[np.ndarray, "N k"], drop: bool = True) -> Float[np.ndarray, "N k"]:
    """Mean zero and standard deviation one; what is constant is dropped, or zero."""
    values = values - values.mean(axis=0)
    spread = values.std(axis=0)
    varies = spread > _LEAST_SPREAD
    values = values / np.where(varies, spread, 1.0) * varies
    return values[:, varies] if drop else values


def interactions(first: ColumnFunctions, second: ColumnFunctions) -> Float[np.ndarray, "N q"]:
    """Products of the columns' factors, less the best sum of functions of each column."""
    products = first.factors[:, :, None] * second.factors[:, None, :]
    products = products.reshape(len(products), -1)
    if not products.shape[1]:
        return products
    additive = np.concatenate([first.additive, second.additive], axis=1)
    gram = additive.T @ additive / len(additive)
    # The functions of a column can be dependent; a little penalty takes any of the best sums.
    gram[np.diag_indices_from(gram)] += 1e-6
    products -= products.mean(axis=0)
    before = products.std(axis=0)
    products -= additive @ np.linalg.solve(gram, additive.T @ products / len(additive))
    # What is a sum already (two copies of one category) has no interaction but rounding errors.
    return _standardized(products[:, products.std(axis=0) > 1e-3 * before])


def triples(
    columns: Sequence[ColumnFunctions], most: int, generator: np.random.Generator
) -> Iterator[Float[np.ndarray, "N t"]]:
    """Products of ranks (of a category: the indicator of its commonest level) of three columns.

    Of more than `most` triples some are drawn. Ranks are bounded, so that single rows do not
    decide. Some functions at a time, so that memory does not grow with their number.
    """
    firsts = [one.values[:, 0] for one in columns if one.values.shape[1]]
    if math.comb(len(firsts), 3) > most:
        drawn = (generator.choice(len(firsts), 3, replace=False) for _ in range(most))
        places = sorted({tuple(sorted(one.tolist())) for one in drawn})
    else:
        places = list(combinations(range(len(firsts)), 3))
    for start in range(0, len(places), _AT_A_TIME):
        some = places[start : start + _AT_A_TIME]
        products = np.column_stack([firsts[i] * firsts[j] * firsts[k] for i, j, k in some])
        yield _standardized(products)


def residuals(columns: Sequence[ColumnFunctions]) -> Float[np.ndarray, "N k"]:
    """What is left of each column's first factor given all other factors, and its square.

    With P the inverse of the factors' correlations, the residual of one in a linear regression on
    all others is (P h)_j / P_jj.
    """
    functions = np.concatenate([one.factors for one in columns], axis=1)
    n_rows, count = functions.shape
    counts = [one.factors.shape[1] for one in columns]
    firsts = [start for start, own in zip(np.cumsum([0, *counts]), counts, strict=False) if own]
    correlations = functions.T @ functions / n_rows
    correlations[np.diag_indices_from(correlations)] += _LEAST_PENALTY + 0.1 * count / n_rows
    left = _standardized(functions @ np.linalg.inv(correlations)[:, firsts])
    return np.concatenate([left, _standardized(left**2)], axis=1)


def row_functions(
    columns: Sequence[ColumnFunctions], n_frequencies: int, generator: np.random.Generator
) -> Iterator[Float[np.ndarray, "N m"]]:
    """cos and sin of frequencies of all columns: those of a Gaussian kernel around whole rows."""
    parts = [one.coordinates for one in columns if one.coordinates.shape[1]]
    if not parts:
        return
    coordinates = np.concatenate(parts, axis=1)
    coordinates = coordinates / np.maximum(coordinates.std(axis=0), _LEAST_SPREAD)
    # Levels of one category are one column: together they weigh as much as a number.
    sizes = np.repeat([part.shape[1] for part in parts], [part.shape[1] for part in parts])
    frequencies = generator.standard_normal((n_frequencies, len(sizes))) / np.sqrt(sizes)
    frequencies *= generator.choice(_KERNEL_SCALES, (n_frequencies, 1)) / np.sqrt(len(parts))
    for start in range(0, n_frequencies, _AT_A_TIME):
        angles = coordinates @ frequencies[start : start + _AT_A_TIME].T
        yield _standardized(np.concatenate([np.cos(angles), np.sin(angles)], axis=1))
