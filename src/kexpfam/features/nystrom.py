"""Nyström: kernel sections, or their derivatives, at inducing points.

`NystromFeatures` chooses points and functions: k(·, z_j), the "lite" basis of Sutherland et al.
(2018), or derivatives ∂_i k(z_j, ·), all components or a random subset; f is penalized by its
RKHS norm. For any kernel they are functionals of `kexpfam.features.sections`.

Sections k(·, z_j) of the RBF kernel have a basis of their own here, because Gaussian noise of
variance s_i² in column i can be averaged over in closed form (the paper's Nyström appendix, with
its sign corrected): all expectations are Gaussian integrals. With p_j = x − z_j,

    A_i = 1/(1 + 2s_i²/ℓ_i²)      E_j = exp(−½ Σ_i A_i p_ji²/ℓ_i²)       P_j = A p_j/ℓ²
    H_jl = mean C_jl E_j E_l [¼|P_j + P_l|² + Σ_i s_i²A_i/ℓ_i⁴ − ¼ Σ_i (z_ji − z_li)²/ℓ_i⁴]
    C_jl = Π_i √A_i · exp(−¼ Σ_i (1 − A_i)(z_ji − z_li)²/ℓ_i²)

    B_i = 1/(1 + s_i²/ℓ_i²)       G_j = Π_i √B_i · exp(−½ Σ_i B_i p_ji²/ℓ_i²)
    h_j = mean G_j Σ_i [B_i²p_ji²/ℓ_i⁴ − B_i/ℓ_i²
                        − (B_i p_ji (ŝ_i + Σ_k J_ik (B_k − 1) p_jk) + J_ii s_i² B_i)/ℓ_i²]

where ŝ and J are the base's gradient (with its bend) and Hessian at the row. Without noise
A = B = 1, and R = k(Z, Z). Unlike Fourier moments these sums depend on the noise: one pass for
each scale.

| symbol | name         | shape  |
|--------|--------------|--------|
| z_j    | points       | (m, d) |
| ℓ      | length_scale | (d,)   |
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.choices import checked_name, whole
from kexpfam.data.blocks import Block
from kexpfam.data.sketch import Sketch
from kexpfam.features.basis import DirectMoments, PointwiseBasis
from kexpfam.features.sections import JITTER, SectionBasis
from kexpfam.features.spectra import RadialBasis, Spectrum
from kexpfam.noise import GaussianNoise, Noise

__all__ = ["NystromBasis", "NystromFeatures"]


@register_dataclass
@dataclass(frozen=True)
class NystromBasis(PointwiseBasis):
    """Sections of the RBF kernel at `points`."""

    points: Float[Any, "m d"]
    length_scale: Float[Any, " d"]

    @property
    def n_features(self) -> int:
        return len(self.points)

    @property
    def moments_follow_noise(self) -> bool:
        return True

    def averages(self, noise: Noise) -> bool:
        return isinstance(noise, GaussianNoise) and np.ndim(noise.covariance) < 2

    def rescaled(self, length_scale: Any) -> NystromBasis:
        return replace(self, length_scale=self.length_scale * length_scale)

    def penalty_matrix(self) -> Float[Array, "m m"]:
        squares = _squared_distances(self.points, self.points, self.length_scale**-2.0)
        return jnp.exp(-squares / 2) + JITTER * jnp.eye(len(self.points))

    # -- evaluation -----------------------------------------------------------------------

    def features(self, rows: Float[Any, "n d"]) -> Float[Array, "n m"]:
        return jnp.exp(-_squared_distances(rows, self.points, self.length_scale**-2.0) / 2)

    def gradient(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"]
    ) -> Float[Array, "n d"]:
        weighted = self.features(rows) * coefficients
        pulled = weighted @ self.points - weighted.sum(axis=1, keepdims=True) * rows
        return pulled / self.length_scale**2

    def laplacian(
        self, coefficients: Float[Any, " m"], rows: Float[Any, "n d"], metric: Float[Any, " d"]
    ) -> Float[Array, " n"]:
        squares = _squared_distances(rows, self.points, metric * self.length_scale**-4.0)
        trace = (metric * self.length_scale**-2.0).sum()
        return (self.features(rows) * (squares - trace)) @ coefficients

    # -- the sums over rows ---------------------------------------------------------------

    def moments(self, block: Block, noise: Noise, noise_scale: Any) -> DirectMoments:
        covariance = cast(GaussianNoise, noise).matrix(block.rows.shape[1], jnp)
        variances = noise_scale**2 * jnp.diagonal(covariance)
        return DirectMoments(
            weight=block.weights.sum(),
            quadratic=self._quadratic(block, variances),
            linear=block.weights @ self._linear(block, variances, noise_scale),
        )

    def _quadratic(self, block: Block, variances: Float[Array, " d"]) -> Float[Array, "m m"]:
        squared = self.length_scale**2
        shrunk = 1 / (1 + 2 * variances / squared)
        envelope = jnp.exp(-_squared_distances(block.rows, self.points, shrunk / squared) / 2)
        rows, points = block.rows * shrunk / squared, self.points * shrunk / squared
        crossed = rows @ points.T
        lengths = (rows**2).sum(axis=1, keepdims=True)
        # ¼|P_j|² + ¼|u|² − ½u·v_j with u, v the scaled row and point; j and l are symmetrized.
        halves = (2 * lengths - 4 * crossed + (points**2).sum(axis=1)) / 4
        weighted = envelope * block.weights[:, None]
        mixed = (weighted * halves).T @ envelope
        gaps = (self.points, self.points)
        constant = (variances * shrunk / squared**2).sum() + points @ points.T / 2
        constant -= _squared_distances(*gaps, squared**-2.0) / 4
        damping = _squared_distances(*gaps, (1 - shrunk) / squared) / 4
        scale = jnp.sqrt(shrunk).prod() * jnp.exp(-damping)
        return scale * (mixed + mixed.T + constant * (weighted.T @ envelope))

    def _linear(
        self, block: Block, variances: Float[Array, " d"], noise_scale: Any
    ) -> Float[Array, "n m"]:
        squared = self.length_scale**2
        shrunk = 1 / (1 + variances / squared)
        shifts = block.rows[:, None] - self.points
        envelope = jnp.exp(-((shifts**2) @ (shrunk / squared)) / 2) * jnp.sqrt(shrunk).prod()
        own = (shifts**2) @ (shrunk / squared) ** 2 - (shrunk / squared).sum()
        hessian = jnp.broadcast_to(block.base_hessian, (len(block.rows), *(len(squared),) * 2))
        slope = (block.base_gradient + noise_scale**2 / 2 * block.base_bend)[:, None]
        slope = slope + (shifts * (shrunk - 1)) @ hessian
        pull = ((shifts * slope) @ (shrunk / squared)) + (
            jnp.diagonal(hessian, axis1=1, axis2=2) @ (variances * shrunk / squared)
        )[:, None]
        return envelope * (own - pull)


def _squared_distances(
    first: Float[Any, "n d"], second: Float[Any, "m d"], weights: Float[Any, " d"]
) -> Float[Array, "n m"]:
    """Σ_i weights_i (first_ai − second_ji)², from one matrix product.

    Where points meet, rounding may leave −1e-16. A maximum with zero would have the wrong
    derivatives there, and every use is smooth in the distance.
    """
    products = (first * weights) @ second.T
    lengths = (first**2 @ weights)[:, None] + second**2 @ weights
    return lengths - 2 * products


@dataclass(frozen=True)
class NystromFeatures:
    """How to choose inducing points and the functions there.

    Parameters
    ----------
    selection : {"random", "kmeans++"}, default="random"
        Rows drawn at random, or spread out by the seeding of k-means.
    functions : {"values", "derivatives"}, default="values"
        Sections k(·, z), which average Gaussian noise in closed form for the RBF kernel, or
        derivatives ∂_i k(z, ·).
    components_per_point : int, optional
        Of derivatives: how many components, drawn at random for each point; all by default.

    Notes
    -----
    `n_components` counts functions; there are as many points as this takes. Distinct rows serve as
    points; where there are fewer than asked for, all of them do, with a warning.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, NystromFeatures
    >>> model = KernelExponentialFamily(basis=NystromFeatures(selection="kmeans++"))
    """

    selection: str = "random"
    functions: str = "values"
    components_per_point: int | None = None

    def __post_init__(self) -> None:
        checked_name("selection", self.selection, ("random", "kmeans++"))
        checked_name("functions", self.functions, ("values", "derivatives"))
        if self.components_per_point is None:
            return
        whole("components_per_point", self.components_per_point, otherwise="None")
        if self.functions == "values":
            raise ValueError(
                "components_per_point goes with functions='derivatives'; got "
                f"{self.components_per_point} with functions='values'. Leave it out."
            )

    def build(
        self,
        n_components: int,
        sketch: Sketch,
        spectrum: Spectrum,
        generator: np.random.Generator,
    ) -> NystromBasis | SectionBasis:
        """Choose points and functions for unit length-scales."""
        n_columns = sketch.rows.shape[1]
        unit = np.ones(n_columns)
        if self.functions == "values":
            points = self._points(n_components, sketch, generator)
            if isinstance(spectrum, RadialBasis):
                return NystromBasis(points, unit)
            return SectionBasis(points, unit, np.arange(len(points)), spectrum, ("value",))
        per_point = min(self.components_per_point or n_columns, n_columns)
        points = self._points(-(-n_components // per_point), sketch, generator)
        chosen = [generator.permutation(n_columns)[:per_point] for _ in points]
        if per_point == n_columns:
            chosen = [np.arange(n_columns)] * len(points)
        selected = (np.arange(len(points))[:, None] * n_columns + np.array(chosen)).ravel()
        return SectionBasis(points, unit, selected, spectrum, ("gradient",))

    def _points(
        self, count: int, sketch: Sketch, generator: np.random.Generator
    ) -> Float[np.ndarray, "p d"]:
        if count > len(sketch.rows):
            warnings.warn(
                f"{count} inducing points were asked for, but there are only {len(sketch.rows)} "
                "distinct rows to choose from: all of them serve. Lower n_components to silence "
                "this.",
                stacklevel=2,
            )
        if self.selection == "kmeans++" and count < len(sketch.rows):
            # Imported where it is needed: it takes as long as a small fit.
            from sklearn.cluster import kmeans_plusplus

            seed = int(generator.integers(2**31))
            points, _ = kmeans_plusplus(
                sketch.rows, count, sample_weight=sketch.weights, random_state=seed
            )
            return points
        # The sketch is in the order of a hash: its first rows are a random sample.
        return sketch.rows[:count]
