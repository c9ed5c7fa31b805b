"""Kernel sections and their derivatives at points, for any radial kernel.

With k(z, x) = g(s), s = Σ_i (z_i − x_i)²/ℓ_i², the functions are linear functionals of the
kernel at the points z_j,

    value      k(z_j, ·) = g
    gradient   ∂_i k(z_j, ·) = 2 p_i g'                    p_i = (z_ji − x_i)/ℓ_i²
    laplacian  Δk(z_j, ·) = 2 (Σ_i ℓ_i⁻²) g' + 4 |p|² g''

(derivatives in the first argument), each divided by its RKHS norm. By the reproducing property
R, their Gram matrix in the RKHS, is the same functionals applied once more:
⟨D k(z, ·), D' k(z', ·)⟩ = D D' k(z, z').

| symbol | name         | shape                                                    |
|--------|--------------|----------------------------------------------------------|
| z_j    | points       | (p, d)                                                   |
| ℓ      | length_scale | (d,)                                                     |
|        | selected     | (m,), which of the functions, by point and then by kind  |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float, Int

from kexpfam.features.basis import PointwiseBasis
from kexpfam.features.spectra import Spectrum
from kexpfam.quadratic import along, twice_along

__all__ = ["JITTER", "SectionBasis"]

# The Gram matrix of close points is singular in float64; this much is added to its unit diagonal.
# Rounding puts its eigenvalues wrong by about 1e-15 times their number.
JITTER = 1e-9

# How many of the kernel's derivatives each functional uses up.
_ORDERS = {"value": 0, "gradient": 1, "laplacian": 2}

# Functions that a mini-batch of tuning is fitted with, where the basis follows the rows.
_FUNCTIONS_FOR_TUNING = 512


@register_dataclass
@dataclass(frozen=True)
class SectionBasis(PointwiseBasis):
    """Functionals ("value", "gradient", "laplacian") of a kernel at `points`.

    With `follows_rows` the points stand for the rows of the fit, and a mini-batch of tuning brings
    its own.
    """

    points: Float[Any, "p d"]
    length_scale: Float[Any, " d"]
    selected: Int[Any, " m"]
    kernel: Spectrum = field(metadata={"static": True})
    functionals: tuple[str, ...] = field(metadata={"static": True})
    follows_rows: bool = field(default=False, metadata={"static": True})

    @property
    def n_features(self) -> int:
        return len(self.selected)

    @property
    def n_derivatives(self) -> float:
        return self.kernel.n_derivatives - max(_ORDERS[name] for name in self.functionals)

    def rescaled(self, length_scale: Any) -> SectionBasis:
        return replace(self, length_scale=self.length_scale * length_scale)

    def for_batch(self, rows: Float[Any, "n d"]) -> SectionBasis:
        if not self.follows_rows:
            return self
        kinds = _n_kinds(self.functionals, rows.shape[1])
        points = rows[: max(_FUNCTIONS_FOR_TUNING // kinds, 32)]
        return replace(self, points=points, selected=np.arange(len(points) * kinds))

    def features(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        precision = self.length_scale**-2.0
        shifts = (self.points - rows[:, None]) * precision
        squares = (shifts**2 / precision).sum(axis=2)
        (value, slope), (_, bend) = _twice(self.kernel.profile, squares)
        trace = precision.sum()
        kinds: dict[str, Callable[[], Array]] = {
            "value": lambda: value[..., None],
            "gradient": lambda: 2 * slope[..., None] * shifts,
            "laplacian": lambda: (
                2 * trace * slope + 4 * bend * (shifts**2).sum(axis=2)
            )[..., None],
        }  # fmt: skip
        stacked = jnp.concatenate([kinds[name]() for name in self.functionals], axis=2)
        flat = (stacked / self.norms()).reshape(len(rows), -1)
        return flat[:, self.selected]

    def norms(self) -> Float[Array, " f"]:
        """RKHS norms of the functionals: the same at every point, since the kernel is radial."""
        precision = self.length_scale**-2.0
        (value, slope), (_, bend) = _twice(self.kernel.profile, jnp.zeros(1))
        fourth = precision.sum() ** 2 + 2 * (precision**2).sum()
        kinds: dict[str, Callable[[], Array]] = {
            "value": lambda: value,
            "gradient": lambda: -2 * slope * precision,
            "laplacian": lambda: 4 * bend * fourth,
        }
        return jnp.sqrt(jnp.concatenate([kinds[name]() for name in self.functionals]))

    def penalty_matrix(self) -> Float[Array, "m m"]:
        directions = jnp.eye(self.points.shape[1])

        def first(direction: Array) -> Array:
            return along(self.features, self.points, direction)[1]

        def second(direction: Array) -> Array:
            return twice_along(self.features, self.points, direction)[2]

        points = jnp.asarray(self.points)
        kinds: dict[str, Callable[[], Array]] = {
            "value": lambda: self.features(points)[:, None],
            "gradient": lambda: jax.lax.map(first, directions).transpose(1, 0, 2),
            "laplacian": lambda: jax.lax.map(second, directions).sum(axis=0)[:, None],
        }
        stacked = jnp.concatenate([kinds[name]() for name in self.functionals], axis=1)
        stacked = stacked / self.norms()[:, None]
        gram = stacked.reshape(-1, len(self.selected))[self.selected]
        return (gram + gram.T) / 2 + JITTER * jnp.eye(len(gram))


def _n_kinds(functionals: tuple[str, ...], n_columns: int) -> int:
    """How many functions there are for each point."""
    return sum(n_columns if name == "gradient" else 1 for name in functionals)


def all_functions(n_points: int, functionals: tuple[str, ...], n_columns: int) -> np.ndarray:
    """The selection that leaves nothing out."""
    return np.arange(n_points * _n_kinds(functionals, n_columns))


def _twice(function: Any, values: Float[Any, "*shape"]) -> Any:
    """((g, g'), (g', g'')) of a function of numbers, elementwise."""
    ones = jnp.ones_like(values)
    return jax.jvp(lambda v: jax.jvp(function, (v,), (ones,)), (values,), (ones,))
