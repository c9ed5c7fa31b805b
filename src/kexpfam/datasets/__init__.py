"""Densities with known truth, and real tables with their protocols."""

from kexpfam.datasets.densities import DENSITIES, KnownDensity, make_density
from kexpfam.datasets.protocols import Split
from kexpfam.datasets.tables import Table, load_miniboone, load_wine_quality

__all__ = [
    "DENSITIES",
    "KnownDensity",
    "Split",
    "Table",
    "load_miniboone",
    "load_wine_quality",
    "make_density",
]
