"""Measures of how good a fitted density is, and peers to compare it with."""

from kexpfam.metrics.fisher import fisher_divergence
from kexpfam.metrics.peers import cross_validated_kernel_density

__all__ = ["cross_validated_kernel_density", "fisher_divergence"]
