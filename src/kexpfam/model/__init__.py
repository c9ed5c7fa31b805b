"""Stage 7: the fitted density and its derivatives."""

from kexpfam.model.density import Density
from kexpfam.model.flow_density import FlowDensity, flow_density
from kexpfam.model.health import Comparison, Health
from kexpfam.model.score_field import ScoreField, score_field
from kexpfam.model.tilted import TiltedDensity, evaluate_blocks, evaluate_padded

__all__ = [
    "Comparison",
    "Density",
    "FlowDensity",
    "Health",
    "ScoreField",
    "TiltedDensity",
    "evaluate_blocks",
    "evaluate_padded",
    "flow_density",
    "score_field",
]
