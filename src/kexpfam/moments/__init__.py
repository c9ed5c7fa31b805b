"""Stage 5: the only pass over the rows."""

from kexpfam.moments.arithmetic import add_moments, scale_moments, total_moments
from kexpfam.moments.fold import MomentSource, block_moments
from kexpfam.moments.treatments import MonteCarloNoise, TaylorMoments, TaylorNoise

__all__ = [
    "MomentSource",
    "MonteCarloNoise",
    "TaylorMoments",
    "TaylorNoise",
    "add_moments",
    "block_moments",
    "scale_moments",
    "total_moments",
]
