"""Ways to draw q frequencies of the standard normal distribution in d dimensions.

All but the last estimate E cos(w·r) by an equal-weight average over draws that are each
standard normal (up to the approximation named) and differ in how they depend on one another:

    independent   nothing to say
    orthogonal    d rows at a time with orthogonal directions and independent χ_d lengths
                  (Yu et al. 2016)
    hadamard      √p · H D₁ H D₂ H D₃ with Hadamard H and random signs D, its first d columns
                  (Choromanski et al. 2017); p ≥ 64, so that entries are near normal
    quasi         a scrambled Sobol sequence through the normal quantile function
    quadrature    spherical-radial rule of degree three (Munkhoeva et al. 2018): the d+1
                  vertices v_j of a randomly rotated simplex at radius ρ ~ χ_{d+2}, with weights
                  d / ((d+1) ρ²); the rule's node at zero adds a constant to f and is left out

| name        | shape  | meaning                                              |
|-------------|--------|------------------------------------------------------|
| normals     | (q, d) | frequencies of the unit RBF kernel                   |
| uniforms    | (q,)   | quantiles at which a kernel's multiplier is read off |
| weights     | (q,)   | of each frequency in the kernel; about one in total  |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import hadamard
from scipy.stats import norm, ortho_group, qmc

__all__ = ["DRAWS", "FrequencyDraw"]

_HADAMARD_SIZE = 64


class FrequencyDraw(NamedTuple):
    """Frequencies of the unit RBF kernel, quantiles for the multiplier, and weights."""

    normals: Float[np.ndarray, "q d"]
    uniforms: Float[np.ndarray, " q"]
    weights: Float[np.ndarray, " q"]


def _equal(normals: Float[np.ndarray, "q d"], uniforms: Float[np.ndarray, " q"]) -> FrequencyDraw:
    return FrequencyDraw(normals, uniforms, np.full(len(normals), 1 / len(normals)))


def _rotation(generator: np.random.Generator, size: int) -> Float[np.ndarray, "d d"]:
    if size == 1:
        return generator.choice([-1.0, 1.0], (1, 1))
    return ortho_group.rvs(size, random_state=generator)


def _stacked(piece: Callable[[], np.ndarray], n_rows: int) -> np.ndarray:
    """Pieces on top of one another until there are `n_rows` rows."""
    pieces = [piece()]
    while sum(map(len, pieces)) < n_rows:
        pieces.append(piece())
    return np.concatenate(pieces)[:n_rows]


def independent(generator: np.random.Generator, count: int, n_columns: int) -> FrequencyDraw:
    return _equal(generator.standard_normal((count, n_columns)), generator.random(count))


def orthogonal(generator: np.random.Generator, count: int, n_columns: int) -> FrequencyDraw:
    directions = _stacked(lambda: _rotation(generator, n_columns), count)
    lengths = np.sqrt(generator.chisquare(n_columns, (count, 1)))
    return _equal(directions * lengths, generator.random(count))


def structured(generator: np.random.Generator, count: int, n_columns: int) -> FrequencyDraw:
    size = max(_HADAMARD_SIZE, 1 << (n_columns - 1).bit_length())
    walsh = hadamard(size) / np.sqrt(size)

    def piece() -> Float[np.ndarray, "p d"]:
        first, second, third = generator.choice([-1.0, 1.0], (3, size))
        product = (walsh * first) @ (walsh * second) @ (walsh * third)
        return np.sqrt(size) * product[:, :n_columns]

    return _equal(_stacked(piece, count), generator.random(count))


def quasi(generator: np.random.Generator, count: int, n_columns: int) -> FrequencyDraw:
    sequence = qmc.Sobol(n_columns + 1, rng=generator)
    # A power of two keeps the sequence balanced (and SciPy quiet); the first `count` are used.
    points = sequence.random_base2(max(count - 1, 1).bit_length())[:count]
    points = np.clip(points, 1e-12, 1 - 1e-12)
    return _equal(norm.ppf(points[:, :-1]), points[:, -1])


def quadrature(generator: np.random.Generator, count: int, n_columns: int) -> FrequencyDraw:
    vertices = _simplex(n_columns)

    def piece() -> Float[np.ndarray, "v d"]:
        radius = np.sqrt(generator.chisquare(n_columns + 2))
        return radius * vertices @ _rotation(generator, n_columns)

    frequencies = _stacked(piece, count)
    n_rules = count / (n_columns + 1)
    weights = n_columns / ((n_columns + 1) * (frequencies**2).sum(axis=1)) / n_rules
    return FrequencyDraw(frequencies, generator.random(count), weights)


def _simplex(n_columns: int) -> Float[np.ndarray, "v d"]:
    """The d+1 unit vertices of a regular simplex centered at zero in d dimensions."""
    corners = np.eye(n_columns + 1) - 1 / (n_columns + 1)
    # The corners span the d-dimensional space orthogonal to (1, …, 1).
    axes = np.linalg.svd(corners)[2][:n_columns]
    vertices = corners @ axes.T
    return vertices / np.linalg.norm(vertices, axis=1, keepdims=True)


DRAWS: dict[str, Callable[[np.random.Generator, int, int], FrequencyDraw]] = {
    "independent": independent,
    "orthogonal": orthogonal,
    "hadamard": structured,
    "quasi": quasi,
    "quadrature": quadrature,
}
