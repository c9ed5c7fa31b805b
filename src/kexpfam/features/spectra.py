"""Kernels by their spectral laws.

By Bochner's theorem k(x − y) = E cos(w·(x − y)) for w drawn from the kernel's spectral law.
The laws here are scale mixtures of the standard normal: w = t·g with g ~ N(0, I) and a
positive multiplier t that depends on the kernel,

    RBF                 exp(−r²/2)                        t = 1
    Matérn-ν            Student-t with 2ν degrees         t² = 2ν / χ²(2ν)
    rational quadratic  (1 + r²/2α)^(−α)                  t² ~ Gamma(α, rate α)

for unit length-scales; other length-scales divide w column by column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy import stats

__all__ = ["SPECTRA", "Matern", "RadialBasis", "RationalQuadratic", "Spectrum"]


@runtime_checkable
class Spectrum(Protocol):
    """A spectral law, as a scale mixture of normals."""

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        """The multiplier t at the given quantiles of its law."""
        ...


@dataclass(frozen=True)
class RadialBasis:
    """The Gaussian kernel exp(−r²/2)."""

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        return np.ones_like(uniforms)


@dataclass(frozen=True)
class Matern:
    """The Matérn kernel of smoothness `nu` > 2.

    Score matching needs the kernel's fourth derivatives at zero, hence the fourth moments of
    its spectrum: they are finite only for ν > 2.
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        if not self.nu > 2:
            raise ValueError(
                f"A Matérn kernel needs nu > 2 here, because score matching uses fourth moments "
                f"of its spectrum; got nu={self.nu}. Try nu=2.5."
            )

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        return np.sqrt(2 * self.nu / stats.chi2.ppf(uniforms, 2 * self.nu))


@dataclass(frozen=True)
class RationalQuadratic:
    """The rational quadratic kernel (1 + r²/2α)^(−α)."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive; got {self.alpha}.")

    def multipliers(self, uniforms: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        return np.sqrt(stats.gamma.ppf(uniforms, self.alpha) / self.alpha)


SPECTRA: dict[str, Spectrum] = {
    "rbf": RadialBasis(),
    "matern": Matern(),
    "rational_quadratic": RationalQuadratic(),
}
