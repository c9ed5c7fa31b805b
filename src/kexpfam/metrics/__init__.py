"""Measures of how good a fitted density and its draws are, and peers to compare it with."""

from kexpfam.metrics.fisher import fisher_divergence
from kexpfam.metrics.kernel_density import cross_validated_kernel_density
from kexpfam.metrics.nearest_rows import NearestRows, nearest_row_distances, privacy
from kexpfam.metrics.wasserstein import wasserstein_distance

__all__ = [
    "NearestRows",
    "cross_validated_kernel_density",
    "fisher_divergence",
    "nearest_row_distances",
    "privacy",
    "wasserstein_distance",
]
