"""Comparison of two tables: are they from one distribution, how far apart, and what moved?"""

from kexpfam.comparison.result import ColumnChange, Divergence, PairChange, TableComparison
from kexpfam.comparison.two_tables import compare

__all__ = ["ColumnChange", "Divergence", "PairChange", "TableComparison", "compare"]
