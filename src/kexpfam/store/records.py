"""The kinds of records that a model file may hold: nothing else is ever built from one."""

from __future__ import annotations

from kexpfam.base import GaussianBase, MixtureBase, RescaledDensity, UniformBase
from kexpfam.base.automatic import AutomaticBase
from kexpfam.base.average_search import AveragedMixtureBase
from kexpfam.base.averaged import AverageSearch
from kexpfam.base.box_fits import BoxBase
from kexpfam.base.boxes import BoxMixtureDensity
from kexpfam.base.covariance import Covariance
from kexpfam.base.location import Location, LocationSums, PointsLocation
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.ordered import OrderedMixture
from kexpfam.base.smoothed import SmoothedMixture
from kexpfam.base.uniform import BoxDensity
from kexpfam.data.coordinates import Coordinates
from kexpfam.data.heaps import Heaps
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.layout import Layout
from kexpfam.data.marginals import Marginals
from kexpfam.data.mixed import MixedTable
from kexpfam.data.response import Response
from kexpfam.data.sketch import Folds, NumberedFolds, Sketching
from kexpfam.data.standardize import Standardizer
from kexpfam.data.tails import Tails
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
from kexpfam.features.inputs import InputFunctions
from kexpfam.features.nystrom import NystromBasis
from kexpfam.features.sections import SectionBasis
from kexpfam.features.spectra import RadialBasis
from kexpfam.model import FlowDensity, ScoreField, TiltedDensity
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import CategoryTerm, Holes, NumberTerm, Scores
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.health import Comparison, FlowQuality, Health
from kexpfam.model.lattice import Lattice
from kexpfam.model.level_frequencies import LevelFrequencies
from kexpfam.model.pooled import Neighbors, PooledDensity
from kexpfam.moments.conditional import ConditionalSums
from kexpfam.moments.level_sums import LevelSums, LevelView
from kexpfam.moments.levels import LevelMoments, LevelSummation
from kexpfam.noise.distributions import (
    AutomaticNoise,
    GaussianNoise,
    LaplaceNoise,
    NoNoise,
    UniformNoise,
)
from kexpfam.noise.drawn import MonteCarloNoise
from kexpfam.noise.expanded import TaylorMoments, TaylorNoise
from kexpfam.normalizer import ImportanceNormalizer, NormalizerEstimate, QuadratureNormalizer
from kexpfam.pipeline.conditional import TargetSums
from kexpfam.solve.levels import Levels
from kexpfam.tuning import Hyperparameters, LossSurface, Tuned, Tuning

__all__ = ["RECORDS"]

RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(ArcCosineBasis, FourierBasis, GridBasis, NystromBasis, SectionBasis),
        *(ArcCosineFeatures, ExactFeatures, FourierFeatures, GridFeatures, InteractionFeatures),
        *(NystromFeatures, Matern, RadialBasis, RationalQuadratic),
        *(BoxDensity, BoxMixtureDensity, GaussianMixtureDensity, RescaledDensity),
        *(AutomaticBase, BoxBase),
        *(AveragedMixtureBase, AverageSearch, GaussianBase, MixtureBase, UniformBase),
        *(AutomaticNoise, GaussianNoise, LaplaceNoise, MonteCarloNoise, NoNoise, TaylorNoise),
        UniformNoise,
        *(DirectMoments, FourierMoments, GridMoments, TaylorMoments, LevelMoments),
        *(Coordinates, Folds, Marginals, Sketching, Standardizer),
        *(LevelSummation, LevelSums, LevelView, Levels, NumberedFolds, ScoreField, SmoothedMixture),
        *(Comparison, FlowQuality, Health),
        *(CategoryTerm, ChainDensity, ColumnKind, Layout, MixedTable, NumberTerm, OrderedMixture),
        *(Heaps, Holes, LevelFrequencies, Neighbors, PooledDensity, Scores, Tails),
        *(ConditionalDensity, Covariance, InputFunctions, Location, Response),
        *(ConditionalSums, Lattice, LocationSums, PointsLocation, TargetSums),
        *(
            TiltedDensity,
            FlowDensity,
            ImportanceNormalizer,
            NormalizerEstimate,
            QuadratureNormalizer,
        ),
        *(Hyperparameters, LossSurface, Tuned, Tuning),
    )
}
