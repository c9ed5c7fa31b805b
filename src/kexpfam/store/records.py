"""The kinds of records that a model file may hold: nothing else is ever built from one."""

from __future__ import annotations

from kexpfam.base import GaussianBase, MixtureBase, RescaledDensity, UniformBase
from kexpfam.base.averaged import AveragedMixtureBase, AverageSearch
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.uniform import BoxDensity
from kexpfam.data.coordinates import Coordinates
from kexpfam.data.marginals import Marginals
from kexpfam.data.sketch import Folds, Sketching
from kexpfam.data.standardize import Standardizer
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
from kexpfam.features.arc_cosine import ArcCosineBasis
from kexpfam.features.basis import DirectMoments
from kexpfam.features.fourier import FourierBasis, FourierMoments
from kexpfam.features.grid import GridBasis, GridMoments
from kexpfam.features.nystrom import NystromBasis
from kexpfam.features.sections import SectionBasis
from kexpfam.features.spectra import RadialBasis
from kexpfam.ladder.flow import ScoreField
from kexpfam.ladder.mixture import SmoothedMixture
from kexpfam.ladder.moments import LadderMoments, LadderSummation
from kexpfam.ladder.sums import LadderFolds, LadderSums, LadderView
from kexpfam.model import FittedDensity
from kexpfam.moments.treatments import MonteCarloNoise, TaylorMoments, TaylorNoise
from kexpfam.noise.laws import AutomaticNoise, GaussianNoise, LaplaceNoise, NoNoise, UniformNoise
from kexpfam.normalizer import ImportanceNormalizer, NormalizerEstimate, QuadratureNormalizer
from kexpfam.tuning import Hyperparameters, LossSurface, Tuned, Tuning

__all__ = ["RECORDS"]

RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(ArcCosineBasis, FourierBasis, GridBasis, NystromBasis, SectionBasis),
        *(ArcCosineFeatures, ExactFeatures, FourierFeatures, GridFeatures, InteractionFeatures),
        *(NystromFeatures, Matern, RadialBasis, RationalQuadratic),
        *(BoxDensity, GaussianMixtureDensity, RescaledDensity),
        *(AveragedMixtureBase, AverageSearch, GaussianBase, MixtureBase, UniformBase),
        *(AutomaticNoise, GaussianNoise, LaplaceNoise, MonteCarloNoise, NoNoise, TaylorNoise),
        UniformNoise,
        *(DirectMoments, FourierMoments, GridMoments, TaylorMoments, LadderMoments),
        *(Coordinates, Folds, Marginals, Sketching, Standardizer),
        *(LadderFolds, LadderSummation, LadderSums, LadderView, ScoreField, SmoothedMixture),
        *(FittedDensity, ImportanceNormalizer, NormalizerEstimate, QuadratureNormalizer),
        *(Hyperparameters, LossSurface, Tuned, Tuning),
    )
}
