"""A fitted density as JAX sees it: a function of one row.

    log p(x) = f(z) + log q0(z) − Σ_j log scale_j − log Z,     z = (x − center) / scale

Base densities are NumPy, so that users can bring their own; a Markov chain wants to be compiled.
The library's own base densities can be (see `kexpfam.base.traced`), and a user's density is called
back from compiled code, once per step for all chains. Everything is a record of arrays (a pytree),
so that one compilation serves every fit of the same shape.

| symbol | name         | shape     |
|--------|--------------|-----------|
| β      | coefficients | (m,)      |
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.base import BaseDensity, RescaledDensity
from kexpfam.base.density import Completed
from kexpfam.base.traced import traced_density

__all__ = ["LogDensity", "LogDensityFunction", "fresh_constants", "jax_base"]


@register_dataclass
@dataclass(frozen=True)
class LogDensity:
    """log p at one standardized row, up to a constant: a function that JAX can differentiate."""

    basis: Any
    coefficients: Float[Any, " m"]
    base: Any

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        """f(z) + log q0(z)."""
        return self.log_density(row[None])[0]

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        """The same at several rows."""
        return self.basis.values(self.coefficients, rows) + self.base.log_density(rows)

    def tilt(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        """f(z)."""
        return self.basis.values(self.coefficients, row[None])[0]


def fresh_constants(record: Any) -> Any:
    """The same record, with copies of its NumPy arrays as JAX's.

    JAX remembers what it made of a NumPy array that compiled code has captured: float32, where
    float64 is off. The library's own float64 code would be handed that when it meets that array.
    """
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf.copy()) if isinstance(leaf, np.ndarray) else leaf, record
    )


# Compared by identity, as functions are: jax.jit keeps what it compiled by the function's hash.
@register_dataclass
@dataclass(frozen=True, eq=False)
class LogDensityFunction:
    """log p at one row of the user's units: a pure function, and a record of arrays (a pytree).

    As a pytree it can also be an argument of compiled code, which then serves every fit of the
    same shape.
    """

    density: Any
    log_normalizer: Float[Any, ""]
    center: Float[Any, " d"]

    def __call__(self, row: Any) -> Float[Array, ""]:
        """log p(x)."""
        row = jnp.asarray(row, float)
        if row.shape != self.center.shape:
            raise ValueError(
                f"Expected one row, of shape {self.center.shape}; got shape {row.shape}. "
                "For many rows use jax.vmap(function)(rows)."
            )
        return _log_density_at(fresh_constants(self.density), row) - self.log_normalizer


# Compiled as a whole, also where the caller compiles nothing: one program instead of one for every
# operation, and the same one for all fits of a shape.
@jax.jit
def _log_density_at(density: Any, row: Any) -> Array:
    return density.log_density(row[None])[0]


def jax_base(base: BaseDensity) -> Any:
    """A base density inside compiled code: it has a `log_density` of rows."""
    traced = traced_density(base)
    if traced is not None:
        return traced
    if type(base) is RescaledDensity:
        return RescaledDensity(jax_base(base.density), base.center, base.scale)
    return _Called.from_numpy(base)


class _Same:
    """A density that is equal to itself alone.

    Compiled code is kept per density, but the densities that users write need not be hashable,
    and those holding arrays cannot be compared.
    """

    def __init__(self, density: BaseDensity) -> None:
        self.density = density
        # What completes a user's density is made anew by every fit; the user's object is not.
        self._itself = density.density if isinstance(density, Completed) else density

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._itself is self._itself

    def __hash__(self) -> int:
        return id(self._itself)


@register_dataclass
@dataclass(frozen=True)
class _Called:
    """A user's density, evaluated in Python from compiled code.

    Python is entered once per step, with the rows of all chains together, for the value and the
    gradient at once. A density written in JAX must not be evaluated in there: it would wait for
    the very computation that waits for it.
    """

    same: _Same = field(metadata={"static": True})

    @classmethod
    def from_numpy(cls, density: BaseDensity) -> _Called:
        return cls(_Same(density))

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        @jax.custom_jvp
        def value(row: Float[Any, " d"]) -> Float[Array, ""]:
            return self._both(row)[0]

        @value.defjvp
        def value_and_slope(primals: Any, tangents: Any) -> Any:
            found, gradient = self._both(primals[0])
            return found, gradient @ tangents[0]

        return jax.vmap(value)(jnp.asarray(rows))

    def _both(self, row: Float[Any, " d"]) -> Any:
        """The value and the gradient.

        Numbers travel as 32-bit words: callbacks run in threads of their own, where JAX would
        round float64 to float32 on the way in and out unless float64 were switched on for all.
        """
        words = jax.lax.bitcast_convert_type(row, jnp.uint32).reshape(-1)
        per_number, n_numbers = words.size // row.size, row.size + 1
        answer = jax.pure_callback(
            functools.partial(self._in_numpy, row.dtype),
            np.empty(n_numbers * per_number, np.uint32),
            words,
            vmap_method="expand_dims",
        )
        shape = (n_numbers,) if per_number == 1 else (n_numbers, per_number)
        numbers = jax.lax.bitcast_convert_type(answer.reshape(shape), row.dtype)
        return numbers[0], numbers[1:]

    def _in_numpy(self, dtype: Any, words: Any) -> np.ndarray:
        rows = np.ascontiguousarray(words).view(dtype)
        flat = rows.reshape(-1, rows.shape[-1]).astype(float)
        density = self.same.density
        numbers = np.column_stack([density.log_density(flat), density.gradient(flat)])
        return numbers.astype(dtype).view(np.uint32).reshape(*rows.shape[:-1], -1)
