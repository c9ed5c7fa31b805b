"""log Z by quadrature where that is possible, else by importance sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kexpfam.model import TiltedDensity
from kexpfam.model.health import NormalizerEstimate
from kexpfam.normalizer.importance import ImportanceNormalizer
from kexpfam.normalizer.quadrature import QuadratureNormalizer

__all__ = ["AutomaticNormalizer"]

_MOST_COLUMNS_FOR_QUADRATURE = 2


@dataclass(frozen=True)
class AutomaticNormalizer:
    """Quadrature in one or two columns; importance sampling in more."""

    def estimate(
        self, density: TiltedDensity, generator: np.random.Generator
    ) -> NormalizerEstimate:
        """log Z of a density whose own `log_normalizer` is not used."""
        few = len(density.standardizer.center) <= _MOST_COLUMNS_FOR_QUADRATURE
        chosen = QuadratureNormalizer() if few else ImportanceNormalizer()
        return chosen.estimate(density, generator)
