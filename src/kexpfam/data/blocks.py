"""Blocks: the pieces of fixed size in which rows reach compiled code.

A block is padded to its full size with rows of weight zero, so that compilation happens
once per size and not once per data set. What the base density says at each row travels
with it: base densities are then plain NumPy and may come from the user.

| symbol      | name          | shape                                   |
|-------------|---------------|-----------------------------------------|
| x_a         | rows          | (b, d)                                  |
| a           | weights       | (b,)                                    |
| ∇log q0(x)  | base_gradient | (b, d)                                  |
| ∇²log q0(x) | base_hessian  | (b, d, d), or (d, d) where it is constant |
| Σ_jk C_jk ∂_j∂_k ∇log q0(x) | base_bend | (b, d)          |
| u           | directions    | (b, d), or None                         |
| σ           | noise_scale   | ()                                      |

C is the noise's covariance at scale one. Noise that is drawn rather than averaged makes noisy
copies x_a + σu of the rows; the directions u are kept, so that sums can be differentiated by σ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

__all__ = [
    "LARGEST_BLOCK",
    "NOT_FINITE",
    "Block",
    "Curved",
    "batch_size_for",
    "block_size_for",
    "cut",
    "in_blocks",
    "make_block",
    "padded",
    "taken_rows",
]

# Compiling for a size takes longer than the rows that fill it up: few sizes, far apart.
_SMALLEST, _FACTOR, _FEW = 128, 4, 512
# Rows are evaluated in pieces of one small size, as long as these are few: they would leave most of
# a large one empty.
_PIECE, _MOST_PIECES = 128, 8
LARGEST_BLOCK = 2048
NOT_FINITE = (
    "The base density's derivatives are not finite at some training rows. Expected a base "
    "density that is positive and smooth wherever there are data; try base='gaussian'."
)


class Block(NamedTuple):
    """Rows, their weights, and the base density's derivatives there."""

    rows: Float[np.ndarray, "b d"]
    weights: Float[np.ndarray, " b"]
    base_gradient: Float[np.ndarray, "b d"]
    base_hessian: Float[np.ndarray, "*b d d"]
    base_bend: Float[np.ndarray, "b d"]
    directions: Float[np.ndarray, "b d"] | None
    noise_scale: Float[np.ndarray, ""]


@runtime_checkable
class Curved(Protocol):
    """The part of a base density that blocks need."""

    def gradient(self, rows: np.ndarray) -> np.ndarray: ...

    def hessian(self, rows: np.ndarray) -> np.ndarray: ...

    def bend(self, rows: np.ndarray, covariance: np.ndarray) -> np.ndarray: ...


def block_size_for(n_rows: int, largest: int = LARGEST_BLOCK, factor: int = _FACTOR) -> int:
    """The block size for `n_rows`: 128 times a power of `factor`, at most `largest`."""
    size = _SMALLEST
    while size < n_rows:
        size *= factor
    return min(largest, size)


def batch_size_for(n_rows: int, largest: int) -> int:
    """A size that leaves out at most a fifth of the rows, one of four in every doubling.

    A few hundred rows are padded instead: it is compiling that takes time there.
    """
    if n_rows < _FEW:
        return block_size_for(n_rows, largest)
    quarter = 1 << (min(n_rows, largest).bit_length() - 3)
    return min(n_rows, largest) // quarter * quarter


def cut(n_rows: int, largest: int = LARGEST_BLOCK) -> Iterator[tuple[slice, int]]:
    """Where to cut rows into blocks, and the size that each is padded to.

    What is left after full blocks makes several of the smallest size, or another full one: a
    program is compiled for two sizes at the most.
    """
    start = 0
    while start < n_rows:
        left = n_rows - start
        few = left <= _MOST_PIECES * _PIECE
        size = min(_PIECE, largest) if few else block_size_for(left, largest)
        yield slice(start, start + size), size
        start += size


def in_blocks(
    function: Callable[..., Any],
    *arrays: Shaped[np.ndarray, "n ..."],
    largest: int = LARGEST_BLOCK,
) -> Any:
    """What a function finds in padded blocks of arrays, whole again: an array, or several."""
    found = []
    for piece, size in cut(len(arrays[0]), largest):
        parts = [array[piece] for array in arrays]
        results = function(*(padded(part, size) for part in parts))
        count = len(parts[0])
        found.append(jax.tree.map(lambda result, count=count: result[:count], results))
    return jax.tree.map(lambda *pieces: np.concatenate(pieces), *found)


def padded(array: Shaped[np.ndarray, "..."], size: int) -> Shaped[np.ndarray, "..."]:
    """`array` with zeros appended along its first axis up to `size`."""
    if len(array) == size:
        return array
    return np.concatenate([array, np.zeros((size - len(array), *array.shape[1:]), array.dtype)])


def taken_rows(
    block: Block, chosen: Int[np.ndarray, " n"], weights: Float[np.ndarray, " n"], size: int
) -> Block:
    """Some rows of an unpadded block, with other weights, padded to `size`."""
    hessian = block.base_hessian
    return block._replace(
        rows=padded(block.rows[chosen], size),
        weights=padded(weights, size),
        base_gradient=padded(block.base_gradient[chosen], size),
        base_hessian=hessian if hessian.ndim == 2 else padded(hessian[chosen], size),
        base_bend=padded(block.base_bend[chosen], size),
    )


def make_block(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    base: Curved,
    covariance: Float[np.ndarray, "d d"],
    size: int,
    directions: Float[np.ndarray, "n d"] | None = None,
    noise_scale: float = 0.0,
) -> Block:
    """One padded block of `size` rows."""
    derivatives = base.gradient(rows), base.hessian(rows), base.bend(rows, covariance)
    if not all(np.isfinite(derivative).all() for derivative in derivatives):
        raise ValueError(NOT_FINITE)
    gradient, hessian, bend = derivatives
    return Block(
        rows=padded(rows, size),
        weights=padded(weights, size),
        base_gradient=padded(gradient, size),
        base_hessian=hessian if hessian.ndim == 2 else padded(hessian, size),
        base_bend=padded(bend, size),
        directions=None if directions is None else padded(directions, size),
        noise_scale=np.asarray(noise_scale, float),
    )
