"""Stage 7: the fitted density and its derivatives."""

from kexpfam.model.density import FittedDensity, evaluate_blocks, evaluate_padded

__all__ = ["FittedDensity", "evaluate_blocks", "evaluate_padded"]
