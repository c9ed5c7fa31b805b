"""Derivatives of the speed of a flow by the place of its rows, in closed form.

With s = ∇log q_σ, up to the factor −σ² rows move at F = ∇f + s and gain at G = Δf + ∇f·s. For a
matrix S of each row, and writing T:S for Σ_jk T_ijk S_jk,

    DF = ∇²f + ∇²log q                       D²F:S = ∇³f:S + ∇³log q:S
    ∇G = ∇Δf + ∇²f s + ∇²log q ∇f
    tr S∇²G = tr S∇²Δf + (∇³f:S)·s + 2 tr(∇²f S ∇²log q) + (∇³log q:S)·∇f.

A mixture's scores around their mean, e_k = s_k − s, give both of its derivatives:

    ∇²log q = Σ_k r_k (e_k e_kᵀ − P_k)
    ∇³log q:S = Σ_k r_k [(e_kᵀS e_k − tr S P_k) e_k − 2 P_k S e_k].

| symbol | name         | shape     |
|--------|--------------|-----------|
| S      | spread       | (n, d, d), symmetric, or None: nothing that needs it is found |
| r_k    | shares       | (n, k)    |
| √r_k e_k | deviations | (n, d, k) |
| P_k    | precisions   | (d, d, k) |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kexpfam.base.smoothed import MixtureScore
from kexpfam.features import FourierBasis
from kexpfam.model.score_field import Instant
from kexpfam.symmetric import form_coefficients, half_places, upper_half

__all__ = ["SpeedDerivatives", "speed_derivatives"]

# Rows whose deviations are held at a time, so that they stay near the processor.
_TOGETHER = 32


class SpeedDerivatives(NamedTuple):
    """Speeds of rows and gains and their derivatives.

    `bend` (n, d) and `gain_curvature` (n,) are those with a spread, or None without one.
    """

    speed: Float[Array, "n d"]
    jacobian: Float[Array, "n d d"]
    bend: Any
    gain: Float[Array, " n"]
    gain_gradient: Float[Array, "n d"]
    gain_curvature: Any


def speed_derivatives(
    basis: FourierBasis,
    instant: Instant,
    rows: Float[Any, "n d"],
    spread: Float[Any, "n d d"] | None,
) -> SpeedDerivatives:
    """Derivatives of the flow of a tilt with this basis at one time."""
    tilt = _tilt_derivatives(basis, instant.coefficients, rows, spread)
    base = _mixture_derivatives(instant.mixture, rows, spread)
    factor = -instant.variance
    bend = curvature = None
    if tilt.bend is not None and base.bend is not None:
        both = jnp.einsum("nij,njk,nki->n", tilt.hessian, spread, base.hessian)
        crossed = (tilt.bend * base.gradient).sum(axis=1) + (base.bend * tilt.gradient).sum(axis=1)
        bend = factor * (tilt.bend + base.bend)
        curvature = factor * (tilt.laplacian_curvature + crossed + 2 * both)
    return SpeedDerivatives(
        factor * (tilt.gradient + base.gradient),
        factor * (tilt.hessian + base.hessian),
        bend,
        factor * (tilt.laplacian + (tilt.gradient * base.gradient).sum(axis=1)),
        factor
        * (
            tilt.laplacian_gradient
            + _times(tilt.hessian, base.gradient)
            + _times(base.hessian, tilt.gradient)
        ),
        curvature,
    )


def _times(matrices: Float[Any, "n d d"], vectors: Float[Any, "n d"]) -> Float[Array, "n d"]:
    # As a sum of products: XLA's product of many small matrices is slow on a CPU.
    return (matrices * vectors[:, None, :]).sum(axis=2)


def _unfolded(halves: Float[Any, "n p"], n_columns: int) -> Float[Array, "n d d"]:
    return halves[:, half_places(n_columns)]


def _counted(spread: Float[Any, "n d d"]) -> Float[Array, "n p"]:
    """What the upper half of a symmetric matrix P is multiplied with for tr SP."""
    return form_coefficients(upper_half(spread), spread.shape[1])


class _Tilt(NamedTuple):
    """∇f, ∇²f, ∇³f:S, Δf, ∇Δf and tr S∇²Δf."""

    gradient: Float[Array, "n d"]
    hessian: Float[Array, "n d d"]
    bend: Float[Array, "n d"] | None
    laplacian: Float[Array, " n"]
    laplacian_gradient: Float[Array, "n d"]
    laplacian_curvature: Any


def _tilt_derivatives(
    basis: FourierBasis, coefficients: Any, rows: Any, spread: Any | None
) -> _Tilt:
    """Every derivative multiplies a cosine or sine by another column of its frequency."""
    even, odd = basis.terms(coefficients, rows)
    frequencies = jnp.asarray(basis.frequencies)
    products = upper_half(frequencies[:, :, None] * frequencies[:, None, :])
    squares = (frequencies**2).sum(axis=1)
    bend = curvature = None
    if spread is not None:
        along = products @ _counted(spread).T
        bend = -(odd * along).T @ frequencies
        curvature = squares @ (even * along)
    return _Tilt(
        odd.T @ frequencies,
        _unfolded(-even.T @ products, rows.shape[1]),
        bend,
        -squares @ even,
        -(squares[:, None] * odd).T @ frequencies,
        curvature,
    )


class _Mixture(NamedTuple):
    """∇log q, ∇²log q and ∇³log q:S."""

    gradient: Float[Array, "n d"]
    hessian: Float[Array, "n d d"]
    bend: Float[Array, "n d"] | None


def _mixture_derivatives(mixture: MixtureScore, rows: Any, spread: Any | None) -> _Mixture:
    """Some rows at a time."""
    n_rows, n_columns = rows.shape
    # Symmetric: its first two axes may change places.
    precisions = mixture.halves.T[half_places(n_columns)]
    size = _TOGETHER if n_rows % _TOGETHER == 0 else n_rows

    def some(piece: Any) -> _Mixture:
        return _of_some_rows(mixture, precisions, *piece)

    pieces = jax.tree.map(
        lambda one: one.reshape(n_rows // size, size, *one.shape[1:]), (rows, spread)
    )
    return jax.tree.map(lambda one: one.reshape(n_rows, *one.shape[2:]), jax.lax.map(some, pieces))


def _of_some_rows(mixture: MixtureScore, precisions: Any, rows: Any, spread: Any) -> _Mixture:
    n_rows, n_columns = rows.shape
    table = precisions.reshape(n_columns, -1)
    shares = jax.nn.softmax(mixture.logs(rows), axis=1)
    gradient = mixture.mean_score(shares, rows)
    roots = jnp.sqrt(shares)
    moved = (rows @ table).reshape(n_rows, n_columns, -1)
    deviations = roots[:, None] * (mixture.pulls.T - gradient[:, :, None] - moved)
    hessian = deviations @ deviations.swapaxes(1, 2)
    hessian = hessian - _unfolded(shares @ mixture.halves, n_columns)
    if spread is None:
        return _Mixture(gradient, hessian, None)
    turned = spread @ deviations
    # Where a share is too small for its root, so is all that it multiplies.
    inverses = jnp.where(roots > 0, 1 / roots, 0.0)
    excess = (deviations * turned).sum(axis=1) * inverses
    excess = excess - roots * (_counted(spread) @ mixture.halves.T)
    bend = (deviations * excess[:, None]).sum(axis=2)
    weighted = (roots[:, None] * turned).reshape(n_rows, -1)
    return _Mixture(gradient, hessian, bend - 2 * weighted @ table.T)
