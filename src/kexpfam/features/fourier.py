"""Fourier features, and moments of the data that do not depend on the noise.

Every frequency w_i (with phase b_i and amplitude a_i) has an angle θ_i = w_i·x + b_i. The
features are the pairs a_i cos θ_i, a_i sin θ_i, or the cosines alone with random phases, as in
the paper. The trigonometric vector t = [cos θ, sin θ] and its products are all that is summed
over the rows; derivatives of t are t again, up to factors w.

With means cc = mean cos cosᵀ and so on, noise of characteristic function ψ, and
E⁻_ij = ψ(w_i − w_j), E⁺_ij = ψ(w_i + w_j), averaging over the noise gives

    A = E⁻⊙(cc + ss)/2       B = E⁺⊙(cc − ss)/2
    ss → A − B   cc → A + B  sc → ½ [E⁺⊙(sc + scᵀ) + E⁻⊙(sc − scᵀ)]
    H = aaᵀ ⊙ WWᵀ ⊙ [[ss, −sc], [−scᵀ, cc]]
    h_cos = a ⊙ (−|w|²ψ c − ψ Σ_k w_k sin·ŝ_k + Σ_k ∂_kψ (cos·J w)_k)
    h_sin = a ⊙ (−|w|²ψ s + ψ Σ_k w_k cos·ŝ_k + Σ_k ∂_kψ (sin·J w)_k)

where J = ∇²log q0 and ŝ = s0 + ½σ² bend at the rows (see `kexpfam.base.density`): exact where
s0 = ∇log q0 is affine, else up to fourth order in the noise scale σ.

| symbol | name        | shape  |
|--------|-------------|--------|
| W      | frequencies | (q, d) |
| b      | phases      | (q,)   |
| a      | amplitudes  | (q,)   |

The sums themselves are in `kexpfam.features.fourier_sums`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.choices import checked_name
from kexpfam.data.blocks import Block
from kexpfam.data.sketch import Sketch
from kexpfam.features.draws import DRAWS
from kexpfam.features.fourier_sums import (
    FourierMoments,
    FourierParts,
    base_columns,
    base_sums,
)
from kexpfam.features.parted import ROWS_TOGETHER, parted_products, parted_sums, parts_of
from kexpfam.features.products import from_upper_half, products_of_halves, upper_products
from kexpfam.features.spectra import Spectrum
from kexpfam.features.trigonometry import cosine_and_sine
from kexpfam.noise import Noise
from kexpfam.precision import is_accelerated
from kexpfam.quadratic import QuadraticSystem

__all__ = ["FourierBasis", "FourierFeatures", "FourierMoments", "FourierParts"]


PRECISIONS = ("double", "single", "mixed")
# Matrices of such widths are multiplied faster than narrower ones: processors', and accelerators'.
_COLUMNS_IN_STEP, _COLUMNS_TOGETHER = 8, 32
# A mini-batch of tuning is fitted with at most this many.
_FREQUENCIES_FOR_TUNING = 128


@register_dataclass
@dataclass(frozen=True)
class FourierBasis:
    """Cosines and sines (`paired`), or cosines alone, of q angles."""

    frequencies: Float[Any, "q d"]
    phases: Float[Any, " q"]
    amplitudes: Float[Any, " q"]
    paired: bool = field(default=True, metadata={"static": True})
    single: bool = field(default=False, metadata={"static": True})
    mixed: bool = field(default=False, metadata={"static": True})
    # Model files of earlier versions lack it.
    fields_added: ClassVar[tuple[str, ...]] = ("mixed",)
    summed_by: ClassVar[Literal["compiled code", "products", "itself"]] = "products"
    n_derivatives: ClassVar[float] = math.inf
    moments_follow_noise: ClassVar[bool] = False
    keeps_means: ClassVar[bool] = True

    @property
    def n_features(self) -> int:
        return len(self.phases) * (2 if self.paired else 1)

    def averages(self, noise: Noise) -> bool:
        return True

    def for_batch(self, rows: Float[Any, "n d"]) -> FourierBasis:
        """Some of the frequencies: length-scales tuned with them are as good for all."""
        count, kept = len(self.phases), _FREQUENCIES_FOR_TUNING
        if count <= kept:
            return self
        some = slice(0, kept)
        share = (self.amplitudes[some] ** 2).sum() / (self.amplitudes**2).sum()
        return replace(
            self,
            frequencies=self.frequencies[some],
            phases=self.phases[some],
            amplitudes=self.amplitudes[some] / jnp.sqrt(share),
        )

    def rescaled(self, length_scale: Any) -> FourierBasis:
        return replace(self, frequencies=self.frequencies / length_scale)

    def penalty_matrix(self) -> None:
        return None

    # -- evaluation -----------------------------------------------------------------------

    def _trigonometry(self, rows: Float[Any, "n d"], single: bool = False) -> tuple[Array, Array]:
        """Cosines and sines, one line per frequency: products along rows run fastest so."""
        angles = self.frequencies @ rows.T + self.phases[:, None]
        return cosine_and_sine(angles, single)

    def _halves(self, coefficients: Float[Any, " m"]) -> tuple[Array, Array]:
        """Coefficients of cos θ and sin θ, amplitudes included."""
        if not self.paired:
            return self.amplitudes * coefficients, jnp.zeros_like(coefficients)
        cosine, sine = jnp.split(coefficients, 2)
        return self.amplitudes * cosine, self.amplitudes * sine

    def terms(self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]) -> tuple[Array, Array]:
        """What each frequency adds to f, and the derivative of that by its angle."""
        (cos, sin), (b_cos, b_sin) = self._trigonometry(rows), self._halves(coefficients)
        b_cos, b_sin = b_cos[:, None], b_sin[:, None]
        return b_cos * cos + b_sin * sin, b_sin * cos - b_cos * sin

    def features(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        cos, sin = self._trigonometry(rows)
        parts = (cos, sin) if self.paired else (cos,)
        return jnp.concatenate([self.amplitudes[:, None] * part for part in parts]).T

    def values(self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        (cos, sin), (b_cos, b_sin) = self._trigonometry(rows), self._halves(coefficients)
        return b_cos @ cos + b_sin @ sin

    def gradient(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]
    ) -> Float[Array, "n d"]:
        _, slopes = self.terms(coefficients, rows)
        return slopes.T @ self.frequencies

    def laplacian(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"], metric: Float[Any, " d"]
    ) -> Float[Array, " n"]:
        (cos, sin), (b_cos, b_sin) = self._trigonometry(rows), self._halves(coefficients)
        squares = self.frequencies**2 @ metric
        return -((squares * b_cos) @ cos + (squares * b_sin) @ sin)

    def curvature(
        self,
        coefficients: Float[Any, " m"],
        rows: Float[Any, "n d"],
        axes: Float[Any, "d e"],
        metric: Float[Any, "n e"],
    ) -> Float[Array, " n"]:
        """Σ_e metric_e a_eᵀ ∇²f a_e at each row, for the columns a_e of `axes`."""
        values, _ = self.terms(coefficients, rows)
        return -((((self.frequencies @ axes) ** 2).T @ values).T * metric).sum(axis=1)

    # -- the sums over rows ---------------------------------------------------------------

    def moments(self, block: Block, noise: Noise, noise_scale: Any) -> FourierMoments:
        """Sums that hold for every noise."""
        if not is_accelerated():
            parts = self.parts(block)
            gram = upper_products(parts.lines).astype("float64")
            return parts.others._replace(gram=gram)
        # Short formats do not know large weights: they are measured by a block's largest.
        unit = jnp.maximum(jnp.asarray(block.weights).max(), 1e-300) if self.mixed else 1.0
        roots = jnp.sqrt(block.weights / unit)
        # Cosines and sines apart: joining them takes as long as computing them.
        halves = self._weighted_halves(block, roots)
        rights = base_columns(block, roots, multiple_of=_COLUMNS_TOGETHER)
        if self.mixed and len(block.weights) >= ROWS_TOGETHER:
            pair = [parts_of(half) for half in halves]
            sums = [parted_sums(one, rights) for one in pair]
            gram = parted_products(*pair)
        else:
            columns = rights.astype(halves[0].dtype)
            sums = [jnp.matmul(half, columns, precision="highest") for half in halves]
            gram = products_of_halves(*halves)
        others = base_sums(block, self.frequencies, unit * jnp.concatenate(sums).astype("float64"))
        return others._replace(gram=unit * gram.astype("float64"))

    def parts(self, block: Block) -> FourierParts:
        """All sums but the products, and the lines whose products are to be summed."""
        roots = jnp.sqrt(block.weights)
        lines = jnp.concatenate(self._weighted_halves(block, roots))
        # One product for all of them, which reads the lines once.
        rights = base_columns(block, roots, multiple_of=_COLUMNS_IN_STEP).astype(lines.dtype)
        sums = jnp.matmul(lines, rights, precision="highest").astype("float64")
        return FourierParts(lines, base_sums(block, self.frequencies, sums))

    def _weighted_halves(self, block: Block, roots: Float[Any, " n"]) -> tuple[Array, Array]:
        """Cosines and sines, times roots of the weights."""
        cos, sin = self._trigonometry(block.rows, self.single or self.mixed)
        shares = roots.astype(cos.dtype)
        return cos * shares, sin * shares

    def mean_features(self, moments: FourierMoments) -> Float[np.ndarray, " m"]:
        """The mean of φ over the rows that were summed."""
        kept = slice(None) if self.paired else slice(len(self.phases))
        amplitudes = np.tile(np.asarray(self.amplitudes), 2)[kept]
        return amplitudes * np.asarray(moments.total)[kept] / float(moments.weight)

    # -- the quadratic objective ----------------------------------------------------------

    def system(self, moments: FourierMoments, noise: Noise, noise_scale: Any) -> QuadraticSystem:
        kept = slice(None) if self.paired else slice(len(self.phases))
        quadratic = self._quadratic(moments, noise, noise_scale)[kept, kept]
        return QuadraticSystem(quadratic, self._linear(moments, noise, noise_scale)[kept])

    def _quadratic(self, moments: FourierMoments, noise: Noise, noise_scale: Any) -> Array:
        count = len(self.phases)
        means = from_upper_half(moments.gram) / moments.weight
        cc, ss, sc = means[:count, :count], means[count:, count:], means[count:, :count]
        minus, plus = noise.pairwise(self.frequencies, noise_scale)
        even, odd = minus * (cc + ss) / 2, plus * (cc - ss) / 2
        mixed = (plus * (sc + sc.T) + minus * (sc - sc.T)) / 2
        scaled = self.amplitudes[:, None] * self.frequencies
        return jnp.tile(scaled @ scaled.T, (2, 2)) * jnp.block(
            [[even - odd, -mixed], [-mixed.T, even + odd]]
        )

    def _linear(self, moments: FourierMoments, noise: Noise, noise_scale: Any) -> Array:
        frequencies = self.frequencies
        damping = noise.characteristic(frequencies, noise_scale)
        slope = noise.gradient(frequencies, noise_scale)
        squares = (frequencies**2).sum(axis=1)
        c, s = jnp.split(moments.total, 2)
        base = moments.base_cross + noise_scale**2 / 2 * moments.base_bend
        cos_base, sin_base = jnp.split(base, 2)
        cos_curved, sin_curved = jnp.split(moments.base_curvature, 2)
        cosine = damping * (-squares * c - (frequencies * sin_base).sum(axis=1))
        sine = damping * (-squares * s + (frequencies * cos_base).sum(axis=1))
        cosine += (slope * cos_curved).sum(axis=1)
        sine += (slope * sin_curved).sum(axis=1)
        amplitudes = jnp.tile(self.amplitudes, 2)
        return amplitudes * jnp.concatenate([cosine, sine]) / moments.weight


@dataclass(frozen=True)
class FourierFeatures:
    """How to draw a Fourier basis.

    Parameters
    ----------
    draw : {"orthogonal", "independent", "hadamard", "quasi", "quadrature"}, default="orthogonal"
        How frequencies are drawn from the kernel's spectral distribution.
    phases : {"paired", "random"}, default="paired"
        A cosine and a sine per frequency, or one cosine with a random phase as in the paper.
    precision : {"double", "single", "mixed"}, default="double"
        Of the features while they are summed over rows: "single" takes a third less time on a CPU.
        Blocks of rows are summed in float32 and added up in float64; means are off by 10⁻⁷.
        "mixed" is for a GPU: features in two float16 parts (see `kexpfam.features.parted`), more
        than twice as fast; means are off by up to 2·10⁻⁵. On a CPU it is "single".

    Examples
    --------
    >>> from kexpfam import FourierFeatures, KernelExponentialFamily
    >>> model = KernelExponentialFamily(basis=FourierFeatures(draw="hadamard"))
    """

    draw: str = "orthogonal"
    phases: str = "paired"
    precision: str = "double"

    def __post_init__(self) -> None:
        checked_name("draw", self.draw, DRAWS)
        checked_name("precision", self.precision, PRECISIONS)
        checked_name("phases", self.phases, ("paired", "random"))

    def build(
        self,
        n_components: int,
        sketch: Sketch,
        spectrum: Spectrum,
        generator: np.random.Generator,
    ) -> FourierBasis:
        """Draw a basis of `n_components` features for unit length-scales.

        An odd number is rounded up where features come in cosine-sine pairs.
        """
        paired = self.phases == "paired"
        count = (n_components + 1) // 2 if paired else n_components
        drawn = DRAWS[self.draw](generator, count, sketch.rows.shape[1])
        turns = np.zeros(count) if paired else generator.uniform(0, 2 * np.pi, count)
        amplitudes = np.sqrt(drawn.weights * (1 if paired else 2))
        frequencies = drawn.normals * spectrum.multipliers(drawn.uniforms)[:, None]
        single, mixed = self.precision == "single", self.precision == "mixed"
        return FourierBasis(frequencies, turns, amplitudes, paired, single, mixed)
