"""Fourier features on a lattice, whose sums over rows are fast Fourier transforms.

For at most three columns the frequencies can be a lattice, w_k = (k_1 s_1, …, k_d s_d) with
integers |k_j| ≤ K, one of each pair ±k and zero left out: q = ((2K+1)^d − 1)/2 of them. The
features are the pairs a_k cos w_k·x, a_k sin w_k·x of a `FourierBasis`. Sums and differences of
lattice points are lattice points, so products of cosines and sines

    cos α cos β = ½ [cos(α−β) + cos(α+β)]      sin α sin β = ½ [cos(α−β) − cos(α+β)]
    cos α sin β = ½ [sin(α+β) − sin(α−β)]

have sums that all stand in one table, the empirical characteristic function for |k_j| ≤ 2K,

    C(k) = Σ_a weight_a exp(i w_k·x_a),

a non-uniform fast Fourier transform: O(n + m log m) for n rows and m = 2q functions, where
products of features take n·m². The base density's terms are transforms of weight·∂_j log q0 and
so on at the same points.

The kernel enters by the amplitudes: a rectangle rule for k(δ) = ∫ S(w) cos(w·δ) dw, where the
spectral distribution of length-scales ℓ is a mixture of normals over multipliers t (see
`kexpfam.features.spectra`),

    a_k² = 2 S(w_k) Π_j s_j      S(w) = (2π)^(−d/2) Π_j ℓ_j · mean_t t^(−d) exp(−|ℓ⊙w|²/2t²).

Σ_k a_k² cos(w_k·δ) is then the kernel, less a constant (k = 0, which no score sees), repeated with
period P_j = 2π/s_j, and as smooth as K allows. Length-scales leave the lattice where it is.

| symbol       | name             | shape             |
|--------------|------------------|-------------------|
| k            | indices          | (q, d), by length |
| s            | spacing          | (d,)              |
| K            | reach            | an integer        |
| ℓ            | length_scale     | (d,)              |
| t            | multipliers      | (u,)              |
| P(t)         | multiplier_shares | (u,)             |
| Re C, Im C   | lattice          | (2, (4K+1)^d)     |
| Σ t s0ᵀ etc. | base_cross, base_curvature, base_bend | (2q, d), as in `fourier` |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Complex, Float, Int

from kexpfam.data.blocks import Block
from kexpfam.data.sketch import Sketch
from kexpfam.features.fourier import FourierBasis, FourierMoments
from kexpfam.features.spectra import Spectrum
from kexpfam.features.transforms import lattice_transforms, require_finufft
from kexpfam.noise import Noise
from kexpfam.quadratic import QuadraticSystem

__all__ = ["GridBasis", "GridFeatures", "GridMoments"]

_MOST_COLUMNS = 3
_PERIOD = 1.5  # in widths of the data's box: what is beyond is seen only from its edges
_N_QUANTILES = 64
_BATCH_FREQUENCIES = 256


class GridMoments(NamedTuple):
    """The characteristic function's table, and the base density's terms. They add and scale."""

    weight: Float[Any, ""]
    lattice: Float[Any, "2 l"]
    base_cross: Float[Any, "t d"]
    base_curvature: Float[Any, "t d"]
    base_bend: Float[Any, "t d"]


@register_dataclass
@dataclass(frozen=True)
class GridBasis:
    """Cosines and sines at lattice points, sorted by the points' length."""

    indices: Int[Any, "q d"]
    spacing: Float[Any, " d"]
    length_scale: Float[Any, " d"]
    multipliers: Float[Any, " u"]
    multiplier_shares: Float[Any, " u"]
    reach: int = field(metadata={"static": True})
    n_derivatives: ClassVar[float] = math.inf
    moments_follow_noise: ClassVar[bool] = False
    keeps_means: ClassVar[bool] = True
    # Outside compiled code, of many rows at once: a transform has a fixed cost.
    summed_by: ClassVar[Literal["compiled code", "products", "itself"]] = "itself"
    block_size: ClassVar[int] = 1 << 18

    @property
    def n_features(self) -> int:
        return 2 * len(self.indices)

    @property
    def frequencies(self) -> Float[Any, "q d"]:
        return self.indices * self.spacing

    @property
    def amplitudes(self) -> Float[Array, " q"]:
        # From logarithms: far out on the lattice the square underflows, and a root of zero has
        # no derivative by the length-scales.
        n_columns = len(self.spacing)
        squares = ((self.frequencies * self.length_scale) ** 2).sum(axis=1)
        exponents = -squares[:, None] / (2 * self.multipliers**2)
        exponents -= n_columns * jnp.log(self.multipliers)
        log_density = logsumexp(exponents, axis=1, b=self.multiplier_shares)
        log_cell = jnp.log(self.spacing * self.length_scale).sum()
        log_cell -= n_columns / 2 * math.log(2 * math.pi)
        return jnp.exp((math.log(2) + log_density + log_cell) / 2)

    @property
    def fourier(self) -> FourierBasis:
        """The same functions, as frequencies like any others."""
        return FourierBasis(
            jnp.asarray(self.frequencies), jnp.zeros(len(self.indices)), self.amplitudes
        )

    def averages(self, noise: Noise) -> bool:
        return True

    def for_batch(self, rows: Float[Any, "n d"]) -> GridBasis:
        """The longest waves alone: a mini-batch is solved anew at every step."""
        return replace(self, indices=self.indices[:_BATCH_FREQUENCIES])

    def rescaled(self, length_scale: Any) -> GridBasis:
        return replace(self, length_scale=self.length_scale * length_scale)

    def penalty_matrix(self) -> None:
        return None

    # -- evaluation -----------------------------------------------------------------------

    def features(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        return self.fourier.features(rows)

    def values(self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        return self.fourier.values(coefficients, rows)

    def gradient(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]
    ) -> Float[Array, "n d"]:
        return self.fourier.gradient(coefficients, rows)

    def laplacian(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"], metric: Float[Any, " d"]
    ) -> Float[Array, " n"]:
        return self.fourier.laplacian(coefficients, rows, metric)

    # -- the sums over rows ---------------------------------------------------------------

    def moments(self, block: Block, noise: Noise, noise_scale: Any) -> FourierMoments:
        """Sums by products of features: they can be compiled and differentiated."""
        return self.fourier.moments(block, noise, noise_scale)

    def host_moments(self, block: Block) -> GridMoments:
        """The same sums by a fast Fourier transform, of NumPy arrays."""
        n_columns = block.rows.shape[1]
        bent = block.base_hessian.ndim == 3
        one, other = np.triu_indices(n_columns)
        strengths = [np.ones((len(block.rows), 1)), block.base_gradient]
        if bent:
            strengths += [block.base_bend, block.base_hessian[:, one, other]]
        table = lattice_transforms(
            block.rows * self.spacing,
            np.concatenate(strengths, axis=1).T * block.weights,
            2 * self.reach,
        )
        total, *sums = table[:, table.shape[1] // 2 + self._places]
        frequencies = self.frequencies
        slopes = np.stack(sums[:n_columns], axis=1)
        if bent:
            bends = np.stack(sums[n_columns : 2 * n_columns], axis=1)
            hessians = np.empty((len(frequencies), n_columns, n_columns), complex)
            hessians[:, one, other] = np.stack(sums[2 * n_columns :], axis=1)
            hessians[:, other, one] = hessians[:, one, other]
            curvature = np.einsum("qij,qj->qi", hessians, frequencies)
        else:
            # The base's gradient is affine: its second derivatives are zero.
            bends = np.zeros_like(slopes)
            curvature = total[:, None] * (frequencies @ block.base_hessian)
        return GridMoments(
            weight=np.asarray(block.weights.sum()),
            lattice=np.stack([table[0].real, table[0].imag]),
            base_cross=_cosines_then_sines(slopes),
            base_curvature=_cosines_then_sines(curvature),
            base_bend=_cosines_then_sines(bends),
        )

    @property
    def _places(self) -> Int[Any, " q"]:
        """Where the frequencies stand in the lattice, from its middle: they add as indices do."""
        side = 4 * self.reach + 1
        return self.indices @ side ** np.arange(len(self.spacing))[::-1]

    def _fourier_moments(self, moments: GridMoments) -> FourierMoments:
        """Products of features, read off the lattice."""
        cosines, sines = jnp.asarray(moments.lattice)
        places, middle = jnp.asarray(self._places), len(cosines) // 2
        plus = middle + places[:, None] + places
        minus = middle + places[:, None] - places
        even, odd = cosines[minus], cosines[plus]
        mixed = (sines[plus] - sines[minus]) / 2
        gram = jnp.block([[(even + odd) / 2, mixed], [mixed.T, (even - odd) / 2]])
        total = jnp.concatenate([cosines[middle + places], sines[middle + places]])
        terms = moments.base_cross, moments.base_curvature, moments.base_bend
        return FourierMoments(moments.weight, gram, total, *terms)

    def mean_features(self, moments: GridMoments) -> Float[np.ndarray, " m"]:
        """The mean of φ over the rows that were summed."""
        cosines, sines = np.asarray(moments.lattice)
        places = len(cosines) // 2 + np.asarray(self._places)
        total = np.concatenate([cosines[places], sines[places]])
        amplitudes = np.tile(np.asarray(self.amplitudes), 2)
        return amplitudes * total / float(moments.weight)

    # -- the quadratic objective ----------------------------------------------------------

    def system(
        self, moments: FourierMoments | GridMoments, noise: Noise, noise_scale: Any
    ) -> QuadraticSystem:
        if isinstance(moments, GridMoments):
            moments = self._fourier_moments(moments)
        return self.fourier.system(moments, noise, noise_scale)


def _cosines_then_sines(sums: Complex[np.ndarray, "q d"]) -> Float[np.ndarray, "t d"]:
    return np.concatenate([sums.real, sums.imag])


@dataclass(frozen=True)
class GridFeatures:
    """Frequencies on a lattice over the data's box, for at most three columns.

    Examples
    --------
    >>> from kexpfam import GridFeatures, KernelExponentialFamily
    >>> model = KernelExponentialFamily(basis=GridFeatures(), n_components=4224)
    """

    def build(
        self,
        n_components: int,
        sketch: Sketch,
        spectrum: Spectrum,
        generator: np.random.Generator,
    ) -> GridBasis:
        """The largest lattice of at most `n_components` features, for unit length-scales.

        There are at least the 3^d − 1 features next to zero.
        """
        n_columns = sketch.rows.shape[1]
        if n_columns > _MOST_COLUMNS:
            raise ValueError(
                f"basis='grid' is for at most {_MOST_COLUMNS} columns, because its number of "
                f"frequencies grows as a power of theirs; got {n_columns}. Use basis='fourier'."
            )
        require_finufft()  # missing now rather than after the tuning
        reach = 1
        while (2 * reach + 3) ** n_columns - 1 <= n_components:
            reach += 1
        width = sketch.high - sketch.low
        # A column without width has no frequencies of its own: any period will do.
        period = _PERIOD * np.where(width > 0, width, 1.0)
        quantiles = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
        multipliers, counts = np.unique(spectrum.multipliers(quantiles), return_counts=True)
        return GridBasis(
            indices=_half_lattice(reach, n_columns),
            spacing=2 * np.pi / period,
            length_scale=np.ones(n_columns),
            multipliers=multipliers,
            multiplier_shares=counts / _N_QUANTILES,
            reach=reach,
        )


def _half_lattice(reach: int, n_columns: int) -> Int[np.ndarray, "q d"]:
    """One of each pair ±k with |k_j| ≤ reach, without zero, from short to long."""
    axes = [np.arange(-reach, reach + 1)] * n_columns
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, n_columns)
    half = points[len(points) // 2 + 1 :]  # the second half mirrors the first
    return half[np.argsort((half**2).sum(axis=1), kind="stable")]
