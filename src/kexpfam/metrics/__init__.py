"""Measures of how good a fitted density is, and peers to compare it with."""

from kexpfam.metrics.fisher import fisher_divergence
from kexpfam.metrics.kernel_density import cross_validated_kernel_density
from kexpfam.metrics.wasserstein import wasserstein_distance

__all__ = ["cross_validated_kernel_density", "fisher_divergence", "wasserstein_distance"]
