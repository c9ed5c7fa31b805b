"""Sums over rows from which the tilt of p(y | x) is solved in closed form.

Score matching in the residual r alone, with Gaussian noise of scale σ on it: for the functions
φ(r, x) = b(r) ⊗ ψ(x) the loss hᵀβ + ½βᵀHβ has

    H = Σ_i w_i E[b'(r_i + σξ) b'(r_i + σξ)ᵀ] ⊗ ψ(x_i)ψ(x_i)ᵀ
    h = Σ_i w_i E[b''(r_i + σξ) + b'(r_i + σξ) (log q)'(r_i + σξ)] ⊗ ψ(x_i)

with expectations over ξ ~ N(0, 1) by Gauss–Hermite nodes: in one dimension they are as good as
closed form. Both are sums over rows, so blocks, streams and machines can be added up. H is summed
as products of pairs, Σ_i (w_i ψ_a ψ_b)(b'_c b'_d), which is one matrix product for a block.

| symbol | name      | shape          |
|--------|-----------|----------------|
| H      | quadratic | (m, m, k, k) as pairs (m(m+1)/2, k(k+1)/2) |
| h      | linear    | (m, k)         |
|        | weight    | the sum of w   |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.bell import bell_gradient
from kexpfam.features.residual import residual_functions

__all__ = ["ConditionalSums", "conditional_sums"]

_HERMITE_NODES = 7
_BLOCK = 1024


class ConditionalSums(NamedTuple):
    """H by pairs of functions, h, and the rows' weight."""

    quadratic: Float[np.ndarray, "mm kk"]
    linear: Float[np.ndarray, "m k"]
    weight: float

    def added(self, other: ConditionalSums) -> ConditionalSums:
        """The sums of both sets of rows."""
        return ConditionalSums(
            self.quadratic + other.quadratic,
            self.linear + other.linear,
            self.weight + other.weight,
        )

    def system(self) -> tuple[Float[np.ndarray, "b b"], Float[np.ndarray, " b"]]:
        """H and h per unit of weight, for the coefficients one row of A after the other."""
        m, k = self.linear.shape
        quadratic = np.zeros((m, m, k, k))
        rows, columns = np.triu_indices(m)
        firsts, seconds = np.triu_indices(k)
        for one, two in ((rows, columns), (columns, rows)):
            quadratic[one[:, None], two[:, None], firsts, seconds] = self.quadratic
            quadratic[one[:, None], two[:, None], seconds, firsts] = self.quadratic
        matrix = quadratic.transpose(0, 2, 1, 3).reshape(m * k, m * k)
        return matrix / self.weight, self.linear.ravel() / self.weight


def conditional_sums(
    inputs: Float[np.ndarray, "n m"],
    residuals: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    noise_scale: float,
) -> ConditionalSums:
    """The sums of some rows."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(_HERMITE_NODES)
    shares = shares / shares.sum()
    m, k = inputs.shape[1], residual_functions(residuals[:1]).shape[1]
    pairs, functions = np.triu_indices(m), np.triu_indices(k)
    quadratic, linear = np.zeros((len(pairs[0]), len(functions[0]))), np.zeros((m, k))
    for first in range(0, len(residuals), _BLOCK):
        part = slice(first, first + _BLOCK)
        noisy = residuals[part, None] + noise_scale * nodes
        slopes, bends = (residual_functions(noisy, order) for order in (1, 2))
        products = np.einsum("nhk,nhl,h->nkl", slopes, slopes, shares)[:, *functions]
        pulls = bends + slopes * bell_gradient(noisy)[0][..., None]
        weighed = inputs[part] * weights[part, None]
        linear += weighed.T @ np.einsum("nhk,h->nk", pulls, shares)
        quadratic += (weighed[:, pairs[0]] * inputs[part][:, pairs[1]]).T @ products
    return ConditionalSums(quadratic, linear, float(weights.sum()))
