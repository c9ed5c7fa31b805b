"""The ladder of noise levels: moments for all, a solve for each, a flow through them."""

from kexpfam.ladder.conditional import complete_rows
from kexpfam.ladder.fit import LadderFit, LadderSettings, fit_ladder
from kexpfam.ladder.flow import ScoreField, flow_down, flow_up, score_field
from kexpfam.ladder.levels import Levels, solve_levels
from kexpfam.ladder.mixture import BaseSearch, SmoothedMixture
from kexpfam.ladder.moments import LadderMoments, ladder_moments, level_system
from kexpfam.ladder.reverse import walk_down

__all__ = [
    "BaseSearch",
    "LadderFit",
    "LadderMoments",
    "LadderSettings",
    "Levels",
    "ScoreField",
    "SmoothedMixture",
    "complete_rows",
    "fit_ladder",
    "flow_down",
    "flow_up",
    "ladder_moments",
    "level_system",
    "score_field",
    "solve_levels",
    "walk_down",
]
