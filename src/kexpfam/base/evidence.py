"""The evidence of a covariance's parameters, and the parameters with the highest one.

With K = k(X, X) + diag(σ²ν), the evidence (log marginal likelihood) of targets y and its derivative
in any parameter θ are

    L = −½ yᵀK⁻¹y − ½ log|K|          ∂L/∂θ = ½ tr(V ∂K/∂θ),   V = ααᵀ − K⁻¹,   α = K⁻¹y

(Rasmussen and Williams 2006, chapter 5). Everything is symmetric, and its upper half is enough: a
few lines at a time, from the diagonal on. Derivatives in all length-scales at once are one matrix
product, with W = V ∘ (−2g′) above the diagonal and columns divided by ℓ,

    Σ_{i<k} W_ik (x_ij − x_kj)² = Σ_i (W_i· + W_·i) x_ij² − 2 x_jᵀW x_j.

An evidence is computed some thirty times for every column of a chain. Its matrices are made once:
memory that is asked for anew takes as long as the arithmetic.

| symbol | name     | shape  |
|--------|----------|--------|
| x      | rows     | (n, d) |
| y      | targets  | (n,)   |
| ν      | relative | (n,), the noise of each row in units of σ² |
| θ      | logs     | (d + 3,), logarithms of ℓ, a², c², σ² |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from kexpfam.base.covariance import Covariance, Kind, bordered, from_logs, profile_of, to_logs
from kexpfam.unlocked import factored, invert_factored, solve_lower

__all__ = ["Evidence", "tune_covariance"]

# Log parameters stay in here; standardized inputs and targets need no more.
_LENGTH_LIMITS, _VARIANCE_LIMITS, _NOISE_LIMITS = (-3.0, 6.0), (-9.0, 6.0), (-14.0, 2.0)
# A weak pull of log length-scales toward log √d keeps those that the rows say nothing about.
_PULL = 1.0 / 8.0
# Lines that are worked on together: with fewer, threads wait for Python between operations.
_LINES = 160


class Evidence:
    """L and its derivative in θ, for one table of rows; −∞ where K is singular.

    The derivative may be found in single precision, which halves the time of its products: K⁻¹
    comes from the factor of K, whose condition is only the root of that of K.
    """

    def __init__(
        self,
        kind: Kind,
        rows: Float[np.ndarray, "n d"],
        targets: Float[np.ndarray, " n"],
        relative: Float[np.ndarray, " n"],
        *,
        single: bool = False,
    ) -> None:
        self.kind, self.rows, self.targets, self.relative = kind, rows, targets, relative
        size = len(rows)
        number = np.float32 if single else np.float64
        self._planes = rows @ rows.T / rows.shape[1]
        self._planes_own = self._planes.astype(number, copy=False)
        # Column by column in memory, as LAPACK reads them: their lower halves are the upper ones of
        # what is read line by line.
        self._matrix = np.empty((size, size), order="F")
        self._inverse = np.empty((size, size), number, order="F")
        self._profile = np.empty((size, size), number)
        self._slope = self._profile if kind == "rbf" else np.empty((size, size), number)
        lines = min(_LINES, size)
        self._pulls = np.empty((lines, size), number)
        self._above = np.triu(np.ones((lines, lines), number), 1)

    def __call__(self, logs: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        found = from_logs(self.kind, logs)
        self._fill(found)
        if not factored(self._matrix):
            return -np.inf, np.zeros(len(logs))
        turned = self.targets[:, None].copy()
        solve_lower(self._matrix, turned)
        spread = float((turned**2).sum())
        solve_lower(self._matrix, turned, turned=True)
        value = -0.5 * spread - np.log(self._matrix.diagonal()).sum()
        return float(value), self._derivative(found, turned[:, 0])

    def _parts(self) -> Iterator[tuple[slice, slice]]:
        """Some lines after the other, and the columns from their first one on."""
        size = len(self.rows)
        for first in range(0, size, _LINES):
            yield slice(first, min(first + _LINES, size)), slice(first, size)

    def _fill(self, found: Covariance) -> None:
        """K, g and −2g′ in the upper half."""
        left, right = bordered(self.rows, self.rows, found.length_scale)
        upper = self._matrix.T
        for lines, rest in self._parts():
            squares = left[lines] @ right[rest].T
            np.maximum(squares, 0.0, out=squares)
            profile, slope = profile_of(self.kind, squares)
            self._profile[lines, rest] = profile
            if self._slope is not self._profile:
                self._slope[lines, rest] = slope
            part = upper[lines, rest]
            np.multiply(self._planes[lines, rest], found.plane, out=part)
            profile *= found.smooth
            part += profile
            part += 1.0
        upper[np.diag_indices(len(upper))] += found.noise * self.relative

    def _derivative(
        self, found: Covariance, coefficients: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " p"]:
        """From α and the factor of K."""
        self._inverse[...] = self._matrix
        invert_factored(self._inverse)
        inverse, number = self._inverse.T, self._inverse.dtype
        own = coefficients**2 - inverse.diagonal()
        alpha = coefficients.astype(number)
        scaled = (self.rows / found.length_scale).astype(number)
        smooth, plane = 0.5 * own.sum(), 0.5 * own @ self._planes.diagonal()
        sums, products = np.zeros(len(alpha), number), np.empty_like(scaled)
        for lines, rest in self._parts():
            pulls = self._pulls[: lines.stop - lines.start, : rest.stop - rest.start]
            np.multiply(alpha[lines, None], alpha[rest], out=pulls)
            pulls -= inverse[lines, rest]
            pulls[:, : len(pulls)] *= self._above[: len(pulls), : len(pulls)]
            plane += float(np.vdot(pulls, self._planes_own[lines, rest]))
            smooth += float(np.vdot(pulls, self._profile[lines, rest]))
            pulls *= self._slope[lines, rest]
            sums[lines] += pulls.sum(axis=1)
            sums[rest] += pulls.sum(axis=0)
            products[lines] = pulls @ scaled[rest]
        lengths = sums @ scaled**2 - 2 * (scaled * products).sum(axis=0)
        noise = 0.5 * own @ self.relative
        parts = [found.smooth * smooth, found.plane * plane, found.noise * noise]
        return np.concatenate([found.smooth * lengths, np.array(parts)]).astype(float)


def tune_covariance(
    kind: Kind,
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    relative: Float[np.ndarray, " n"],
    start: Covariance | None = None,
    n_steps: int = 60,
    least_gain: float = 1e-9,
    *,
    single: bool = False,
) -> tuple[Covariance, float]:
    """The parameters with the highest evidence, by L-BFGS; and the evidence per row.

    A step that gains less than this number of nats a row is the last. Derivatives in single
    precision are enough unless that is very little.
    """
    n_rows, n_columns = rows.shape
    center = 0.5 * np.log(n_columns)
    if start is None:
        logs = np.concatenate([np.full(n_columns, center), np.log([1.0, 0.1, 0.1])])
    else:
        logs = to_logs(start)
    limits = [*([_LENGTH_LIMITS] * n_columns), _VARIANCE_LIMITS, _VARIANCE_LIMITS, _NOISE_LIMITS]
    value_and_derivative = Evidence(kind, rows, targets, relative, single=single)

    def loss(logs: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        value, derivative = value_and_derivative(logs)
        if not np.isfinite(value):
            return 1e10, np.zeros(len(logs))
        away = np.append(logs[:-3] - center, [0.0, 0.0, 0.0])
        value -= 0.5 * _PULL * float(away @ away)
        return -value / n_rows, (_PULL * away - derivative) / n_rows

    found = minimize(
        loss,
        logs,
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": n_steps, "ftol": least_gain},
    )
    return from_logs(kind, found.x), -float(found.fun)
