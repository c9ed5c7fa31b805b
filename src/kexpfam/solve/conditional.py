"""The tilt of p(y | x): in closed form, or the likeliest one.

In closed form A = −(H + λI)⁻¹h with the sums of `kexpfam.moments.conditional`. The likeliest tilt
minimizes

    ℓ(A) = Σ_i w_i (log Z_i − b(r_i)ᵀAᵀψ(x_i)) + ½λ|A|²
    Z_i = Σ_q m_iq exp(b(n_q)ᵀAᵀψ(x_i))

with nodes n_q and the base density's masses m_iq, so that Z_i is the integral of the tilted base
density (see `kexpfam.model.conditional`). ℓ is smooth and convex; its derivative

    ∂ℓ/∂A = Σ_i w_i ψ(x_i) (E_i b − b(r_i))ᵀ + λA

is the difference of what the model expects of b and what the rows show. Minimized by L-BFGS over
a path of penalties from strong to weak, each starting where the last one ended, in coordinates
divided by the roots of the curvature's diagonal. With the same nodes and masses for all rows, the
curvature at A = 0 is a Kronecker product,

    ∂²ℓ/∂A² = (Σ_i w_i ψ(x_i)ψ(x_i)ᵀ) ⊗ cov b(n) + λI,

and diagonal in the eigenvectors V and U of its factors. As ψ has far more directions than the rows
fill, and functions b overlap, VᵀAU takes half as many steps as A; |A|² is the same.

| symbol | name         | shape  |
|--------|--------------|--------|
| A      | coefficients | (m, k) |
| ψ(x_i) | inputs       | (n, m) |
| b(r_i) | shown        | (n, k) |
| b(n_q) | at_nodes     | (q, k), or (n, q, k) where every row has nodes of its own |
| log m  | log_masses   | (n, q) or (1, q) |
| w      | weights      | (n,), of sum one |
| V      | input_axes   | (m, m) |
| U      | shown_axes   | (k, k) |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from kexpfam.logarithms import shares_of
from kexpfam.moments.conditional import ConditionalSums
from kexpfam.quadratic import QuadraticSystem
from kexpfam.solve.ridge import minimizer

__all__ = ["TiltProblem", "TurnedProblem", "closed_form_path", "likeliest_path"]


@dataclass(frozen=True)
class TiltProblem:
    """All that ℓ depends on but A.

    In single precision (`single`) values and derivatives take half of the time; each row's part is
    then rounded to seven digits, and their sum less.
    """

    inputs: Float[np.ndarray, "n m"]
    shown: Float[np.ndarray, "n k"]
    at_nodes: Float[np.ndarray, "*n q k"]
    log_masses: Float[np.ndarray, "one q"]
    weights: Float[np.ndarray, " n"]

    def single(self) -> TiltProblem:
        """The same in single precision."""
        inputs, shown, at_nodes, log_masses = (
            one.astype(np.float32)
            for one in (self.inputs, self.shown, self.at_nodes, self.log_masses)
        )
        return TiltProblem(inputs, shown, at_nodes, log_masses, self.weights)

    def where(self, chosen: Bool[np.ndarray, " n"]) -> TiltProblem:
        """The problem of some of the rows."""
        masses = self.log_masses if len(self.log_masses) == 1 else self.log_masses[chosen]
        weights = self.weights[chosen] / self.weights[chosen].sum()
        at_nodes = self.at_nodes if self.at_nodes.ndim == 2 else self.at_nodes[chosen]
        return TiltProblem(self.inputs[chosen], self.shown[chosen], at_nodes, masses, weights)

    def gains(self, coefficients: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " n"]:
        """What the tilt adds to each row's log density."""
        slopes = self.inputs @ coefficients
        log_normalizers, _ = self._normalized(slopes)
        return (slopes * self.shown).sum(axis=1) - log_normalizers

    @cached_property
    def _log_inside(self) -> Float[np.ndarray, " one"]:
        """Without bounds, masses sum to one; with bounds, to what the base density has inside."""
        return np.log(np.exp(self.log_masses.astype(float)).sum(axis=1))

    def _normalized(
        self, slopes: Float[np.ndarray, "n k"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n q"]]:
        """log Z, and the nodes' shares of it."""
        if self.at_nodes.ndim == 2:
            logs = slopes @ self.at_nodes.T
        else:
            logs = (self.at_nodes @ slopes[:, :, None])[:, :, 0]
        logs += self.log_masses
        top = logs.max(axis=1)
        logs -= top[:, None]
        shares = shares_of(logs)
        totals = shares.sum(axis=1)
        shares /= totals[:, None]
        return top + np.log(totals) - self._log_inside, shares

    def loss(
        self, coefficients: Float[np.ndarray, "m k"]
    ) -> tuple[float, Float[np.ndarray, "m k"]]:
        """ℓ without its penalty, and its derivative."""
        slopes = self.inputs @ coefficients.astype(self.inputs.dtype)
        log_normalizers, shares = self._normalized(slopes)
        value = self.weights @ (log_normalizers - (slopes * self.shown).sum(axis=1))
        if self.at_nodes.ndim == 2:
            expected = shares @ self.at_nodes
        else:
            expected = (shares[:, None, :] @ self.at_nodes)[:, 0]
        surprise = (expected - self.shown) * self.weights[:, None]
        derivative = self.inputs.T @ surprise.astype(self.inputs.dtype, copy=False)
        return float(value), derivative.astype(float, copy=False)

    def turned(self) -> TurnedProblem:
        """In coordinates with a diagonal second derivative at A = 0; for shared nodes alone."""
        at_nodes = self.at_nodes.astype(float)
        masses = np.exp(self.log_masses[0].astype(float))
        masses /= masses.sum()
        centered = at_nodes - masses @ at_nodes
        weighed = self.inputs * self.weights[:, None].astype(self.inputs.dtype)
        along, input_axes = np.linalg.eigh((weighed.T @ self.inputs).astype(float))
        across, shown_axes = np.linalg.eigh((centered * masses[:, None]).T @ centered)
        left, right = (axes.astype(self.inputs.dtype) for axes in (input_axes, shown_axes))
        problem = TiltProblem(
            self.inputs @ left,
            self.shown @ right,
            self.at_nodes @ right,
            self.log_masses,
            self.weights,
        )
        curvature = np.outer(np.maximum(along, 0.0), np.maximum(across, 0.0))
        return TurnedProblem(problem, input_axes, shown_axes, curvature)

    def curvature(self) -> Float[np.ndarray, "m k"]:
        """About the diagonal of the second derivative at A = 0."""
        masses = np.exp(self.log_masses)
        if self.at_nodes.ndim == 2:
            masses = masses.mean(axis=0)
        masses /= masses.sum()
        flat, shares = self.at_nodes.reshape(-1, self.shown.shape[1]), masses.ravel()
        mean = shares @ flat
        variances = shares @ (flat - mean) ** 2
        return np.outer(self.weights @ self.inputs**2, variances)


@dataclass(frozen=True)
class TurnedProblem:
    """The problem of VᵀAU, and the diagonal of its second derivative at A = 0."""

    problem: TiltProblem
    input_axes: Float[np.ndarray, "m m"]
    shown_axes: Float[np.ndarray, "k k"]
    curvature: Float[np.ndarray, "m k"]

    def path(
        self,
        penalties: Sequence[float],
        n_steps: int,
        start: Float[np.ndarray, "m k"] | None = None,
        least_gain: float = 1e-7,
    ) -> Iterator[Float[np.ndarray, "m k"]]:
        """The same as `likeliest_path`, with A as it was before it was turned."""
        if start is not None:
            start = self.input_axes.T @ start @ self.shown_axes
        path = _path(self.problem, self.curvature, penalties, n_steps, start, least_gain)
        return (self.input_axes @ found @ self.shown_axes.T for found in path)


def likeliest_path(
    problem: TiltProblem,
    penalties: Sequence[float],
    n_steps: int,
    start: Float[np.ndarray, "m k"] | None = None,
    least_gain: float = 1e-7,
) -> Iterator[Float[np.ndarray, "m k"]]:
    """A for one penalty after the other, from the strongest.

    A step that lowers ℓ by less than `least_gain` is the last.
    """
    return _path(problem, problem.curvature(), penalties, n_steps, start, least_gain)


def _path(
    problem: TiltProblem,
    curvature: Float[np.ndarray, "m k"],
    penalties: Sequence[float],
    n_steps: int,
    start: Float[np.ndarray, "m k"] | None,
    least_gain: float,
) -> Iterator[Float[np.ndarray, "m k"]]:
    """The path in units of the roots of some curvature."""
    shape = problem.inputs.shape[1], problem.shown.shape[1]
    coefficients = np.zeros(shape) if start is None else start
    for penalty in penalties:
        units = 1 / np.sqrt(curvature + penalty)

        def loss(
            flat: Float[np.ndarray, " mk"],
            units: Float[np.ndarray, "m k"] = units,
            penalty: float = penalty,
        ) -> tuple[float, Float[np.ndarray, " mk"]]:
            inner = units * flat.reshape(shape)
            value, derivative = problem.loss(inner)
            value += 0.5 * penalty * float((inner**2).sum())
            return value, (units * (derivative + penalty * inner)).ravel()

        found = minimize(
            loss,
            (coefficients / units).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": n_steps, "maxcor": 10, "gtol": 1e-5, "ftol": least_gain},
        )
        coefficients = units * found.x.reshape(shape)
        yield coefficients


def closed_form_path(
    sums: ConditionalSums, penalties: Sequence[float]
) -> Iterator[Float[np.ndarray, "m k"]]:
    """A for one penalty after the other, by one linear system each."""
    system = QuadraticSystem(*sums.system())  # type: ignore[arg-type]
    for penalty in penalties:
        yield minimizer(system, penalty).reshape(sums.linear.shape)
