"""Stage 7: the fitted density and its derivatives."""

from kexpfam.model.density import FittedDensity, evaluate_blocks

__all__ = ["FittedDensity", "evaluate_blocks"]
