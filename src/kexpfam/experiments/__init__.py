"""The paper's tables and figures, and ours: one file each, run by ``kexpfam reproduce NAME``."""

from kexpfam.experiments import comparison, convergence, figure_1
from kexpfam.experiments.harness import Experiment, Options, Results, reproduce

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (figure_1, comparison, convergence)
}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Results", "reproduce"]
