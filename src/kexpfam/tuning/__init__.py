"""Stage 9: penalty, noise scale and length-scales, chosen on held-out rows."""

from kexpfam.tuning.adam import TuningProblem, tune
from kexpfam.tuning.choice import EXCUSED_LOSS, Choice, choose
from kexpfam.tuning.criteria import CRITERIA
from kexpfam.tuning.settings import Hyperparameters, Tuned, Tuning
from kexpfam.tuning.surface import HeldOutRows, LossSurface, loss_surface

__all__ = [
    "CRITERIA",
    "EXCUSED_LOSS",
    "Choice",
    "HeldOutRows",
    "Hyperparameters",
    "LossSurface",
    "Tuned",
    "Tuning",
    "TuningProblem",
    "choose",
    "loss_surface",
    "tune",
]
