"""Symmetric noise distributions ε, through ψ(w) = E cos(w·ε).

Averaging a cosine over symmetric noise multiplies it by ψ: E cos(w·(x+ε)) = ψ(w) cos(w·x).
That is all the closed form needs to know of the noise. Every distribution here has zero mean and a
`scale`: the standard deviation of each coordinate (for Gaussian noise with a covariance, its
multiplier). A scale of zero is no noise: ψ = 1.

    Gaussian   exp(−½ σ² wᵀCw)         Laplace   Π_j 1 / (1 + ½σ²w_j²)
    uniform    Π_j sin(√3σw_j) / (√3σw_j)

| symbol | name           | shape                    |
|--------|----------------|--------------------------|
| w      | frequencies    | (q, d)                   |
| σ      | scale          | ()                       |
| C      | covariance     | (), (d,) or (d, d)       |
| ψ      | characteristic | (q,), or (q, q) in pairs |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.precision import compiled

__all__ = [
    "AutomaticNoise",
    "CharacteristicNoise",
    "GaussianNoise",
    "LaplaceNoise",
    "NoNoise",
    "Noise",
    "UniformNoise",
]

Scale = Any  # a float or a traced scalar


class Noise:
    """A symmetric noise distribution: subclass it with `characteristic` and `sample`."""

    def characteristic(self, frequencies: Float[Array, "q d"], scale: Scale) -> Float[Array, " q"]:
        """ψ at each frequency."""
        raise NotImplementedError

    def sample(
        self, n_samples: int, n_columns: int, scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        """Independent draws of the noise."""
        raise NotImplementedError

    def gradient(self, frequencies: Float[Array, "q d"], scale: Scale) -> Float[Array, "q d"]:
        """∇ψ at each frequency."""
        return jax.grad(lambda w: self.characteristic(w, scale).sum())(frequencies)

    def covariance_shape(self, n_columns: int) -> Float[np.ndarray, "d d"]:
        """The covariance at scale one, −∇²ψ(0)."""
        return -_compiled_curvature(self, np.zeros(n_columns))

    def pairwise(
        self, frequencies: Float[Array, "q d"], scale: Scale
    ) -> tuple[Float[Array, "q q"], Float[Array, "q q"]]:
        """ψ(w_i − w_j) and ψ(w_i + w_j)."""

        def against(sign: float) -> Float[Array, "q q"]:
            return jax.lax.map(
                lambda w: self.characteristic(w + sign * frequencies, scale), frequencies
            )

        return against(-1.0), against(1.0)

    # -- how the noise enters the sums over rows: in closed form, unless a treatment says else ---

    def checked_for(self, basis: Any) -> Noise:
        """The noise to fit this basis with; an error where that cannot be done."""
        if not basis.averages(self):
            raise ValueError(
                f"This basis ({type(basis).__name__}) does not average over {self!r} in closed "
                "form. Use "
                "noise=None (plain score matching) or noise='auto'; or draw the noise, "
                "noise=MonteCarloNoise(distribution); or expand it for small scales, "
                "noise=TaylorNoise(distribution); or use basis='fourier', which averages any "
                "symmetric distribution."
            )
        return self

    def copies(
        self, rows: Float[np.ndarray, "n d"], noise_scale: float
    ) -> Iterator[tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"] | None]]:
        """Noisy copies of rows with the directions they moved in; rows as they are, once."""
        yield rows, None

    # How the noise enters: a distribution as a whole is left to the basis; drawn noise moves the
    # rows, and the basis sums over these; expanded noise needs sums of derivatives of its own.
    enters: ClassVar[Literal["in closed form", "drawn", "expanded"]] = "in closed form"

    def moments_follow_scale(self, basis: Any) -> bool:
        """Whether sums over rows hold for one noise scale only."""
        return basis.moments_follow_noise

    def moments(self, basis: Any, block: Any, noise_scale: Scale) -> Any:
        """Sums over a block's rows."""
        return basis.moments(block, self, noise_scale)

    def system(self, basis: Any, moments: Any, noise_scale: Scale) -> Any:
        """H and h under the noise, from the sums."""
        return basis.system(moments, self, noise_scale)


def curvature(noise: Noise, frequency: Float[Any, " d"]) -> Float[Array, "d d"]:
    """∇²ψ at one frequency and scale one."""
    return jax.hessian(lambda w: noise.characteristic(w[None], 1.0)[0])(frequency)


_compiled_curvature = compiled(curvature)


@register_dataclass
@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Gaussian noise of covariance scale² · `covariance`.

    Parameters
    ----------
    covariance : array of shape (n_features,) or (n_features, n_features), optional
        The shape of the noise in standardized units: diagonal or full; isotropic by default.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam import GaussianNoise, KernelExponentialFamily
    >>> model = KernelExponentialFamily(noise=GaussianNoise(np.array([1.0, 0.25])))
    """

    covariance: Any = None

    def _root(self, n_columns: int) -> Any:
        """A factor L with C = L Lᵀ, shaped to multiply rows from the right: w → w L."""
        if self.covariance is None:
            return jnp.eye(n_columns)
        return jnp.linalg.cholesky(self.matrix(n_columns, jnp))

    def matrix(self, n_columns: int, numpy: Any) -> Any:
        """The covariance at scale one as a matrix, of NumPy or of JAX."""
        if self.covariance is None:
            return numpy.eye(n_columns)
        try:
            covariance = numpy.asarray(self.covariance, float)
        except (TypeError, ValueError):
            raise ValueError(
                f"covariance must be None or an array of numbers; got {self.covariance!r:.60}."
            ) from None
        if covariance.shape not in {(n_columns,), (n_columns, n_columns)}:
            raise ValueError(
                f"The noise covariance must have shape ({n_columns},) or "
                f"({n_columns}, {n_columns}) for rows of {n_columns} columns; "
                f"got {covariance.shape}."
            )
        return numpy.diag(covariance) if covariance.ndim == 1 else covariance

    def characteristic(self, frequencies: Float[Array, "q d"], scale: Scale) -> Float[Array, " q"]:
        scaled = scale * (frequencies @ self._root(frequencies.shape[1]))
        return jnp.exp(-(scaled**2).sum(axis=1) / 2)

    def pairwise(
        self, frequencies: Float[Array, "q d"], scale: Scale
    ) -> tuple[Float[Array, "q q"], Float[Array, "q q"]]:
        # |w_i ± w_j|² from one matrix product, where the general distribution needs q² evaluations.
        scaled = scale * (frequencies @ self._root(frequencies.shape[1]))
        squares = (scaled**2).sum(axis=1)
        lengths, products = (squares[:, None] + squares) / 2, scaled @ scaled.T
        return jnp.exp(products - lengths), jnp.exp(-products - lengths)

    def covariance_shape(self, n_columns: int) -> Float[np.ndarray, "d d"]:
        if self.covariance is None:
            return np.eye(n_columns)
        covariance = self.matrix(n_columns, np)
        if not (np.allclose(covariance, covariance.T) and np.linalg.eigvalsh(covariance)[0] > 0):
            raise ValueError(
                "covariance must be symmetric and positive definite, or positive numbers, one per "
                f"column; got {self.covariance!r:.200}."
            )
        return covariance

    def sample(
        self, n_samples: int, n_columns: int, scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        root = np.linalg.cholesky(self.covariance_shape(n_columns))
        return scale * generator.standard_normal((n_samples, n_columns)) @ root.T


@register_dataclass
@dataclass(frozen=True)
class NoNoise(GaussianNoise):
    """Plain score matching: Gaussian noise whose scale is always zero."""

    def checked_for(self, basis: Any) -> Noise:
        if not basis.averages(self):
            raise ValueError(
                f"Plain score matching needs functions with two derivatives; {basis!r} has "
                f"{basis.n_derivatives:g}. Use noise='gaussian', or a smoother basis."
            )
        return self


@dataclass(frozen=True)
class AutomaticNoise(Noise):
    """Gaussian noise where the basis averages over it in closed form, else none."""

    def checked_for(self, basis: Any) -> Noise:
        gaussian = GaussianNoise()
        return gaussian if basis.averages(gaussian) else NoNoise()


@register_dataclass
@dataclass(frozen=True)
class LaplaceNoise(Noise):
    """Independent Laplace noise in every column, with the noise scale as standard deviation.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, LaplaceNoise
    >>> model = KernelExponentialFamily(noise=LaplaceNoise())
    """

    def characteristic(self, frequencies: Float[Array, "q d"], scale: Scale) -> Float[Array, " q"]:
        return jnp.prod(1 / (1 + (scale * frequencies) ** 2 / 2), axis=1)

    def covariance_shape(self, n_columns: int) -> Float[np.ndarray, "d d"]:
        return np.eye(n_columns)

    def sample(
        self, n_samples: int, n_columns: int, scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        return generator.laplace(0, scale / np.sqrt(2), (n_samples, n_columns))


@register_dataclass
@dataclass(frozen=True)
class UniformNoise(Noise):
    """Independent uniform noise in every column, with the noise scale as standard deviation.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, UniformNoise
    >>> model = KernelExponentialFamily(noise=UniformNoise())
    """

    def characteristic(self, frequencies: Float[Array, "q d"], scale: Scale) -> Float[Array, " q"]:
        return jnp.prod(jnp.sinc(np.sqrt(3) / np.pi * scale * frequencies), axis=1)

    def covariance_shape(self, n_columns: int) -> Float[np.ndarray, "d d"]:
        return np.eye(n_columns)

    def sample(
        self, n_samples: int, n_columns: int, scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        reach = np.sqrt(3) * scale
        return generator.uniform(-reach, reach, (n_samples, n_columns))


@register_dataclass
@dataclass(frozen=True)
class CharacteristicNoise(Noise):
    """A user's own symmetric distribution of unit scale.

    Parameters
    ----------
    unit_characteristic : callable
        ψ for scale one: maps an array of frequencies (q, d) to (q,), in `jax.numpy`.
    unit_sample : callable, optional
        Draws of scale one: ``unit_sample(n_samples, n_columns, generator)``; only noise
        treatments that draw need it.

    Examples
    --------
    Gaussian noise, by its characteristic function:

    >>> import jax.numpy as jnp
    >>> from kexpfam import CharacteristicNoise, KernelExponentialFamily
    >>> noise = CharacteristicNoise(lambda w: jnp.exp(-(w**2).sum(axis=1) / 2))
    >>> model = KernelExponentialFamily(noise=noise)
    """

    unit_characteristic: Callable[..., Any] = field(metadata={"static": True})
    unit_sample: Callable[..., Any] | None = field(default=None, metadata={"static": True})

    def __post_init__(self) -> None:
        if not callable(self.unit_characteristic):
            raise ValueError(
                "unit_characteristic must be a function of frequencies (q, d) that returns (q,); "
                f"got {self.unit_characteristic!r}."
            )

    def characteristic(self, frequencies: Float[Array, "q d"], scale: Scale) -> Float[Array, " q"]:
        return self.unit_characteristic(scale * frequencies)

    def sample(
        self, n_samples: int, n_columns: int, scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        if self.unit_sample is None:
            raise ValueError(
                "This noise was given no unit_sample and cannot be drawn from. Give "
                "CharacteristicNoise(unit_characteristic, unit_sample)."
            )
        return scale * np.asarray(self.unit_sample(n_samples, n_columns, generator), float)
