"""Stage 4: the basis, what f is made of."""

from kexpfam.features.basis import Basis, QuadraticSystem
from kexpfam.features.draws import DRAWS
from kexpfam.features.fourier import FourierBasis, FourierFeatures, FourierMoments
from kexpfam.features.spectra import Matern, RadialBasis, RationalQuadratic, Spectrum

__all__ = [
    "DRAWS",
    "Basis",
    "FourierBasis",
    "FourierFeatures",
    "FourierMoments",
    "Matern",
    "QuadraticSystem",
    "RadialBasis",
    "RationalQuadratic",
    "Spectrum",
]
