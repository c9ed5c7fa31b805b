"""The ladder of noise levels: moments for all, a solve for each, a flow through them."""

from kexpfam.ladder.blocks import derivatives, flow_draws, log_densities, walk_draws
from kexpfam.ladder.conditional import complete_rows
from kexpfam.ladder.fit import LadderFit, LadderSettings, fit_ladder
from kexpfam.ladder.flow import ScoreField, flow_down, flow_up, score_field, steps_needed
from kexpfam.ladder.levels import Levels, solve_levels
from kexpfam.ladder.mixture import SmoothedMixture, smoothed_mixture
from kexpfam.ladder.moments import (
    LadderMoments,
    PreparedBlock,
    level_system,
    prepared_blocks,
    sum_moments,
)
from kexpfam.ladder.reverse import walk_down

__all__ = [
    "LadderFit",
    "LadderMoments",
    "LadderSettings",
    "Levels",
    "PreparedBlock",
    "ScoreField",
    "SmoothedMixture",
    "complete_rows",
    "derivatives",
    "fit_ladder",
    "flow_down",
    "flow_draws",
    "flow_up",
    "level_system",
    "log_densities",
    "prepared_blocks",
    "score_field",
    "smoothed_mixture",
    "solve_levels",
    "steps_needed",
    "sum_moments",
    "walk_down",
    "walk_draws",
]
