"""The paper's tables and figures, and ours: one file each, run by ``kexpfam reproduce NAME``."""

from kexpfam_experiments import (
    appendix,
    comparison,
    convergence,
    densities,
    diffusion,
    figure_1,
    metrics_figure,
    noise_levels,
    surfaces,
    table_1,
)
from kexpfam_experiments.harness import Experiment, Options, Results, reproduce, write_page

_PAPER = (figure_1, densities, surfaces, metrics_figure, table_1, appendix)
_OURS = (comparison, convergence, diffusion, noise_levels)

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (*_PAPER, *_OURS)
}

# What ``kexpfam reproduce all`` runs.
PAPER = tuple(module.EXPERIMENT.name for module in _PAPER)

__all__ = ["EXPERIMENTS", "PAPER", "Experiment", "Options", "Results", "reproduce", "write_page"]
