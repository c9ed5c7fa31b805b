"""The paper's tables and figures, and ours: one file each, run by ``kexpfam reproduce NAME``."""

from kexpfam.experiments import (
    appendix,
    comparison,
    convergence,
    densities,
    figure_1,
    metrics_figure,
    surfaces,
    table_1,
)
from kexpfam.experiments.harness import Experiment, Options, Results, reproduce, write_page

_PAPER = (figure_1, densities, surfaces, metrics_figure, table_1, appendix)
_OURS = (comparison, convergence)

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (*_PAPER, *_OURS)
}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Results", "reproduce", "write_page"]
