"""Densities with known truth, and real tables with their protocols."""

from kexpfam.datasets.densities import DENSITIES, KnownDensity, make_density
from kexpfam.datasets.protocols import Split
from kexpfam.datasets.tables import Table, load_gas_turbine, load_miniboone, load_wine_quality
from kexpfam.datasets.thin import THIN_TABLES, make_thin_table

__all__ = [
    "DENSITIES",
    "THIN_TABLES",
    "KnownDensity",
    "Split",
    "Table",
    "load_gas_turbine",
    "load_miniboone",
    "load_wine_quality",
    "make_density",
    "make_thin_table",
]
