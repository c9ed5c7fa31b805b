"""Two tables side by side: are they from one distribution, how far apart, and what moved?"""

from kexpfam.comparison.compare import compare
from kexpfam.comparison.result import ColumnChange, Comparison, Divergence, PairChange

__all__ = ["ColumnChange", "Comparison", "Divergence", "PairChange", "compare"]
