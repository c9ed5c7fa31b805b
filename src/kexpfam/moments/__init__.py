"""Stage 5: the only pass over the rows."""

from kexpfam.moments.arithmetic import add_moments, scale_moments, total_moments
from kexpfam.moments.fold import MomentSource, block_moments

__all__ = [
    "MomentSource",
    "add_moments",
    "block_moments",
    "scale_moments",
    "total_moments",
]
