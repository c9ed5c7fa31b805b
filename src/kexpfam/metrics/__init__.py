"""Measures of how good a fitted density is."""

from kexpfam.metrics.fisher import fisher_divergence

__all__ = ["fisher_divergence"]
