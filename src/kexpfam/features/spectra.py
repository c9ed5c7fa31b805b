"""Kernels by their spectral distributions.

By Bochner's theorem k(x − y) = E cos(w·(x − y)) for w drawn from the kernel's spectral
distribution. The distributions here are scale mixtures of the standard normal: w = t·g with g ~
N(0, I) and a positive multiplier t that depends on the kernel,

    RBF                 exp(−r²/2)                        t = 1
    Matérn-ν            Student-t with 2ν degrees         t² = 2ν / χ²(2ν)
    rational quadratic  (1 + r²/2α)^(−α)                  t² ~ Gamma(α, rate α)

for unit length-scales; other length-scales divide w column by column. The same kernels as
functions of the squared distance s = r² (`profile`) serve the bases made of kernel sections. For
half-integer ν the Matérn profile is an exponential times a polynomial; with z = √(2νs),

    B_ν(z²) = z^ν K_ν(z)        dB_ν/d(z²) = −½ B_{ν−1}(z²)

so its derivatives are profiles of the same family.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import stats

from kexpfam.choices import positive_number

__all__ = ["SPECTRA", "Matern", "RadialBasis", "RationalQuadratic", "Spectrum"]


@runtime_checkable
class Spectrum(Protocol):
    """A spectral distribution, as a scale mixture of normals."""

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        """The multiplier t at the given quantiles of its distribution."""
        ...

    @property
    def n_derivatives(self) -> float:
        """How many derivatives the kernel has at zero distance."""
        ...

    def profile(self, squares: Float[Any, "*shape"]) -> Float[Array, "*shape"]:
        """The kernel as a function of the squared distance."""
        ...


@dataclass(frozen=True)
class RadialBasis:
    """The Gaussian kernel exp(−r²/2)."""

    @property
    def n_derivatives(self) -> float:
        return math.inf

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        return np.ones_like(uniforms)

    def profile(self, squares: Float[Any, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.exp(-squares / 2)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _bessel_profile(order: int, squares: Array) -> Array:
    """z^ν K_ν(z) √(2/π) with ν = order + ½ and z² = squares; finite at zero for order ≥ 0.

    Below zero order it diverges at zero, where it only ever meets factors that are zero: the
    distance is kept from falling to where the product would not be a number.
    """
    z = jnp.sqrt(jnp.maximum(squares, 1e-20))
    size = order if order >= 0 else -order - 1
    terms = [
        math.factorial(size + k) / (math.factorial(k) * math.factorial(size - k) * 2**k)
        for k in range(size + 1)
    ]
    polynomial = sum(term * z ** (size - k) for k, term in enumerate(terms))
    return jnp.exp(-z) * polynomial * (1.0 if order >= 0 else z ** (2 * order + 1))


@_bessel_profile.defjvp
def _bessel_slope(order: int, primals: Any, tangents: Any) -> Any:
    (squares,), (change,) = primals, tangents
    return _bessel_profile(order, squares), -_bessel_profile(order - 1, squares) / 2 * change


@dataclass(frozen=True)
class Matern:
    """The Matérn kernel of smoothness `nu` > 2.

    Score matching needs the kernel's fourth derivatives at zero, hence the fourth moments of
    its spectrum: they are finite only for ν > 2.

    Parameters
    ----------
    nu : float, default=2.5
        The smoothness.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, Matern
    >>> model = KernelExponentialFamily(kernel=Matern(nu=3.5))
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        if not (isinstance(self.nu, numbers.Real) and self.nu > 2):
            raise ValueError(
                "nu must be a number above 2, because score matching needs four derivatives of "
                f"the kernel; got {self.nu!r}. Try nu=2.5."
            )

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        return np.sqrt(2 * self.nu / stats.chi2.ppf(uniforms, 2 * self.nu))

    @property
    def n_derivatives(self) -> float:
        return float(math.ceil(2 * self.nu) - 1)

    def profile(self, squares: Float[Any, "*shape"]) -> Float[Array, "*shape"]:
        order = self.nu - 0.5
        if order != int(order):
            raise ValueError(
                "Kernel sections of a Matérn kernel are written out for half-integer nu (2.5, 3.5, "
                f"…); got nu={self.nu:g}. Use one of these, or basis='fourier'."
            )
        double = math.factorial(2 * int(order)) / (2 ** int(order) * math.factorial(int(order)))
        return _bessel_profile(int(order), 2 * self.nu * squares) / double


@dataclass(frozen=True)
class RationalQuadratic:
    """The rational quadratic kernel (1 + r²/2α)^(−α).

    Parameters
    ----------
    alpha : float, default=1.0
        The smaller, the wider the range of length-scales that it mixes.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, RationalQuadratic
    >>> model = KernelExponentialFamily(kernel=RationalQuadratic(alpha=2.0))
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        positive_number("alpha", self.alpha)

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        return np.sqrt(stats.gamma.ppf(uniforms, self.alpha) / self.alpha)

    @property
    def n_derivatives(self) -> float:
        return math.inf

    def profile(self, squares: Float[Any, "*shape"]) -> Float[Array, "*shape"]:
        return (1 + squares / (2 * self.alpha)) ** -self.alpha


SPECTRA: dict[str, Spectrum] = {
    "rbf": RadialBasis(),
    "matern": Matern(),
    "rational_quadratic": RationalQuadratic(),
}
