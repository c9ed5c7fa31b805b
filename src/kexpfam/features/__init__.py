"""Stage 4: the basis, what f is made of."""

from kexpfam.features.basis import Basis, DirectMoments, QuadraticSystem
from kexpfam.features.draws import DRAWS
from kexpfam.features.fourier import FourierBasis, FourierFeatures, FourierMoments
from kexpfam.features.nystrom import NystromBasis, NystromFeatures
from kexpfam.features.spectra import Matern, RadialBasis, RationalQuadratic, Spectrum

__all__ = [
    "DRAWS",
    "Basis",
    "DirectMoments",
    "FourierBasis",
    "FourierFeatures",
    "FourierMoments",
    "Matern",
    "NystromBasis",
    "NystromFeatures",
    "QuadraticSystem",
    "RadialBasis",
    "RationalQuadratic",
    "Spectrum",
]
