"""Stage 5: the only pass over the rows."""

from kexpfam.moments.arithmetic import add_moments, scale_moments, total_moments
from kexpfam.moments.checkpoint import Checkpoint, CheckpointedWalk, fit_fingerprint
from kexpfam.moments.fold import BasisSummation, FoldSums, MomentSource, Summation, block_moments

__all__ = [
    "BasisSummation",
    "Checkpoint",
    "CheckpointedWalk",
    "FoldSums",
    "MomentSource",
    "Summation",
    "add_moments",
    "block_moments",
    "fit_fingerprint",
    "scale_moments",
    "total_moments",
]
