"""Stage 2: the base density q0, which fixes the tails of the model."""

from kexpfam.base.automatic import AutomaticBase
from kexpfam.base.average_search import AveragedMixtureBase
from kexpfam.base.box_fits import BoxBase
from kexpfam.base.boxes import BoxMixtureDensity
from kexpfam.base.defensive import BaseDraws, draw_defensively
from kexpfam.base.density import BaseDensity, BaseFamily, fit_base
from kexpfam.base.gaussian import GaussianBase
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.mixture_base import MixtureBase
from kexpfam.base.rescaled import RescaledDensity
from kexpfam.base.uniform import BoxDensity, UniformBase

BASES: dict[str, BaseFamily] = {
    "uniform": UniformBase(),
    "gaussian": GaussianBase(),
    "mixture": MixtureBase(),
    "averaged_mixture": AveragedMixtureBase(),
    "boxes": BoxBase(),
    "auto": AutomaticBase(),
}

__all__ = [
    "BASES",
    "AutomaticBase",
    "AveragedMixtureBase",
    "BaseDensity",
    "BaseDraws",
    "BaseFamily",
    "BoxBase",
    "BoxDensity",
    "BoxMixtureDensity",
    "GaussianBase",
    "GaussianMixtureDensity",
    "MixtureBase",
    "RescaledDensity",
    "UniformBase",
    "draw_defensively",
    "fit_base",
]
