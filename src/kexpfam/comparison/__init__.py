"""Two tables side by side: are they from one distribution, how far apart, and what moved?"""

from kexpfam.comparison.result import ColumnChange, Comparison, Divergence, PairChange
from kexpfam.comparison.two_tables import compare

__all__ = ["ColumnChange", "Comparison", "Divergence", "PairChange", "compare"]
