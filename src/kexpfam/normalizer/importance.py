"""log Z by importance sampling from the base density and widened copies of it.

Z = E_q0[exp f], so log Ẑ = log Σ_i u_i exp f(x_i) over draws x_i with proportions u_i (see
`kexpfam.base.defensive`). With v_i ∝ u_i exp f(x_i) its standard error is √Σ(v_i − u_i)², the
effective sample size 1/Σv_i², and the tail shape of v says whether either can be believed (see
`kexpfam.model.health`).
(The paper prints Ẑ = mean f/q0 and log p = f − Ẑ: both are slips.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from kexpfam.base import draw_defensively
from kexpfam.choices import whole
from kexpfam.model import TiltedDensity
from kexpfam.model.health import NormalizerEstimate
from kexpfam.normalizer.pareto import pareto_shape

__all__ = ["ImportanceNormalizer"]


@dataclass(frozen=True)
class ImportanceNormalizer:
    """Importance sampling from the base density.

    Parameters
    ----------
    n_draws : int, default=32_768
        Draws of the base density.

    Examples
    --------
    >>> from kexpfam import ImportanceNormalizer, KernelExponentialFamily
    >>> model = KernelExponentialFamily(normalizer=ImportanceNormalizer(n_draws=100_000))
    """

    n_draws: int = 32_768

    def __post_init__(self) -> None:
        whole("n_draws", self.n_draws)

    def estimate(
        self, density: TiltedDensity, generator: np.random.Generator
    ) -> NormalizerEstimate:
        """log Z of a density whose own `log_normalizer` is not used."""
        draws = draw_defensively(density.base, self.n_draws, generator)
        log_weights = draws.log_proportions + density.tilt(draws.rows)
        log_normalizer = float(logsumexp(log_weights))
        shares = np.exp(log_weights - log_normalizer)
        return NormalizerEstimate(
            log_normalizer=log_normalizer,
            error=float(np.sqrt(((shares - np.exp(draws.log_proportions)) ** 2).sum())),
            effective_sample_size=float(1 / (shares**2).sum()),
            pareto_shape=pareto_shape(log_weights),
        )
