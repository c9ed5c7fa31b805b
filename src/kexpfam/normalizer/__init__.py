"""Stage 10: the normalizing constant, with an error bar."""

from kexpfam.model.health import NormalizerEstimate
from kexpfam.normalizer.automatic import AutomaticNormalizer
from kexpfam.normalizer.importance import ImportanceNormalizer
from kexpfam.normalizer.quadrature import QuadratureNormalizer

NORMALIZERS = {
    "auto": AutomaticNormalizer(),
    "importance": ImportanceNormalizer(),
    "quadrature": QuadratureNormalizer(),
}

__all__ = [
    "NORMALIZERS",
    "AutomaticNormalizer",
    "ImportanceNormalizer",
    "NormalizerEstimate",
    "QuadratureNormalizer",
]
