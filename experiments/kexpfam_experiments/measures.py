"""The paper's measures of one fitted model: likelihood, Fisher, Stein test, Wasserstein."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kexpfam.exceptions import SamplingWarning
from kexpfam.goodness_of_fit import fssd_test
from kexpfam.metrics import fisher_divergence, wasserstein_distance
from kexpfam_experiments.harness import Record

__all__ = ["measure_model"]

# Exact transport between more rows than this takes minutes.
_LARGEST_TRANSPORT = 2000


def measure_model(
    model: Any, train: np.ndarray, test: np.ndarray, seed: int, density: Any = None
) -> Record:
    """Everything the paper's tables report of a model, and what a perfect one would get.

    The Wasserstein distance is between test rows and as many draws; `wasserstein_floor` is that
    between test and training rows: no model can be expected to be below it.
    """
    some = test[:_LARGEST_TRANSPORT]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        chains = model.sample_chains(len(some), random_state=seed)
    draws = chains.rows(len(some))
    stein = fssd_test(model, test, random_state=seed)
    record: Record = {
        "log_likelihood_train": model.score(train),
        "log_likelihood": model.score(test),
        "log_normalizer_error": model.log_normalizer_error_,
        "base": float(model.base_.log_density(test).mean()),
        "fssd": stein.statistic,
        "fssd_p_value": stein.p_value,
        "wasserstein": wasserstein_distance(some, draws),
        "wasserstein_floor": wasserstein_distance(some, train[: len(some)]),
        "r_hat": float(np.max(chains.r_hat)),
        "noise_scale": model.noise_scale_,
        "penalty": model.penalty_ if np.isfinite(model.penalty_) else "infinite",
    }
    if density is not None:
        record["fisher_train"] = fisher_divergence(model, train, density.gradient(train))
        record["fisher"] = fisher_divergence(model, test, density.gradient(test))
        record["truth_train"] = float(density.log_density(train).mean())
        record["truth"] = float(density.log_density(test).mean())
    return record
