"""Densities with known truth."""

from kexpfam.datasets.densities import DENSITIES, KnownDensity, make_density

__all__ = ["DENSITIES", "KnownDensity", "make_density"]
