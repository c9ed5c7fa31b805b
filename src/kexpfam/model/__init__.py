"""Stage 8: the fitted density, its derivatives and draws."""

from kexpfam.model.density import Density, RealDensity
from kexpfam.model.flow_density import FlowDensity, flow_density
from kexpfam.model.health import Comparison, Health
from kexpfam.model.score_field import ScoreField, score_field
from kexpfam.model.tilted import TiltedDensity

__all__ = [
    "Comparison",
    "Density",
    "FlowDensity",
    "Health",
    "RealDensity",
    "ScoreField",
    "TiltedDensity",
    "flow_density",
    "score_field",
]
