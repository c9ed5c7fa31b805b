"""The fitted density as JAX sees it: log p(z) = f(z) + log q0(z) + constant, at one row.

Base densities are NumPy, so that users can bring their own; a Markov chain wants to be compiled.
The library's own base densities therefore have a counterpart here, found by their exact type, and
a user's density is called back from compiled code, once per step for all chains. Everything is a
record of arrays (a pytree), so that one compilation serves every fit of the same shape.

    mixture    log q0(z) = logsumexp_k [c_k − ½|L_k (z − μ_k)|²],  L_kᵀL_k = Σ_k⁻¹,
               c_k = log π_k + log|L_k| − (d/2) log 2π
    box        log q0(z) = −Σ_j log(high_j − low_j) inside, −∞ outside
    rescaled   log q0(z) = log q((z − center)/scale) − Σ_j log scale_j

| symbol | name         | shape     |
|--------|--------------|-----------|
| β      | coefficients | (m,)      |
| c_k    | log_heights  | (k,)      |
| μ_k    | means        | (k, d)    |
| L_k    | roots        | (k, d, d) |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.base import BaseDensity, BoxDensity, GaussianMixtureDensity, RescaledDensity
from kexpfam.base.density import Completed
from kexpfam.model import FittedDensity

__all__ = ["JAX_BASES", "LogDensity", "jax_base", "jax_log_density"]


@register_dataclass
@dataclass(frozen=True)
class LogDensity:
    """log p at one standardised row, up to a constant: a function that JAX can differentiate."""

    basis: Any
    coefficients: Float[Any, " m"]
    base: Any

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        """f(z) + log q0(z)."""
        return self.tilt(row) + self.base(row)

    def tilt(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        """f(z)."""
        return self.basis.values(self.coefficients, row[None])[0]


def jax_log_density(density: FittedDensity) -> LogDensity:
    """A fitted density as a JAX function of one standardised row, up to its normaliser.

    Evaluate it with float64 switched on (``jax.enable_x64(True)`` as a context) to get what
    `FittedDensity.log_density` gives.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from kexpfam.base import BoxDensity
    >>> from kexpfam.data.standardize import Standardizer
    >>> from kexpfam.features import FourierBasis
    >>> from kexpfam.model import FittedDensity
    >>> from kexpfam.sampling import jax_log_density
    >>> density = FittedDensity(
    ...     basis=FourierBasis(np.ones((1, 1)), np.zeros(1), np.ones(1)),
    ...     coefficients=np.array([0.0, 2.0]),
    ...     base=BoxDensity(np.zeros(1), np.ones(1)),
    ...     standardizer=Standardizer(np.zeros(1), np.ones(1)),
    ...     log_normalizer=0.0,
    ... )
    >>> with jax.enable_x64(True):
    ...     slope = jax.grad(jax_log_density(density))(np.zeros(1))
    >>> float(slope[0])
    2.0
    """
    return LogDensity(density.basis, density.coefficients, jax_base(density.base))


def jax_base(base: BaseDensity) -> Callable[[Any], Any]:
    """The JAX counterpart of a base density: a function of one row."""
    # By exact type: a subclass may have changed what the density is.
    return JAX_BASES.get(type(base), _Called.from_numpy)(base)


@register_dataclass
@dataclass(frozen=True)
class _Mixture:
    """Counterpart of `GaussianMixtureDensity`."""

    log_heights: Float[Any, " k"]
    means: Float[Any, "k d"]
    roots: Float[Any, "k d d"]

    @classmethod
    def from_numpy(cls, mixture: GaussianMixtureDensity) -> _Mixture:
        """Padded with empty components up to a power of two, so that few shapes are compiled."""
        count, n_columns = mixture.means.shape
        roots = np.linalg.inv(np.linalg.cholesky(mixture.covariances))
        log_volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        with np.errstate(divide="ignore"):
            log_heights = np.log(mixture.weights) + log_volumes - n_columns / 2 * np.log(2 * np.pi)
        empty = (1 << (count - 1).bit_length()) - count
        return cls(
            np.pad(log_heights, (0, empty), constant_values=-np.inf),
            np.pad(mixture.means, ((0, empty), (0, 0))),
            np.pad(roots, ((0, empty), (0, 0), (0, 0))),
        )

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        whitened = jnp.einsum("kij,kj->ki", self.roots, row - self.means)
        return logsumexp(self.log_heights - (whitened**2).sum(axis=1) / 2)


@register_dataclass
@dataclass(frozen=True)
class _Box:
    """Counterpart of `BoxDensity`."""

    low: Float[Any, " d"]
    high: Float[Any, " d"]

    @classmethod
    def from_numpy(cls, box: BoxDensity) -> _Box:
        return cls(box.low, box.high)

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        inside = ((row >= self.low) & (row <= self.high)).all()
        return jnp.where(inside, -jnp.log(self.high - self.low).sum(), -jnp.inf)


@register_dataclass
@dataclass(frozen=True)
class _Rescaled:
    """Counterpart of `RescaledDensity`."""

    density: Any
    center: Float[Any, " d"]
    scale: Float[Any, " d"]

    @classmethod
    def from_numpy(cls, rescaled: RescaledDensity) -> _Rescaled:
        return cls(jax_base(rescaled.density), rescaled.center, rescaled.scale)

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        return self.density((row - self.center) / self.scale) - jnp.log(self.scale).sum()


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

    def __call__(self, row: Float[Any, " d"]) -> Float[Array, ""]:
        @jax.custom_jvp
        def value(row: Float[Any, " d"]) -> Float[Array, ""]:
            return self._both(row)[0]

        @value.defjvp
        def value_and_slope(primals: Any, tangents: Any) -> Any:
            found, gradient = self._both(primals[0])
            return found, gradient @ tangents[0]

        return value(jnp.asarray(row))

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


JAX_BASES: dict[type, Callable[[Any], Any]] = {
    GaussianMixtureDensity: _Mixture.from_numpy,
    BoxDensity: _Box.from_numpy,
    RescaledDensity: _Rescaled.from_numpy,
}
