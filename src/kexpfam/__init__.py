"""Density and score estimation with kernel exponential families, fitted in closed form."""

from kexpfam.base import GaussianBase, MixtureBase, UniformBase
from kexpfam.estimators import KernelDiffusion, KernelExponentialFamily, load
from kexpfam.exceptions import (
    FlowWarning,
    ModelFileError,
    NormalizerWarning,
    SamplingWarning,
    SingularSystemError,
    TuningWarning,
)
from kexpfam.features import (
    ArcCosineFeatures,
    ExactFeatures,
    FourierFeatures,
    GridFeatures,
    InteractionFeatures,
    Matern,
    NystromFeatures,
    RationalQuadratic,
)
from kexpfam.moments import MonteCarloNoise, TaylorNoise
from kexpfam.noise import CharacteristicNoise, GaussianNoise, LaplaceNoise, UniformNoise
from kexpfam.normalizer import ImportanceNormalizer, QuadratureNormalizer
from kexpfam.precision import keep_compilations
from kexpfam.tuning import Hyperparameters, Tuning
from kexpfam.version import __version__

__all__ = [
    "ArcCosineFeatures",
    "CharacteristicNoise",
    "ExactFeatures",
    "FlowWarning",
    "FourierFeatures",
    "GaussianBase",
    "GaussianNoise",
    "GridFeatures",
    "Hyperparameters",
    "ImportanceNormalizer",
    "InteractionFeatures",
    "KernelDiffusion",
    "KernelExponentialFamily",
    "LaplaceNoise",
    "Matern",
    "MixtureBase",
    "ModelFileError",
    "MonteCarloNoise",
    "NormalizerWarning",
    "NystromFeatures",
    "QuadratureNormalizer",
    "RationalQuadratic",
    "SamplingWarning",
    "SingularSystemError",
    "TaylorNoise",
    "Tuning",
    "TuningWarning",
    "UniformBase",
    "UniformNoise",
    "__version__",
    "keep_compilations",
    "load",
]
