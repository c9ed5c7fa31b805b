"""The systems that are compared: every one a basis and a noise of the same estimator."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from kexpfam.estimators import KernelExponentialFamily
from kexpfam.exceptions import NormalizerWarning
from kexpfam.features import ArcCosineFeatures, NystromFeatures
from kexpfam.noise import MonteCarloNoise, TaylorNoise
from kexpfam.tuning import Tuning

__all__ = ["QUICK_TUNING", "SYSTEMS", "fit_system"]

# For a quick look: every part of the tuning runs, none for long.
QUICK_TUNING = Tuning(n_steps=1, n_folds=2)

SYSTEMS: dict[str, dict[str, Any]] = {
    "DSM RFF": {"basis": "fourier", "noise": "gaussian"},
    "SM RFF": {"basis": "fourier", "noise": None},
    "Nyström": {"basis": "nystrom", "noise": None},
    "Nyström DSM": {"basis": "nystrom", "noise": "gaussian"},
    "Nyström derivatives": {"basis": NystromFeatures(functions="derivatives"), "noise": None},
    "Monte-Carlo DSM (f_K)": {"basis": "fourier", "noise": MonteCarloNoise(n_draws=4)},
    "Taylor DSM": {"basis": "fourier", "noise": TaylorNoise()},
    "Arc-cosine DSM": {"basis": "arc_cosine", "noise": "gaussian"},
    "Arc-cosine, paper's noise": {
        "basis": ArcCosineFeatures(smoothing="paper"),
        "noise": "gaussian",
    },
    "Exact": {"basis": "exact", "noise": None},
}


def fit_system(
    name: str, rows: np.ndarray, seed: int, **settings: Any
) -> tuple[KernelExponentialFamily, float]:
    """A fitted system and the seconds it took, ungated: systems are compared as they are.

    An unreliable normalizer is not worth a warning here.
    """
    options = {"gate": False, "normalizer": "importance", **SYSTEMS[name], **settings}
    model = KernelExponentialFamily(random_state=seed, **options)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormalizerWarning)
        model.fit(rows)
    return model, time.perf_counter() - start
