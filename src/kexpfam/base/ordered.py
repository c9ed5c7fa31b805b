"""All conditionals of a Gaussian mixture along an order of its columns, at once.

With Cholesky factors Σ_k = L_k L_kᵀ and z_k = L_k⁻¹(x − μ_k), the first j columns have the density

    log q(x_≤j) = logsumexp_k (log π_k − Σ_{i≤j} (z_ki²/2 + log L_kii + ½ log 2π)),

and column j given the ones before is a mixture on the line: components N(x_j − L_kjj z_kj, L_kjj²)
with the weights that the columns before give them. What is not there is integrated out: without
its covariances a column has no part in any other.

| symbol | name          | shape     |
|--------|---------------|-----------|
| π_k    | weights       | (k,)      |
| μ_k    | means         | (k, w)    |
| Σ_k    | covariances   | (k, w, w) |
| z      | residuals     | (n, w, k) |
| L_kjj  | deviations    | (w, k)    |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from kexpfam.base.mixture import Polynomials
from kexpfam.logarithms import log_sum_exp
from kexpfam.symmetric import form_coefficients
from kexpfam.unlocked import inverted_triangles

__all__ = [
    "BLOCK_NUMBERS",
    "LIVE_FROM",
    "Column",
    "Factors",
    "OrderedMixture",
    "Walked",
    "patterns_of",
    "surely_positive",
    "walk",
    "walk_to_last",
]

# Variances in units of the largest: what rounding takes from a covariance of a hundred columns.
_NARROWEST = 1e-13
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
# Numbers in the residuals of a block of rows: few enough to stay near the processor.
BLOCK_NUMBERS = 200_000
# The same where missing values are drawn.
_FILLED_NUMBERS = 8_000_000
# Fewer rows with holes in the same places are not worth factors with inverses.
_FEW_ALIKE = 8
# Larger than any sum of squared residuals.
_CORNER = 1e200
# Mixtures of this many components are walked with those that matter in a row (`kexpfam.base.live`).
LIVE_FROM = 1000


class Factors(NamedTuple):
    """What the conditionals are computed from: inverse Cholesky factors, column by column.

    `turns` holds L_k⁻¹ as (w, w, k): input, output, component. `polynomials` are log densities of
    components as sums of 1, x_i and x_i x_j (i ≤ j) in single precision, enough to compare them;
    None where components are few.
    """

    log_weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k w"]
    turns: Float[np.ndarray, "w w k"]
    shifts: Float[np.ndarray, "w k"]
    deviations: Float[np.ndarray, "w k"]
    polynomials: Float[np.ndarray, "p k"] | None

    def first(self, count: int) -> Factors:
        """Of the first columns, where components are few; their polynomials know all columns."""
        if count == len(self.deviations) or self.polynomials is not None:
            return self
        return self._replace(
            means=self.means[:, :count],
            turns=np.ascontiguousarray(self.turns[:count, :count]),
            shifts=self.shifts[:count],
            deviations=self.deviations[:count],
        )


class Column(NamedTuple):
    """A column in rows: log weights of components before it, residuals and standard deviations.

    Components may be others in every row.
    """

    log_weights: Float[np.ndarray, "n k"]
    residuals: Float[np.ndarray, "n k"]
    deviations: Float[np.ndarray, "*n k"]


class Walked(NamedTuple):
    """Rows along the columns, and the log density of each given the ones before."""

    columns: tuple[Column, ...]
    log_density: Float[np.ndarray, "n w"]


def surely_positive(covariances: Float[np.ndarray, "k w w"]) -> Float[np.ndarray, "k w w"]:
    """Covariances whose narrowest directions are wide enough for Cholesky's factors.

    Those of columns that nearly follow from others are positive in whitened coordinates; in the
    columns' own, rounding may make them negative.
    """
    variances, axes = np.linalg.eigh(covariances)
    least = _NARROWEST * variances[:, -1:]
    narrow = variances[:, 0] < least[:, 0]
    if not narrow.any():
        return covariances
    wider = np.maximum(variances, least)[narrow]
    found = covariances.copy()
    found[narrow] = np.einsum("kij,kj,klj->kil", axes[narrow], wider, axes[narrow])
    return found


class OrderedMixture(NamedTuple):
    """A Gaussian mixture whose columns have an order."""

    weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k w"]
    covariances: Float[np.ndarray, "k w w"]

    def in_order(self, order: Int[np.ndarray, " w"]) -> OrderedMixture:
        """The same with its columns in another order."""
        return OrderedMixture(
            self.weights, self.means[:, order], self.covariances[:, order][:, :, order]
        )

    def factors(self, there: Bool[np.ndarray, " w"]) -> Factors:
        """Factors of the columns present; the others are independent, with unit variance."""
        covariances = self.covariances * np.outer(there, there)
        places = np.flatnonzero(~there)
        covariances[:, places, places] = 1.0
        roots = np.linalg.cholesky(covariances)
        inverses = inverted_triangles(roots)
        means = np.where(there, self.means, 0.0)
        deviations = np.diagonal(roots, axis1=1, axis2=2).T.copy()
        polynomials = None
        if len(self.weights) >= LIVE_FROM:
            polynomials = _polynomials(np.log(self.weights), means, inverses, deviations)
        return Factors(
            np.log(self.weights),
            means,
            np.ascontiguousarray(inverses.transpose(2, 1, 0)),
            np.einsum("kji,ki->jk", inverses, means),
            deviations,
            polynomials,
        )

    def conditional_fill(
        self,
        rows: Float[np.ndarray, "n w"],
        uniform: Float[np.ndarray, " n"],
        normal: Float[np.ndarray, "n w"],
    ) -> Float[np.ndarray, "n w"]:
        """Rows with each NaN drawn given the values present, from uniform and normal numbers."""
        filled = rows.copy()
        # (rows, components, columns) numbers at a time.
        size = max(16, _FILLED_NUMBERS // self.means.size)
        for there, members in patterns_of(~np.isnan(rows)):
            if there.all():
                continue
            for start in range(0, len(members), size):
                some = members[start : start + size]
                filled[some] = self._filled(rows[some], there, uniform[some], normal[some])
        return filled

    def _filled(
        self,
        rows: Float[np.ndarray, "n w"],
        there: Bool[np.ndarray, " w"],
        uniform: Float[np.ndarray, " n"],
        normal: Float[np.ndarray, "n w"],
    ) -> Float[np.ndarray, "n w"]:
        known, open_ = np.flatnonzero(there), np.flatnonzero(~there)
        # What is known comes first, so that one factor gives weights, means and roots of the rest.
        order = np.concatenate([known, open_])
        roots = np.linalg.cholesky(self.covariances[:, order][:, :, order])
        n_known = len(known)
        head, cross, tail = (
            roots[:, :n_known, :n_known],
            roots[:, n_known:, :n_known],
            roots[:, n_known:, n_known:],
        )
        shifts = rows[:, None, known] - self.means[None, :, known]
        residuals = np.einsum("kij,nkj->nki", inverted_triangles(head), shifts, optimize=True)
        logs = np.log(self.weights) - (residuals**2).sum(axis=2) / 2
        logs = logs - np.log(np.diagonal(head, axis1=1, axis2=2)).sum(axis=1)
        chosen = _chosen(logs, uniform)
        own = np.arange(len(rows))
        means = self.means[chosen][:, open_]
        means = means + np.einsum("nij,nj->ni", cross[chosen], residuals[own, chosen])
        drawn = means + np.einsum("nij,nj->ni", tail[chosen], normal[:, open_])
        filled = rows.copy()
        filled[:, open_] = drawn
        return filled

    def log_marginal(self, rows: Float[np.ndarray, "n w"]) -> Float[np.ndarray, " n"]:
        """log density of the values that are present in each row."""
        logs = np.zeros(len(rows))
        size = max(16, BLOCK_NUMBERS // (rows.shape[1] * len(self.weights)))
        alone: list[Int[np.ndarray, " j"]] = []
        for there, members in patterns_of(~np.isnan(rows)):
            if len(members) < _FEW_ALIKE and not there.all():
                alone.append(members)
                continue
            factors = self.factors(there)
            for start in range(0, len(members), size):
                some = members[start : start + size]
                walked = walk(factors, np.where(there, rows[some], 0.0))
                logs[some] = walked.log_density[:, there].sum(axis=1)
        if alone:
            others = np.concatenate(alone)
            size = max(1, BLOCK_NUMBERS // ((rows.shape[1] + 1) ** 2 * len(self.weights)))
            for start in range(0, len(others), size):
                some = others[start : start + size]
                logs[some] = self._log_marginal_apart(rows[some])
        return logs

    def _log_marginal_apart(self, rows: Float[np.ndarray, "n w"]) -> Float[np.ndarray, " n"]:
        """The same for rows of which each has factors of its own, without their inverses.

        The last line of the Cholesky factor of Σ with x − μ as one more column, and anything large
        in the corner, is L⁻¹(x − μ).
        """
        there, n_columns = ~np.isnan(rows), rows.shape[1]
        away = np.where(there[:, None], rows[:, None] - self.means, 0.0)
        bordered = np.zeros((*away.shape, n_columns + 1))
        bordered = np.concatenate([bordered, bordered[:, :, :1]], axis=2)
        pairs = there[:, None, :, None] & there[:, None, None, :]
        bordered[:, :, :n_columns, :n_columns] = np.where(pairs, self.covariances, 0.0)
        places = np.arange(n_columns)
        bordered[:, :, places, places] += np.where(there, 0.0, 1.0)[:, None]
        bordered[:, :, n_columns, :n_columns] = away
        bordered[:, :, n_columns, n_columns] = _CORNER
        roots = np.linalg.cholesky(bordered)
        residuals = roots[:, :, n_columns, :n_columns]
        deviations = np.diagonal(roots, axis1=2, axis2=3)[:, :, :n_columns]
        logs = np.log(self.weights) - (residuals**2).sum(axis=2) / 2
        logs -= np.log(deviations).sum(axis=2)
        return log_sum_exp(logs, axis=1) - _HALF_LOG_TWO_PI * there.sum(axis=1)


def _polynomials(
    log_weights: Float[np.ndarray, " k"],
    means: Float[np.ndarray, "k w"],
    inverses: Float[np.ndarray, "k w w"],
    deviations: Float[np.ndarray, "w k"],
) -> Float[np.ndarray, "p k"]:
    precisions = inverses.transpose(0, 2, 1) @ inverses
    parts = Polynomials.of(log_weights, means, precisions, -2 * np.log(deviations).sum(axis=0))
    forms = -form_coefficients(parts.halves, len(deviations)) / 2
    both = np.concatenate([parts.constants[:, None], parts.pulls, forms], axis=1)
    return np.ascontiguousarray(both.T, np.float32)


def _chosen(logs: Float[np.ndarray, "n k"], uniform: Float[np.ndarray, " n"]) -> np.ndarray:
    """Components drawn by their log weights."""
    shares = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
    found = (uniform[:, None] * shares[:, -1:] > shares).sum(axis=1)
    return np.minimum(found, logs.shape[1] - 1)


def patterns_of(
    there: Bool[np.ndarray, "n w"],
) -> Iterator[tuple[Bool[np.ndarray, " w"], Int[np.ndarray, " j"]]]:
    """Which columns are present, and in which rows, for each such set."""
    if there.all():
        yield np.ones(there.shape[1], bool), np.arange(len(there))
        return
    # Whole numbers, one for eight columns, or for all of them: these are sorted fastest.
    numbers = np.packbits(there, axis=1)
    if numbers.shape[1] <= 8:
        numbers = np.pad(numbers, ((0, 0), (0, 8 - numbers.shape[1]))).view(">u8").astype(np.uint64)
    _, places = np.unique(numbers, axis=0 if numbers.shape[1] > 1 else None, return_inverse=True)
    order = np.argsort(places.ravel(), kind="stable")
    for members in np.split(order, np.cumsum(np.bincount(places.ravel()))[:-1]):
        yield there[members[0]], members


def walk(factors: Factors, rows: Float[np.ndarray, "n w"]) -> Walked:
    """Residuals, weights and log densities of all columns."""
    n_columns, n_components = factors.deviations.shape
    residuals = (rows @ factors.turns.reshape(n_columns, -1)).reshape(-1, n_columns, n_components)
    residuals -= factors.shifts
    logs = np.empty((len(rows), n_columns + 1, n_components))
    logs[:, 0] = factors.log_weights
    np.multiply(residuals, residuals, out=logs[:, 1:])
    logs[:, 1:] *= -0.5
    logs[:, 1:] -= np.log(factors.deviations) + _HALF_LOG_TWO_PI
    for column in range(n_columns):
        logs[:, column + 1] += logs[:, column]
    top = logs.max(axis=2)
    logs -= top[:, :, None]
    log_sums = np.log(np.exp(logs).sum(axis=2))
    logs -= log_sums[:, :, None]
    columns = (
        Column(logs[:, column], residuals[:, column], factors.deviations[column])
        for column in range(n_columns)
    )
    return Walked(tuple(columns), np.diff(top + log_sums, axis=1))


def walk_to_last(factors: Factors, rows: Float[np.ndarray, "n w"]) -> Column:
    """The last column alone."""
    n_columns, n_components = factors.deviations.shape
    residuals = (rows @ factors.turns.reshape(n_columns, -1)).reshape(-1, n_columns, n_components)
    residuals -= factors.shifts
    before = residuals[:, :-1]
    logs = factors.log_weights - np.log(factors.deviations[:-1]).sum(axis=0)
    logs = logs - 0.5 * np.einsum("nwk,nwk->nk", before, before)
    logs -= logs.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return Column(logs, residuals[:, -1], factors.deviations[-1])


def normal_numbers(uniform: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Normal numbers of uniform ones in [0, 1)."""
    return np.asarray(ndtri(np.clip(uniform, 1e-15, 1 - 1e-15)))
