"""Arc-cosine features φ_j(x) = √(2/m) (u_j)₊ᵖ with u_j = w_j·x + b_j and Gaussian w_j, b_j.

Their kernel is the arc-cosine kernel of degree p (Cho & Saul 2009; no bias: b = 0, as in the
paper). With Gaussian noise u gets variance τ² = σ²wᵀCw. Let q = p − 1 and M_k = E(u+τZ)₊ᵏ, the
truncated normal moments,

    M_0 = Φ(u/τ)      M_1 = uM_0 + τφ(u/τ)      M_k = uM_{k−1} + (k−1)τ²M_{k−2}.

Their derivatives in u are ∂M_k = kM_{k−1} and, from there on, Gaussian densities times Hermite
polynomials. By Stein's identity, with ŝ and J the base's gradient (with its bend) and Hessian,

    h_j = √(2/m) p mean[ |w|² ∂M_q + w·ŝ M_q + σ² wᵀJCw ∂M_q ]

and by repeated use of Price's theorem (a series in the covariance r_ij = σ²w_iᵀCw_j)

    H_ij = (2/m) p² w_i·w_j mean Σ_k (r_ij)ᵏ/k! · ∂ᵏM_q(u_i) ∂ᵏM_q(u_j).

Every partial sum is positive semi-definite and costs one matrix product per term. The diagonal,
where the series converges slowest, is put right by its closed form M_2q. Cut after K terms, what
is left is below about K^(−p+½)/10 of τ^2q, and only for nearly parallel weights.

The paper leaves the indicator unsmoothed: polynomial moments E(u+τZ)ᵏ times 1(u > 0), where the
series ends at k = q. (For p = 2 its h has a factor w·x too many.)

| symbol | name      | shape  |
|--------|-----------|--------|
| w_j    | weights   | (m, d) |
| b_j    | biases    | (m,)   |
| u      | preactivations | (n, m) |
| τ      | deviations| (m,)   |
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field, replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.choices import checked_name, whole
from kexpfam.data.blocks import Block
from kexpfam.data.sketch import Sketch
from kexpfam.features.basis import DirectMoments, PointwiseBasis
from kexpfam.features.spectra import RadialBasis, Spectrum
from kexpfam.noise import GaussianNoise, Noise, NoNoise

__all__ = ["ArcCosineBasis", "ArcCosineFeatures"]

# Terms of the series; degree one converges slowly and gets more.
_N_TERMS = {1: 160}
_N_TERMS_ABOVE = 40


@register_dataclass
@dataclass(frozen=True)
class ArcCosineBasis(PointwiseBasis):
    """Rectified powers of linear functions."""

    weights: Float[Any, "m d"]
    biases: Float[Any, " m"]
    degree: int = field(metadata={"static": True})
    smoothing: str = field(default="exact", metadata={"static": True})

    @property
    def n_features(self) -> int:
        return len(self.biases)

    @property
    def n_derivatives(self) -> float:
        return float(self.degree)

    @property
    def moments_follow_noise(self) -> bool:
        return True

    def averages(self, noise: Noise) -> bool:
        if isinstance(noise, NoNoise):
            return self.degree >= 2
        return isinstance(noise, GaussianNoise)

    def rescaled(self, length_scale: Any) -> ArcCosineBasis:
        return replace(self, weights=self.weights / length_scale)

    # -- evaluation -----------------------------------------------------------------------

    @property
    def _amplitude(self) -> float:
        return math.sqrt(2 / len(self.biases))

    def _preactivations(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        return rows @ self.weights.T + self.biases

    def features(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        return self._amplitude * jnp.maximum(self._preactivations(rows), 0.0) ** self.degree

    def gradient(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]
    ) -> Float[Array, "n d"]:
        slopes = self.degree * _rectified(self._preactivations(rows), self.degree - 1)
        return (self._amplitude * slopes * coefficients) @ self.weights

    def laplacian(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"], metric: Float[Any, " d"]
    ) -> Float[Array, " n"]:
        factor = self._amplitude * self.degree * (self.degree - 1)
        bends = _rectified(self._preactivations(rows), max(self.degree - 2, 0))
        return factor * bends @ (coefficients * (self.weights**2 @ metric))

    # -- the sums over rows ---------------------------------------------------------------

    def moments(self, block: Block, noise: Noise, noise_scale: Any) -> DirectMoments:
        covariance = cast(GaussianNoise, noise).matrix(block.rows.shape[1], jnp)
        turned = self.weights @ covariance
        lengths = jnp.sqrt((turned * self.weights).sum(axis=1))
        correlations = jnp.clip(turned @ self.weights.T / jnp.outer(lengths, lengths), -1, 1)
        deviations = noise_scale * lengths
        inner = self._preactivations(block.rows)
        scaled = self._amplitude * self.degree * self.weights
        quadratic = (scaled @ scaled.T) * self._products(
            inner, deviations, correlations, jnp.asarray(block.weights)
        )
        levels = self._levels(inner, deviations)
        base = block.base_gradient + noise_scale**2 / 2 * block.base_bend
        curvature = jnp.einsum("...ij,mi,mj->...m", block.base_hessian, self.weights, turned)
        pull = levels[0] * (base @ self.weights.T)
        pull += levels[1] * ((self.weights**2).sum(axis=1) + noise_scale**2 * curvature)
        linear = self._amplitude * self.degree * (block.weights @ pull)
        return DirectMoments(block.weights.sum(), quadratic, linear)

    def _products(
        self, inner: Array, deviations: Array, correlations: Array, weights: Array
    ) -> Float[Array, "m m"]:
        """Σ_a weights_a E(u_i+τ_iZ_i)₊^q (u_j+τ_jZ_j)₊^q, by the series in their correlation."""
        order = self.degree - 1
        moments = self._truncated(inner, deviations, order)
        total = jnp.zeros_like(correlations)
        power = jnp.ones_like(correlations)
        for k in range(order + 1):  # τᵏ ∂ᵏM_q / √k!
            factor = math.perm(order, k) / math.sqrt(math.factorial(k))
            term = factor * deviations**k * moments[order - k]
            total += power * ((term * weights[:, None]).T @ term)
            power = power * correlations
        if self.smoothing == "paper":
            return total
        total = self._tail(total, power, inner, deviations, correlations, weights)
        diagonal = weights @ self._truncated(inner, deviations, 2 * (self.degree - 1))[-1]
        return total.at[jnp.diag_indices_from(total)].set(diagonal)

    def _levels(self, inner: Array, deviations: Array) -> tuple[Array, Array]:
        """M_q and its derivative."""
        order = self.degree - 1
        moments = self._truncated(inner, deviations, max(order, 0))
        if order >= 1:
            return moments[order], order * moments[order - 1]
        if self.smoothing == "paper":
            return moments[0], jnp.zeros_like(inner)
        safe = jnp.maximum(deviations, 1e-12)
        return moments[0], norm.pdf(_standardized(inner, deviations)) / safe

    def _truncated(self, inner: Array, deviations: Array, order: int) -> list[Array]:
        """M_0, …, M_order; with the indicator frozen at u, as in the paper, if so chosen."""
        if self.smoothing == "paper":
            zeroth, first = jnp.ones_like(inner), inner
        else:
            ratio = _standardized(inner, deviations)
            zeroth = norm.cdf(ratio)
            first = inner * zeroth + deviations * norm.pdf(ratio)
        moments = [zeroth, first]
        for k in range(2, order + 1):
            moments.append(inner * moments[-1] + (k - 1) * deviations**2 * moments[-2])
        if self.smoothing == "paper":
            moments = [(inner > 0) * moment for moment in moments]
        return moments[: order + 1]

    def _tail(
        self,
        total: Array,
        power: Array,
        inner: Array,
        deviations: Array,
        correlations: Array,
        weights: Array,
    ) -> Float[Array, "m m"]:
        """`total` with the terms after q: Gaussian densities times Hermite polynomials."""
        order = self.degree - 1
        ratio = _standardized(inner, deviations)
        scale = math.factorial(order) * deviations**order

        def one_term(carry: Any, number: Array) -> Any:
            # Normalized Hermite functions He_j(t)φ(t)/√j! by their recurrence, which is stable.
            total, power, before, current = carry
            k = order + 1 + number
            falling = jnp.exp((gammaln(number + 1) - gammaln(k + 1)) / 2)
            term = falling * scale * current
            total += power * ((term * weights[:, None]).T @ term)
            following = (ratio * current - jnp.sqrt(number) * before) / jnp.sqrt(number + 1)
            return (total, power * correlations, current, following), None

        start = total, power, jnp.zeros_like(ratio), norm.pdf(ratio)
        numbers = jnp.arange(_N_TERMS.get(self.degree, _N_TERMS_ABOVE), dtype=float)
        return jax.lax.scan(one_term, start, numbers)[0][0]


def _rectified(inner: Array, power: int) -> Array:
    """(u)₊^power, an indicator for power zero."""
    return jnp.where(inner > 0, inner**power, 0.0)


def _standardized(inner: Array, deviations: Array) -> Array:
    """u/τ; beyond forty standard deviations nothing changes any more in float64."""
    return jnp.clip(inner / jnp.maximum(deviations, 1e-12), -40.0, 40.0)


@dataclass(frozen=True)
class ArcCosineFeatures:
    """How to draw arc-cosine features.

    Parameters
    ----------
    degree : int, default=2
        The power p ≥ 1. f grows as ‖x‖ᵖ: above 2, or with a heavy-tailed base density, the
        normalizer need not exist. Degree 1 has kinks: it needs noise, and
        ``criterion="likelihood"`` for tuning.
    bias : float, default=1.0
        Standard deviation of the offsets b_j. The paper has none (0), which puts all hinges
        through the origin.
    smoothing : {"exact", "paper"}, default="exact"
        Gaussian noise averaged exactly, or with the indicator left unsmoothed as in the paper.

    Examples
    --------
    >>> from kexpfam import ArcCosineFeatures, KernelExponentialFamily
    >>> model = KernelExponentialFamily(basis=ArcCosineFeatures(degree=2))
    """

    degree: int = 2
    bias: float = 1.0
    smoothing: str = "exact"

    def __post_init__(self) -> None:
        whole("degree", self.degree)
        if not (isinstance(self.bias, numbers.Real) and 0 <= self.bias < np.inf):
            raise ValueError(f"bias must be a number ≥ 0; got {self.bias!r}.")
        checked_name("smoothing", self.smoothing, ("exact", "paper"))

    def build(
        self,
        n_components: int,
        sketch: Sketch,
        spectrum: Spectrum,
        generator: np.random.Generator,
    ) -> ArcCosineBasis:
        """Draw weights for unit length-scales."""
        if not isinstance(spectrum, RadialBasis):
            raise ValueError(
                "basis='arc_cosine' is a kernel of its own: leave kernel at its default; "
                f"got {spectrum!r}."
            )
        weights = generator.standard_normal((n_components, sketch.rows.shape[1]))
        biases = self.bias * generator.standard_normal(n_components)
        return ArcCosineBasis(weights, biases, self.degree, self.smoothing)
