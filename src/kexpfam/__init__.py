"""Density and score estimation with kernel exponential families, fitted in closed form."""

from kexpfam.base import GaussianBase, MixtureBase, UniformBase
from kexpfam.estimators import KernelExponentialFamily
from kexpfam.exceptions import NormalizerWarning, SingularSystemError, TuningWarning
from kexpfam.features import FourierFeatures, Matern, NystromFeatures, RationalQuadratic
from kexpfam.noise import CharacteristicNoise, GaussianNoise, LaplaceNoise, UniformNoise
from kexpfam.normalizer import ImportanceNormalizer, QuadratureNormalizer
from kexpfam.tuning import Hyperparameters, Tuning

__version__ = "0.1.0"

__all__ = [
    "CharacteristicNoise",
    "FourierFeatures",
    "GaussianBase",
    "GaussianNoise",
    "Hyperparameters",
    "ImportanceNormalizer",
    "KernelExponentialFamily",
    "LaplaceNoise",
    "Matern",
    "MixtureBase",
    "NormalizerWarning",
    "NystromFeatures",
    "QuadratureNormalizer",
    "RationalQuadratic",
    "SingularSystemError",
    "Tuning",
    "TuningWarning",
    "UniformBase",
    "UniformNoise",
]
