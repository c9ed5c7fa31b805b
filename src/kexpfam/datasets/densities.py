"""The paper's eight two-dimensional densities, each with draws, log density and its gradient.

The parameters reproduce the true log-likelihoods that the paper reports:

| name                | distribution                                                     | E log p |
|---------------------|---------------------------------------------------------|---------|
| gaussian_mixture    | at (±2, ±2), std 0.8 and 0.5, weights 0.4 to 0.1 | −3.28   |
| uniform             | the square [−3, 3]²                                     | −3.584  |
| mixture_of_uniforms | two 3 × 3 squares, [−4, −1]² and [1, 4]², equal weights | −2.890  |
| cosine              | x₀ ~ U(−4, 4), x₁ ~ N(3 cos 2x₀, 1)                     | −3.498  |
| funnel              | x₀ ~ N(0, 1), x₁ ~ N(0, exp(−x₀))                       | −2.838  |
| banana              | x₀ ~ N(0, 1), x₁ ~ N(x₀² − 1, 1)                        | −2.838  |
| ring                | radius N(4, ½²), any angle                              | −3.94   |
| mixture_of_rings    | radii 1, 3, 5 with weights in proportion                | −4.65   |

(The paper does not give its Gaussian mixture; this one is ours.)

Where a density is zero its log is −∞ and its gradient zero. For rings a radius drawn below
zero lands on the other side, so the density at radius ρ is
Σ_k w_k [N(ρ; r_k, σ) + N(−ρ; r_k, σ)] / (2πρ), and the score has a term −x/|x|².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from sklearn.utils import check_array

from kexpfam.base import BoxDensity, GaussianMixtureDensity
from kexpfam.choices import checked_name, seeded, whole
from kexpfam.data.tables import refuse_what_is_no_table

__all__ = ["DENSITIES", "KnownDensity", "make_density"]

_LOG_2PI = float(np.log(2 * np.pi))


@runtime_checkable
class KnownDensity(Protocol):
    """A density whose truth is known."""

    def sample(self, n_samples: int, random_state: Any = None) -> np.ndarray:
        """Independent rows; `random_state` is an int, RandomState, Generator or None."""
        ...

    def log_density(self, X: Any) -> np.ndarray:
        """log p at each row of X."""
        ...

    def gradient(self, X: Any) -> np.ndarray:
        """∇log p at each row of X."""
        ...


def _rows(X: Any) -> Float[np.ndarray, "n 2"]:
    """Rows of two columns; what is not finite may pass."""
    refuse_what_is_no_table(X)
    rows = check_array(X, dtype=np.float64, ensure_all_finite=False, input_name="X")
    if rows.shape[1] != 2:
        raise ValueError(f"X must have two columns, as this density has; got {rows.shape[1]}.")
    return rows


@dataclass(frozen=True)
class GaussianMixture:
    """Several Gaussians with known parameters."""

    mixture: GaussianMixtureDensity

    def sample(self, n_samples: int, random_state: Any = None) -> Float[np.ndarray, "n 2"]:
        n_samples = whole("n_samples", n_samples, least=0)
        return self.mixture.sample(n_samples, seeded(random_state))

    def log_density(self, X: Any) -> Float[np.ndarray, " n"]:
        X = _rows(X)
        return self.mixture.log_density(X)

    def gradient(self, X: Any) -> Float[np.ndarray, "n 2"]:
        X = _rows(X)
        return self.mixture.gradient(X)


@dataclass(frozen=True)
class Uniforms:
    """Equal parts of uniform distributions on disjoint boxes of equal volume."""

    boxes: tuple[BoxDensity, ...]

    def sample(self, n_samples: int, random_state: Any = None) -> Float[np.ndarray, "n 2"]:
        n_samples = whole("n_samples", n_samples, least=0)
        generator = seeded(random_state)
        draws = np.stack([box.sample(n_samples, generator) for box in self.boxes])
        return draws[generator.integers(len(self.boxes), size=n_samples), np.arange(n_samples)]

    def log_density(self, X: Any) -> Float[np.ndarray, " n"]:
        X = _rows(X)
        logs = [box.log_density(X) for box in self.boxes]
        return np.maximum.reduce(logs) - np.log(len(self.boxes))

    def gradient(self, X: Any) -> Float[np.ndarray, "n 2"]:
        X = _rows(X)
        return np.zeros_like(X)


@dataclass(frozen=True)
class Cosine:
    """A wave with Gaussian thickness over a uniform range."""

    half_width: float = 4.0
    height: float = 3.0
    rate: float = 2.0

    def sample(self, n_samples: int, random_state: Any = None) -> Float[np.ndarray, "n 2"]:
        n_samples = whole("n_samples", n_samples, least=0)
        generator = seeded(random_state)
        first = generator.uniform(-self.half_width, self.half_width, n_samples)
        second = generator.normal(self.height * np.cos(self.rate * first), 1)
        return np.column_stack([first, second])

    def log_density(self, X: Any) -> Float[np.ndarray, " n"]:
        X = _rows(X)
        shift = X[:, 1] - self.height * np.cos(self.rate * X[:, 0])
        inside = -(shift**2 + _LOG_2PI) / 2 - np.log(2 * self.half_width)
        return np.where(np.abs(X[:, 0]) <= self.half_width, inside, -np.inf)

    def gradient(self, X: Any) -> Float[np.ndarray, "n 2"]:
        X = _rows(X)
        shift = X[:, 1] - self.height * np.cos(self.rate * X[:, 0])
        slope = -self.height * self.rate * np.sin(self.rate * X[:, 0])
        inside = np.abs(X[:, :1]) <= self.half_width
        return np.where(inside, np.column_stack([shift * slope, -shift]), 0.0)


@dataclass(frozen=True)
class Funnel:
    """A Gaussian whose variance shrinks along the first column."""

    def sample(self, n_samples: int, random_state: Any = None) -> Float[np.ndarray, "n 2"]:
        n_samples = whole("n_samples", n_samples, least=0)
        generator = seeded(random_state)
        first = generator.standard_normal(n_samples)
        return np.column_stack([first, generator.normal(0, np.exp(-first / 2))])

    def log_density(self, X: Any) -> Float[np.ndarray, " n"]:
        X = _rows(X)
        first, second = X.T
        return -(first**2 + second**2 * np.exp(first) - first) / 2 - _LOG_2PI

    def gradient(self, X: Any) -> Float[np.ndarray, "n 2"]:
        X = _rows(X)
        first, second = X.T
        growth = np.exp(first)
        return np.column_stack([(1 - second**2 * growth) / 2 - first, -second * growth])


@dataclass(frozen=True)
class Banana:
    """A Gaussian bent along a parabola."""

    bend: float = 1.0

    def sample(self, n_samples: int, random_state: Any = None) -> Float[np.ndarray, "n 2"]:
        n_samples = whole("n_samples", n_samples, least=0)
        generator = seeded(random_state)
        first = generator.standard_normal(n_samples)
        return np.column_stack([first, generator.normal(self.bend * (first**2 - 1), 1)])

    def log_density(self, X: Any) -> Float[np.ndarray, " n"]:
        X = _rows(X)
        shift = X[:, 1] - self.bend * (X[:, 0] ** 2 - 1)
        return -(X[:, 0] ** 2 + shift**2) / 2 - _LOG_2PI

    def gradient(self, X: Any) -> Float[np.ndarray, "n 2"]:
        X = _rows(X)
        shift = X[:, 1] - self.bend * (X[:, 0] ** 2 - 1)
        return np.column_stack([-X[:, 0] + 2 * self.bend * X[:, 0] * shift, -shift])


@dataclass(frozen=True)
class Rings:
    """Concentric rings with Gaussian radii."""

    radii: tuple[float, ...]
    deviation: float = 0.5

    @property
    def weights(self) -> Float[np.ndarray, " k"]:
        return np.asarray(self.radii) / np.sum(self.radii)

    def sample(self, n_samples: int, random_state: Any = None) -> Float[np.ndarray, "n 2"]:
        n_samples = whole("n_samples", n_samples, least=0)
        generator = seeded(random_state)
        centers = generator.choice(self.radii, n_samples, p=self.weights)
        radius = generator.normal(centers, self.deviation)
        angle = generator.uniform(0, 2 * np.pi, n_samples)
        return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def _terms(
        self, radius: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """Log densities of the radius and their slopes: each ring, then its mirror image."""
        centers = np.concatenate([self.radii, np.negative(self.radii)])
        shifts = (radius[:, None] - centers) / self.deviation
        logs = np.log(np.tile(self.weights, 2)) - shifts**2 / 2
        return logs - np.log(self.deviation) - _LOG_2PI / 2, -shifts / self.deviation

    def log_density(self, X: Any) -> Float[np.ndarray, " n"]:
        X = _rows(X)
        radius = np.hypot(*X.T)
        with np.errstate(divide="ignore"):
            return logsumexp(self._terms(radius)[0], axis=1) - _LOG_2PI - np.log(radius)

    def gradient(self, X: Any) -> Float[np.ndarray, "n 2"]:
        X = _rows(X)
        radius = np.hypot(*X.T)
        logs, slopes = self._terms(radius)
        shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            along = (shares * slopes).sum(axis=1) - 1 / radius
            return np.where(radius[:, None] > 0, X * (along / radius)[:, None], 0.0)


def _box(low: float, high: float) -> BoxDensity:
    return BoxDensity(np.full(2, low), np.full(2, high))


DENSITIES: dict[str, KnownDensity] = {
    "gaussian_mixture": GaussianMixture(
        GaussianMixtureDensity(
            np.array([0.4, 0.3, 0.2, 0.1]),
            np.array([[-2.0, -2.0], [2.0, 2.0], [-2.0, 2.0], [2.0, -2.0]]),
            np.array([s**2 * np.eye(2) for s in (0.8, 0.5, 0.8, 0.5)]),
        )
    ),
    "uniform": Uniforms((_box(-3.0, 3.0),)),
    "mixture_of_uniforms": Uniforms((_box(-4.0, -1.0), _box(1.0, 4.0))),
    "cosine": Cosine(),
    "funnel": Funnel(),
    "banana": Banana(),
    "ring": Rings((4.0,)),
    "mixture_of_rings": Rings((1.0, 3.0, 5.0)),
}


# Not among the paper's: the black squares of an 8 × 8 board.
_OTHERS: dict[str, KnownDensity] = {
    "checkerboard": Uniforms(
        tuple(
            BoxDensity(np.array([x, y], float), np.array([x + 1, y + 1], float))
            for x in range(-4, 4)
            for y in range(-4, 4)
            if (x + y) % 2 == 0
        )
    ),
}


def make_density(name: str) -> KnownDensity:
    """A two-dimensional density with known truth, by name.

    Parameters
    ----------
    name : str
        One of the paper's, whose names are the keys of `DENSITIES` ("gaussian_mixture", "uniform",
        "mixture_of_uniforms", "cosine", "funnel", "banana", "ring", "mixture_of_rings"), or
        "checkerboard".

    Returns
    -------
    KnownDensity
        With ``sample(n_samples, random_state=None)``, ``log_density(X)`` and ``gradient(X)``.

    Examples
    --------
    >>> from kexpfam.datasets import make_density
    >>> density = make_density("banana")
    >>> X = density.sample(1000, random_state=0)
    >>> X.shape, density.log_density(X).shape, density.gradient(X).shape
    ((1000, 2), (1000,), (1000, 2))
    """
    known = {**DENSITIES, **_OTHERS}
    return known[checked_name("name", name, sorted(known))]
