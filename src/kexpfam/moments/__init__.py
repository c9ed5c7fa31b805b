"""Stage 5: the only pass over the rows."""

from kexpfam.moments.arithmetic import add_moments, scale_moments, total_moments
from kexpfam.moments.fold import block_moments, collect_moments

__all__ = ["add_moments", "block_moments", "collect_moments", "scale_moments", "total_moments"]
