"""Stage 4: the basis, what f is made of."""

from kexpfam.features.arc_cosine import ArcCosineBasis, ArcCosineFeatures
from kexpfam.features.basis import Basis, DirectMoments, PointwiseBasis
from kexpfam.features.draws import DRAWS
from kexpfam.features.exact import ExactFeatures
from kexpfam.features.fourier import FourierBasis, FourierFeatures, FourierMoments
from kexpfam.features.grid import GridBasis, GridFeatures, GridMoments
from kexpfam.features.interactions import InteractionFeatures
from kexpfam.features.nystrom import NystromBasis, NystromFeatures
from kexpfam.features.sections import SectionBasis
from kexpfam.features.spectra import SPECTRA, Matern, RadialBasis, RationalQuadratic, Spectrum

FEATURES = {
    "fourier": FourierFeatures(),
    "nystrom": NystromFeatures(),
    "exact": ExactFeatures(),
    "arc_cosine": ArcCosineFeatures(),
    "grid": GridFeatures(),
}

__all__ = [
    "DRAWS",
    "FEATURES",
    "SPECTRA",
    "ArcCosineBasis",
    "ArcCosineFeatures",
    "Basis",
    "DirectMoments",
    "ExactFeatures",
    "FourierBasis",
    "FourierFeatures",
    "FourierMoments",
    "GridBasis",
    "GridFeatures",
    "GridMoments",
    "InteractionFeatures",
    "Matern",
    "NystromBasis",
    "NystromFeatures",
    "PointwiseBasis",
    "RadialBasis",
    "RationalQuadratic",
    "SectionBasis",
    "Spectrum",
]
