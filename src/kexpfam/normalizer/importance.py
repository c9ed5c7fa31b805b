"""log Z by importance sampling from the base density and widened copies of it.

Z = E_q0[exp f], so log Ẑ = log Σ_i u_i exp f(x_i) over draws x_i with proportions u_i (see
`kexpfam.base.defensive`). With v_i ∝ u_i exp f(x_i) its standard error is √Σ(v_i − u_i)², the
effective sample size 1/Σv_i², and the tail shape of v says whether either can be believed.
(The paper prints Ẑ = mean f/q0 and log p = f − Ẑ: both are slips.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from kexpfam.base import draw_defensively
from kexpfam.choices import whole
from kexpfam.model import FittedDensity
from kexpfam.normalizer.estimate import NormalizerEstimate
from kexpfam.normalizer.pareto import pareto_shape

__all__ = ["ImportanceNormalizer"]


@dataclass(frozen=True)
class ImportanceNormalizer:
    """Importance sampling from the base density.

    Parameters
    ----------
    n_draws : int, default=32_768
        Draws of the base density.
    least_effective : float, default=200.0
        With fewer effective draws the estimate is called unreliable.
    heaviest_tail : float, default=0.7
        With a heavier tail of the weights, by its shape, it is called unreliable too.

    Examples
    --------
    >>> from kexpfam import ImportanceNormalizer, KernelExponentialFamily
    >>> model = KernelExponentialFamily(normalizer=ImportanceNormalizer(n_draws=100_000))
    """

    n_draws: int = 32_768
    least_effective: float = 200.0
    heaviest_tail: float = 0.7

    def __post_init__(self) -> None:
        whole("n_draws", self.n_draws)

    def estimate(
        self, density: FittedDensity, generator: np.random.Generator
    ) -> NormalizerEstimate:
        """log Z of a density whose own `log_normalizer` is not used."""
        draws = draw_defensively(density.base, self.n_draws, generator)
        log_weights = draws.log_proportions + density.tilt(draws.rows)
        log_normalizer = float(logsumexp(log_weights))
        shares = np.exp(log_weights - log_normalizer)
        effective = float(1 / (shares**2).sum())
        shape = pareto_shape(log_weights)
        return NormalizerEstimate(
            log_normalizer=log_normalizer,
            error=float(np.sqrt(((shares - np.exp(draws.log_proportions)) ** 2).sum())),
            effective_sample_size=effective,
            pareto_shape=shape,
            complaint=self._complaint(effective, shape),
        )

    def _complaint(self, effective: float, shape: float) -> str | None:
        reasons = []
        if effective < self.least_effective:
            reasons.append(f"only {effective:.0f} of {self.n_draws} draws carry the estimate")
        if shape > self.heaviest_tail:
            reasons.append(f"the importance weights have a tail of shape {shape:.2f}")
        if not reasons:
            return None
        return (
            f"The normalising constant is unreliable: {' and '.join(reasons)}. Log densities may "
            "be shifted by an unknown constant; gradients are not affected. Try a base density "
            "closer to the data (base='mixture'), a larger penalty, or more draws "
            "(normalizer=ImportanceNormalizer(n_draws=...))."
        )
