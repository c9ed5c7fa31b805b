"""Density and score estimation with kernel exponential families, fitted in closed form."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kexpfam.version import __version__

# Names are imported when they are first asked for: the command line's help need not wait for JAX.
_HOMES = {
    "base": ("BoxBase", "GaussianBase", "MixtureBase", "UniformBase"),
    "comparison": ("TableComparison", "compare"),
    "estimators": (
        "ConditionalKernelExponentialFamily",
        "KernelAnomalyDetector",
        "KernelChain",
        "KernelDiffusion",
        "KernelExponentialFamily",
        "TableConditional",
        "load",
    ),
    "exceptions": (
        "CalibrationWarning",
        "DegenerateTableError",
        "DegenerateTableWarning",
        "FlowWarning",
        "ModelFileError",
        "NormalizerWarning",
        "SamplingWarning",
        "SingularSystemError",
        "TuningWarning",
    ),
    "features": (
        "ArcCosineFeatures",
        "ExactFeatures",
        "FourierFeatures",
        "GridFeatures",
        "InteractionFeatures",
        "Matern",
        "NystromFeatures",
        "RationalQuadratic",
    ),
    "noise": (
        "CharacteristicNoise",
        "GaussianNoise",
        "LaplaceNoise",
        "MonteCarloNoise",
        "TaylorNoise",
        "UniformNoise",
    ),
    "normalizer": ("ImportanceNormalizer", "QuadratureNormalizer"),
    "compilations": ("keep_compilations",),
    "tuning": ("Hyperparameters", "Tuning"),
}
_MODULES = (
    "bounds",
    "bridges",
    "datasets",
    "goodness_of_fit",
    "metrics",
    "plotting",
    "report",
    "sampling",
)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    if name in _HOMES or name in _MODULES:
        return import_module(f"kexpfam.{name}")
    if name not in _HOME_OF:
        raise AttributeError(
            f"module 'kexpfam' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    globals()[name] = value = getattr(import_module(f"kexpfam.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


# The same names once more, for type checkers and editors.
if TYPE_CHECKING:
    from kexpfam.base import (
        BoxBase as BoxBase,
    )
    from kexpfam.base import (
        GaussianBase as GaussianBase,
    )
    from kexpfam.base import (
        MixtureBase as MixtureBase,
    )
    from kexpfam.base import (
        UniformBase as UniformBase,
    )
    from kexpfam.comparison import (
        TableComparison as TableComparison,
    )
    from kexpfam.comparison import (
        compare as compare,
    )
    from kexpfam.compilations import (
        keep_compilations as keep_compilations,
    )
    from kexpfam.estimators import (
        ConditionalKernelExponentialFamily as ConditionalKernelExponentialFamily,
    )
    from kexpfam.estimators import (
        KernelAnomalyDetector as KernelAnomalyDetector,
    )
    from kexpfam.estimators import (
        KernelChain as KernelChain,
    )
    from kexpfam.estimators import (
        KernelDiffusion as KernelDiffusion,
    )
    from kexpfam.estimators import (
        KernelExponentialFamily as KernelExponentialFamily,
    )
    from kexpfam.estimators import (
        TableConditional as TableConditional,
    )
    from kexpfam.estimators import (
        load as load,
    )
    from kexpfam.exceptions import (
        CalibrationWarning as CalibrationWarning,
    )
    from kexpfam.exceptions import (
        DegenerateTableError as DegenerateTableError,
    )
    from kexpfam.exceptions import (
        DegenerateTableWarning as DegenerateTableWarning,
    )
    from kexpfam.exceptions import (
        FlowWarning as FlowWarning,
    )
    from kexpfam.exceptions import (
        ModelFileError as ModelFileError,
    )
    from kexpfam.exceptions import (
        NormalizerWarning as NormalizerWarning,
    )
    from kexpfam.exceptions import (
        SamplingWarning as SamplingWarning,
    )
    from kexpfam.exceptions import (
        SingularSystemError as SingularSystemError,
    )
    from kexpfam.exceptions import (
        TuningWarning as TuningWarning,
    )
    from kexpfam.features import (
        ArcCosineFeatures as ArcCosineFeatures,
    )
    from kexpfam.features import (
        ExactFeatures as ExactFeatures,
    )
    from kexpfam.features import (
        FourierFeatures as FourierFeatures,
    )
    from kexpfam.features import (
        GridFeatures as GridFeatures,
    )
    from kexpfam.features import (
        InteractionFeatures as InteractionFeatures,
    )
    from kexpfam.features import (
        Matern as Matern,
    )
    from kexpfam.features import (
        NystromFeatures as NystromFeatures,
    )
    from kexpfam.features import (
        RationalQuadratic as RationalQuadratic,
    )
    from kexpfam.noise import (
        CharacteristicNoise as CharacteristicNoise,
    )
    from kexpfam.noise import (
        GaussianNoise as GaussianNoise,
    )
    from kexpfam.noise import (
        LaplaceNoise as LaplaceNoise,
    )
    from kexpfam.noise import (
        MonteCarloNoise as MonteCarloNoise,
    )
    from kexpfam.noise import (
        TaylorNoise as TaylorNoise,
    )
    from kexpfam.noise import (
        UniformNoise as UniformNoise,
    )
    from kexpfam.normalizer import (
        ImportanceNormalizer as ImportanceNormalizer,
    )
    from kexpfam.normalizer import (
        QuadratureNormalizer as QuadratureNormalizer,
    )
    from kexpfam.tuning import (
        Hyperparameters as Hyperparameters,
    )
    from kexpfam.tuning import (
        Tuning as Tuning,
    )
