"""The exact solution in the RKHS (Sriperumbudur et al. 2017), for small tables.

By the representer theorem the minimizer of J(f) + (λ/2)|f|² over the whole RKHS lies in the span
of ∂_i k(x_a, ·) for all rows and columns and of ξ̂ = mean_a Σ_i ∂_i²k(x_a, ·) + ∂_ik(x_a, ·)
∂_ilog q0(x_a). Here ξ̂ is not one function but its parts: the basis is

    ∂_i k(x_a, ·),  Δk(x_a, ·)          for all a, i:   m = n(d + 1) functions.

A larger space that still contains the minimizer changes nothing, and this one contains it for
every subset of the rows, every weighting and every base density. So cross-validation from the
moments of folds is exact too, and held-out rows do not reach into the fit, as they would through
an ξ̂ summed over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kexpfam.data.sketch import Sketch
from kexpfam.features.sections import SectionBasis, all_functions
from kexpfam.features.spectra import Spectrum

__all__ = ["ExactFeatures"]

# Square matrices held at once: moments of five folds, H, R, factors and eigenvectors.
_MATRICES = 12


@dataclass(frozen=True)
class ExactFeatures:
    """The span that holds the exact solution; `n_components` plays no part.

    Parameters
    ----------
    largest : int, default=6000
        The most functions, n(d + 1), that will be attempted. Time grows with their cube and
        memory with their square: 6000 take about 3.5 GB and some minutes.

    Examples
    --------
    >>> from kexpfam import ExactFeatures, KernelExponentialFamily
    >>> model = KernelExponentialFamily(basis=ExactFeatures(largest=2000))
    """

    largest: int = 6000

    def build(
        self,
        n_components: int,
        sketch: Sketch,
        spectrum: Spectrum,
        generator: np.random.Generator,
    ) -> SectionBasis:
        """All functions of all distinct rows, for unit length-scales."""
        n_rows, n_columns = sketch.rows.shape
        count = n_rows * (n_columns + 1)
        if count > self.largest:
            gigabytes = 8 * _MATRICES * count**2 / 1e9
            raise ValueError(
                f"The exact solution for {n_rows} distinct rows of {n_columns} columns has "
                f"{count} functions and would need about {gigabytes:.1f} GB of memory; the limit "
                f"is {self.largest} functions. Use basis='nystrom' or basis='fourier', fewer rows "
                f"(up to {self.largest // (n_columns + 1)}), or ExactFeatures(largest={count})."
            )
        functionals = ("gradient", "laplacian")
        return SectionBasis(
            points=sketch.rows,
            length_scale=np.ones(n_columns),
            selected=all_functions(n_rows, functionals, n_columns),
            kernel=spectrum,
            functionals=functionals,
            follows_rows=True,
        )
