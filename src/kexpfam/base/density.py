"""What a base density is, and how one is chosen.

log p(x) = f(x) + log q0(x) − log Z. The fit needs s0 = ∇log q0 at the rows and, because the noise
is averaged analytically, how s0 changes around them:

    s0(x+ε) ≈ s0(x) + ∇²log q0(x) ε + ½ Σ_jk cov(ε)_jk ∂_j∂_k s0(x).

This is exact for Gaussian and uniform q0, where the last term is zero, and has an error of fourth
order in the noise scale otherwise. (Without the last term, the *bend*, the error is of second
order: the mean of the quadratic remainder does not vanish.) The normalizer needs draws.

A *family* is fitted to rows and gives a density; a density is used as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from kexpfam.base.rescaled import RescaledDensity
from kexpfam.data.sketch import Sketch

__all__ = ["BaseDensity", "BaseFamily", "Completed", "fit_base", "require_rows"]


@runtime_checkable
class BaseDensity(Protocol):
    """A density with derivatives and draws.

    `hessian` may be (d, d) where it is constant; `bend` is Σ_jk C_jk ∂_j∂_k of the gradient;
    `widened` is a copy with heavier reach and `box` holds practically all mass (two corners).
    """

    def log_density(self, rows: np.ndarray) -> np.ndarray: ...

    def gradient(self, rows: np.ndarray) -> np.ndarray: ...

    def hessian(self, rows: np.ndarray) -> np.ndarray: ...

    def bend(self, rows: np.ndarray, covariance: np.ndarray) -> np.ndarray: ...

    def sample(self, n_samples: int, generator: np.random.Generator) -> np.ndarray: ...

    def widened(self, factor: float) -> BaseDensity: ...

    def box(self) -> tuple[np.ndarray, np.ndarray]: ...


@runtime_checkable
class BaseFamily(Protocol):
    """Something that is fitted to rows and gives a density."""

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> BaseDensity: ...


@dataclass(frozen=True)
class Completed:
    """A user's density with what it lacks: derivatives by differences, width and box from draws."""

    density: Any

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return np.asarray(self.density.log_density(rows), float)

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return np.asarray(self.density.gradient(rows), float)

    def hessian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "*n d d"]:
        """The density's own, or central differences of its gradient, symmetrized."""
        if hasattr(self.density, "hessian"):
            return np.asarray(self.density.hessian(rows), float)
        step = 1e-5 * _spread(rows)
        columns = [
            (self.gradient(rows + shift) - self.gradient(rows - shift)) / (2 * step)
            for shift in step * np.eye(rows.shape[1])
        ]
        hessian = np.stack(columns, axis=2)
        return (hessian + hessian.transpose(0, 2, 1)) / 2

    def bend(
        self, rows: Float[np.ndarray, "n d"], covariance: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, "n d"]:
        """Second differences of the gradient along the columns of a root of the covariance."""
        step = 1e-3 * _spread(rows)
        center = self.gradient(rows)
        ends = [
            self.gradient(rows + shift) + self.gradient(rows - shift) - 2 * center
            for shift in step * np.linalg.cholesky(covariance).T
        ]
        return np.sum(ends, axis=0) / step**2

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        return np.asarray(self.density.sample(n_samples, generator), float)

    def widened(self, factor: float) -> RescaledDensity:
        """The density stretched about its mean."""
        center = self._some_draws().mean(axis=0)
        return RescaledDensity(self, center * (1 - factor), np.full_like(center, factor))

    def box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Twice the box of many draws."""
        draws = self._some_draws()
        low, high = draws.min(axis=0), draws.max(axis=0)
        return low - (high - low) / 2, high + (high - low) / 2

    def _some_draws(self) -> Float[np.ndarray, "n d"]:
        return self.sample(10_000, np.random.default_rng(0))


def _spread(rows: Float[np.ndarray, "n d"]) -> float:
    """A typical standard deviation of the columns, to measure difference steps by."""
    spread = float(rows.std(axis=0).mean())
    return spread if spread > 0 else 1.0


def require_rows(found: int, needed: int, what: str, remedy: str) -> None:
    """Raise if there are too few distinct rows for a base density."""
    if found < needed:
        raise ValueError(
            f"{what} needs at least {needed} distinct rows of positive weight, but there are "
            f"{found}. {remedy}"
        )


def fit_base(base: Any, sketch: Sketch, generator: np.random.Generator) -> BaseDensity:
    """Fit a family, or take a density as it is (completed with what it lacks)."""
    if isinstance(base, BaseFamily):
        return base.fit(sketch, generator)
    if isinstance(base, BaseDensity):
        return base
    missing = [name for name in ("log_density", "gradient", "sample") if not hasattr(base, name)]
    if missing:
        raise ValueError(
            "base must be 'mixture', 'averaged_mixture', 'gaussian', 'uniform', 'boxes', 'auto', a "
            "family like MixtureBase(n_components=5), or a density of your own with "
            "log_density(rows), gradient(rows), sample(n, generator) and, if possible, "
            f"hessian(rows); got {base!r}, which lacks {', '.join(missing)}."
        )
    return Completed(base)
