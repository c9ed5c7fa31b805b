"""The expectation step of mixtures on an accelerator: rows go there, sums come back at the end.

For a block of rows with weights a and monomials m(x), under mixtures s with components k,

    L_s = Σ a log Σ_k exp(c_k·m),        S_k = Σ a (exp(c_k·m) / Σ_j exp(c_j·m)) m,

the sums over j within the mixture that k belongs to. Monomials are made on the device, in single
precision, as on the host; sums over blocks are kept there in double precision.

| symbol | name        | shape  |
|--------|-------------|--------|
| c      | polynomials | (k, p) |
| m      | monomials   | (b, p) |
| L      | likelihoods | (s,)   |
| S      | sums        | (k, p) |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kexpfam.base.expected_sums import ExpectedSums
from kexpfam.data.blocks import block_size_for, padded
from kexpfam.data.rows import Chunk
from kexpfam.precision import compiled

__all__ = ["summed_on_device"]

# Numbers of members in a block: rows times components of all mixtures (a gigabyte).
_MOST_MEMBERS, _MOST_ROWS, _FEWEST_ROWS = 1 << 28, 1 << 18, 1 << 12
_FEWEST_MIXTURES = 16
# The log density of a component that is not there.
_NEVER = -1e30


def summed_on_device(
    polynomials: Float[np.ndarray, "k p"], sizes: tuple[int, ...], chunks: Iterable[Chunk]
) -> ExpectedSums:
    """Over all rows of chunks."""
    count, n_mixtures = len(polynomials), len(sizes)
    # Numbers of components and of mixtures change from step to step: few of them are compiled for.
    most_components = block_size_for(count, largest=1 << 30, factor=2)
    most_mixtures = max(_FEWEST_MIXTURES, 1 << (n_mixtures - 1).bit_length())
    owners = np.zeros((most_mixtures, most_components), bool)
    owners[np.repeat(np.arange(n_mixtures), sizes), np.arange(count)] = True
    every = padded(polynomials.astype(np.float32), most_components)
    every[count:, 0] = _NEVER
    most = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_MEMBERS // most_components))
    total = ExpectedSums(np.zeros(len(owners)), np.zeros(every.shape), np.zeros(()), np.zeros(()))
    for rows, weights in _blocks(chunks, most):
        total = _with_block(total, every, owners, rows, weights)
    likelihoods, sums = np.asarray(total.likelihoods), np.asarray(total.sums)
    return ExpectedSums(
        likelihoods[:n_mixtures], sums[:count], float(total.weight), float(total.squares)
    )


def _blocks(chunks: Iterable[Chunk], most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and weights in blocks of few sizes, filled up with rows of no weight."""
    for chunk in chunks:
        size = block_size_for(len(chunk.weights), most, factor=2)
        for first in range(0, len(chunk.weights), size):
            part = slice(first, first + size)
            rows = chunk.rows[part].astype(np.float32)
            yield padded(rows, size), padded(chunk.weights[part], size)


@compiled(donated=("total",), on_device=True, tuned=False)
def _with_block(
    total: ExpectedSums, polynomials: Any, owners: Any, rows: Any, weights: Any
) -> ExpectedSums:
    """Sums with one block more; `owners` says which mixture has which components."""
    exact = jax.lax.Precision.HIGHEST
    with_one = jnp.concatenate([jnp.ones_like(rows[:, :1]), rows], axis=1)
    monomials = jnp.concatenate(
        [with_one[:, i : i + 1] * with_one[:, i:] for i in range(with_one.shape[1])], axis=1
    )
    logs = jnp.matmul(polynomials, monomials.T, precision=exact)
    highest = jnp.where(owners[:, :, None], logs, 2 * _NEVER).max(axis=1)
    owner = jnp.argmax(owners, axis=0)
    members = jnp.exp(logs - highest[owner])
    totals = jnp.matmul(owners.astype(members.dtype), members, precision=exact)
    there = totals > 0
    likelihoods = jnp.where(there, jnp.log(jnp.where(there, totals, 1.0)) + highest, 0.0)
    # Of the largest weight, so that none is beyond single precision.
    unit = jnp.maximum(weights.max(), 1e-300)
    shares = (weights / unit).astype(members.dtype)
    weighed = members * (shares / jnp.where(there, totals, 1.0))[owner]
    sums = jnp.matmul(weighed, monomials, precision=exact).astype(weights.dtype) * unit
    return ExpectedSums(
        total.likelihoods + likelihoods.astype(weights.dtype) @ weights,
        total.sums + sums,
        total.weight + weights.sum(),
        total.squares + weights @ weights,
    )
