"""Functions ψ(x) of the inputs that a tilt of p(y | x) varies with.

    ψ(x) = (n(x) (1, x_1, …, x_d), k(x, P) W)   k = ⅓ Σ_t g(|x − x′|²_{tℓ}),   t = 1, 2, 4

Kernel sections at points, whitened by the eigenvectors of k(P, P), so that |A|² is the norm of the
tilt in the space of the product kernel k(r, r′) k(x, x′) (Arbel and Gretton 2018). The sum over
wider kernels lets the penalty prefer what changes slowly. The functions with the largest
eigenvalues are kept. Nearness n(x) = min(1, 3 max_p k(x, p)) is one where there are rows and zero
far outside, where all of ψ and with it the tilt vanishes: nothing is known about shapes there. On
the way, inputs are held at the edge of the data.

| symbol | name         | shape  |
|--------|--------------|--------|
| P      | points       | (p, d) |
| W      | whitening    | (p, q) |
| ℓ      | length_scale | (d,)   |
|        | low, high    | (d,), the box of the points |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.covariance import Kind, squared_distances

__all__ = ["WIDER", "InputFunctions", "input_functions"]

WIDER = (1.0, 2.0, 4.0)
# Of the largest eigenvalue; smaller ones are rounding.
_LEAST_EIGENVALUE = 1e-10
# Rows at a time: few enough that a block of kernel values stays in the processor's cache.
_BLOCK = 256


class InputFunctions(NamedTuple):
    """ψ, for standardized inputs."""

    kind: Kind
    length_scale: Float[np.ndarray, " d"]
    points: Float[np.ndarray, "p d"]
    whitening: Float[np.ndarray, "p q"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]

    @property
    def n_functions(self) -> int:
        """How many there are."""
        return 1 + len(self.length_scale) + self.whitening.shape[1]

    def __call__(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m"]:
        found = np.empty((len(rows), self.n_functions))
        n_plain = 1 + len(self.length_scale)
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            sections, near = self._near(rows[part])
            found[part, :1] = near
            found[part, 1:n_plain] = near * np.clip(rows[part], self.low, self.high)
            found[part, n_plain:] = sections @ self.whitening
        return found

    def combined(
        self, rows: Float[np.ndarray, "n d"], coefficients: Float[np.ndarray, "m k"]
    ) -> Float[np.ndarray, "n k"]:
        """Aᵀψ, without ψ itself: of whitened sections there are more than of combinations."""
        n_plain = 1 + len(self.length_scale)
        turned = self.whitening @ coefficients[n_plain:]
        found = np.empty((len(rows), coefficients.shape[1]))
        for start in range(0, len(rows), _BLOCK):
            some = rows[start : start + _BLOCK]
            sections, near = self._near(some)
            held = np.clip(some, self.low, self.high)
            plane = coefficients[0] + held @ coefficients[1:n_plain]
            found[start : start + _BLOCK] = near * plane + sections @ turned
        return found

    def _near(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n 1"]]:
        """k(x, P) and n(x)."""
        sections = _sections(self.kind, self.length_scale, rows, self.points)
        return sections, np.minimum(len(WIDER) * sections.max(axis=1, keepdims=True), 1.0)


def input_functions(
    kind: Kind,
    length_scale: Float[np.ndarray, " d"],
    points: Float[np.ndarray, "p d"],
    n_functions: int,
) -> InputFunctions:
    """Up to this many whitened sections at the points, beside the constant and the inputs."""
    gram = _sections(kind, length_scale, points, points)
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    kept = values > _LEAST_EIGENVALUE * values[-1]
    values, vectors = values[kept][::-1][:n_functions], vectors[:, kept][:, ::-1][:, :n_functions]
    # The sign of an eigenvector is arbitrary; the same rows shall give the same functions.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return InputFunctions(
        kind,
        length_scale,
        points,
        # In the order of memory that files keep, so that products are rounded alike.
        np.ascontiguousarray(vectors * signs / np.sqrt(values)),
        points.min(axis=0),
        points.max(axis=0),
    )


def _sections(
    kind: Kind,
    length_scale: Float[np.ndarray, " d"],
    rows: Float[np.ndarray, "n d"],
    points: Float[np.ndarray, "p d"],
) -> Float[np.ndarray, "n p"]:
    # One exponential: of a kernel half as wide it is a power of the wide one's.
    squares = squared_distances(rows, points, WIDER[-1] * length_scale)
    sections = np.zeros_like(squares)
    if kind == "rbf":
        squares *= -0.5
        values = np.exp(squares, out=squares)
        for _ in WIDER:
            sections += values
            values *= values
            values *= values
        return sections / len(WIDER)
    squares *= 5.0
    roots = np.sqrt(squares)
    decay = np.exp(-roots)
    for _ in WIDER:
        values = squares / 3
        values += roots
        values += 1.0
        values *= decay
        sections += values
        squares *= 4.0
        roots *= 2.0
        decay *= decay
    return sections / len(WIDER)
