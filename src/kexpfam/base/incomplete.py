"""The likeliest Gaussian of rows with missing values, by expectation–maximization.

With the observed columns o of a row, P is the inverse of Σ_oo with zeros elsewhere, and

    E x = μ + Σ P (x − μ)          Cov x = Σ − Σ P Σ

are the row as it is expected, exact where it is known. Their sums give the next μ and Σ (Dempster,
Laird and Rubin 1977; Little and Rubin 2019, section 11.2). Where rows are few for their columns,
correlations are shrunk as if κ more rows had been seen, of columns that do not go together: as many
as make the values that are present in other rows likeliest.

| symbol | name       | shape     |
|--------|------------|-----------|
| x      | rows       | (n, w), NaN where missing |
| P      | precisions | (q, w, w), for each set of columns that are present together |
| μ      | mean       | (w,)      |
| Σ      | covariance | (w, w)    |
| κ      | pseudo_rows | ()       |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.average_search import ENOUGH_JUDGES, PSEUDO_ROWS, held_until
from kexpfam.base.ordered import OrderedMixture, patterns_of

__all__ = ["IncompleteGaussian", "choose_gaussian", "incomplete_gaussian"]

# Iterations at most, and a change of Σ, relative to its standard deviations, that ends them.
_MOST_ITERATIONS, _CONVERGED = 200, 1e-3
# Numbers in the precisions of all rows; of more rows, the first ones count.
_MOST_NUMBERS = 2_000_000
_FLOOR = 1e-6


class IncompleteGaussian(NamedTuple):
    """A mean, a covariance and the pseudo-rows in it."""

    mean: Float[np.ndarray, " w"]
    covariance: Float[np.ndarray, "w w"]
    pseudo_rows: float

    def mixture(self) -> OrderedMixture:
        """With one component."""
        return OrderedMixture(np.ones(1), self.mean[None], self.covariance[None])


def choose_gaussian(
    rows: Float[np.ndarray, "n w"], weights: Float[np.ndarray, " n"], folds: Int[np.ndarray, " n"]
) -> IncompleteGaussian:
    """With the pseudo-rows that suit the values that are present in held-out rows best."""
    choices = [factor * rows.shape[1] for factor in (*PSEUDO_ROWS[::-1], 0.0)]
    likelihoods = np.zeros(len(choices))
    for held in held_until(folds, ENOUGH_JUDGES):
        found = None
        some = np.flatnonzero(held)[:ENOUGH_JUDGES]
        for number, pseudo_rows in enumerate(choices):
            # From strong to weak, each going on from the one before.
            found = incomplete_gaussian(rows[~held], weights[~held], pseudo_rows, found)
            likelihoods[number] += weights[some] @ found.mixture().log_marginal(rows[some])
    return incomplete_gaussian(rows, weights, choices[int(np.argmax(likelihoods))])


def incomplete_gaussian(
    rows: Float[np.ndarray, "n w"],
    weights: Float[np.ndarray, " n"],
    pseudo_rows: float = 0.0,
    start: IncompleteGaussian | None = None,
) -> IncompleteGaussian:
    """μ and Σ, perhaps from a start."""
    n_columns = rows.shape[1]
    some = slice(0, max(2, _MOST_NUMBERS // n_columns**2))
    rows, shares = rows[some], weights[some] / weights[some].sum()
    there = ~np.isnan(rows)
    filled = np.where(there, rows, 0.0)
    masses = np.maximum(shares @ there, 1e-300)
    mean = shares @ filled / masses
    variances = shares @ np.where(there, (filled - mean) ** 2, 0.0) / masses + _FLOOR
    covariance = np.diag(variances)
    if start is not None:
        mean, covariance = start.mean, start.covariance
    # Without any, too little to matter but where rows are fewer than columns.
    least = min(0.5, 0.1 * (n_columns / len(rows)) ** 2)
    shrinkage = max(least, pseudo_rows / (float(1 / (shares**2).sum()) + pseudo_rows))
    patterns = _Patterns.of(there, shares)
    for _ in range(_MOST_ITERATIONS):
        before = covariance
        mean, covariance = _improved(filled, there, shares, patterns, mean, covariance)
        diagonal = np.diag(np.diag(covariance))
        covariance = (1 - shrinkage) * covariance + shrinkage * diagonal
        covariance += _FLOOR * np.diag(variances)
        roots = np.sqrt(np.diag(covariance))
        if np.abs((covariance - before) / np.outer(roots, roots)).max() < _CONVERGED:
            break
    return IncompleteGaussian(mean, covariance, pseudo_rows)


class _Patterns(NamedTuple):
    """Which columns are present together, which of these sets is a row's, and their shares."""

    there: Bool[np.ndarray, "q w"]
    places: Int[np.ndarray, " n"]
    shares: Float[np.ndarray, " q"]

    @classmethod
    def of(cls, there: Bool[np.ndarray, "n w"], shares: Float[np.ndarray, " n"]) -> _Patterns:
        each = list(patterns_of(there))
        places = np.empty(len(there), int)
        for number, (_, members) in enumerate(each):
            places[members] = number
        own = np.bincount(places, shares, minlength=len(each))
        return cls(np.stack([pattern for pattern, _ in each]), places, own)

    def precisions(self, covariance: Float[np.ndarray, "w w"]) -> Float[np.ndarray, "q w w"]:
        """P of each set of columns: rows that have the same share it."""
        pairs = self.there[:, :, None] & self.there[:, None, :]
        masked = np.where(pairs, covariance, 0.0)
        columns = np.arange(len(covariance))
        masked[:, columns, columns] += ~self.there
        return np.where(pairs, np.linalg.inv(masked), 0.0)


def _improved(
    filled: Float[np.ndarray, "n w"],
    there: Bool[np.ndarray, "n w"],
    shares: Float[np.ndarray, " n"],
    patterns: _Patterns,
    mean: Float[np.ndarray, " w"],
    covariance: Float[np.ndarray, "w w"],
) -> tuple[Float[np.ndarray, " w"], Float[np.ndarray, "w w"]]:
    """One iteration."""
    precisions = patterns.precisions(covariance)
    away = np.where(there, filled - mean, 0.0)
    pulls = (precisions[patterns.places] @ away[:, :, None])[:, :, 0]
    expected = np.where(there, filled, mean + pulls @ covariance)
    average = np.tensordot(patterns.shares, precisions, axes=1)
    left = covariance - covariance @ average @ covariance
    next_mean = shares @ expected
    centered = expected - next_mean
    found = (centered * shares[:, None]).T @ centered + left
    return next_mean, (found + found.T) / 2
