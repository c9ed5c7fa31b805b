"""Frequencies for tables: each touches a few columns, at length-scales over a wide range.

A frequency w is drawn as v/ℓ, v normal on `order` coordinates and zero elsewhere, ℓ log-uniform. A
cosine of w·x is then an interaction of at most `order` columns, and f an additive model over
interactions (an ANOVA kernel). Half of the frequencies live along the columns and half along the
principal axes: in whitened coordinates z, where columns (in units of their standard deviation) are
u = D⁻¹Az, a frequency v along the columns is AᵀD⁻¹v.

| symbol | name         | shape  |
|--------|--------------|--------|
| w      | frequencies  | (q, d) |
| A, D   | root, deviations | (d, d), (d,) |
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kexpfam.choices import positive_number, whole
from kexpfam.features.fourier import FourierBasis

__all__ = ["InteractionFeatures"]


@dataclass(frozen=True)
class InteractionFeatures:
    """How to draw sparse interaction frequencies.

    Parameters
    ----------
    orders : tuple of int, default=(1, 2, 3, 4)
        Numbers of coordinates that a frequency may touch, equally likely.
    shortest, longest : float, default=0.4, 4.0
        The range of length-scales, in standard deviations.
    along_axes : float, default=0.5
        The share of frequencies along principal axes; the others lie along columns.

    Examples
    --------
    >>> from kexpfam import InteractionFeatures, KernelDiffusion
    >>> model = KernelDiffusion(basis=InteractionFeatures(orders=(1, 2)))
    """

    orders: tuple[int, ...] = (1, 2, 3, 4)
    shortest: float = 0.4
    longest: float = 4.0
    along_axes: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.orders, (tuple, list)) or not self.orders:
            raise ValueError(
                f"orders must be a tuple of whole numbers ≥ 1; got {self.orders!r}. Try (1, 2)."
            )
        for order in self.orders:
            whole("Each of orders", order)
        shortest = positive_number("shortest", self.shortest)
        if positive_number("longest", self.longest) < shortest:
            raise ValueError(
                f"longest must be no less than shortest; got {self.longest} and {self.shortest}."
            )
        if not (isinstance(self.along_axes, numbers.Real) and 0 <= self.along_axes <= 1):
            raise ValueError(f"along_axes must be a share from 0 to 1; got {self.along_axes!r}.")

    def build(
        self,
        n_components: int,
        root: Float[np.ndarray, "d d"],
        generator: np.random.Generator,
    ) -> FourierBasis:
        """A basis of cosine-sine pairs in whitened coordinates."""
        count, n_columns = (n_components + 1) // 2, len(root)
        orders = np.minimum(generator.choice(self.orders, count), n_columns)
        chosen = generator.random((count, n_columns)).argsort(axis=1).argsort(axis=1)
        normals = generator.standard_normal((count, n_columns)) * (chosen < orders[:, None])
        scales = np.exp(generator.uniform(np.log(self.shortest), np.log(self.longest), count))
        sparse = normals / scales[:, None]
        deviations = np.sqrt((root**2).sum(axis=1))
        along_columns = (sparse / deviations) @ root
        frequencies = np.where(
            generator.random((count, 1)) < self.along_axes, sparse, along_columns
        )
        return FourierBasis(frequencies, np.zeros(count), np.full(count, count**-0.5))
