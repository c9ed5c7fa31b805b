"""The score of the data smoothed with noise of every scale from the lowest level on.

    ∇log p_σ = ∇f_σ + ∇log q_σ,      f_σ = φᵀβ(t),   t = log σ

The coefficients β are straight lines in t between the levels, and zero at the highest and beyond:
there the smoothed base density q_σ is the model.

| symbol | name         | shape  |
|--------|--------------|--------|
| t      | knots        | (l,)   |
| β      | coefficients | (l, m) |
| σ²     | variance     | ()     |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.base.smoothed import MixtureScore, SmoothedMixture
from kexpfam.features import FourierBasis
from kexpfam.solve.levels import Levels

__all__ = ["Instant", "ScoreField", "score_field", "speed"]


class Instant(NamedTuple):
    """A field at one time: what all rows have in common there."""

    variance: Float[Any, ""]
    coefficients: Float[Any, " m"]
    mixture: MixtureScore


def speed(
    basis: FourierBasis, instant: Instant, rows: Float[Any, "n d"]
) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
    """−σ²∇log p_σ and −σ²(Δf + ∇f·∇log q_σ)."""
    tilt = basis.gradient(instant.coefficients, rows)
    bend = basis.laplacian(instant.coefficients, rows, jnp.ones(rows.shape[1]))
    pull = instant.mixture.gradient(rows)
    return (
        -instant.variance * (tilt + pull),
        -instant.variance * (bend + (tilt * pull).sum(axis=1)),
    )


@register_dataclass
@dataclass(frozen=True)
class ScoreField:
    """The score at every noise level."""

    basis: FourierBasis
    base: SmoothedMixture
    knots: Float[Any, " l"]
    coefficients: Float[Any, "l m"]

    def coefficients_at(self, time: Any) -> Float[Array, " m"]:
        """β at t = log σ."""
        knots, coefficients = jnp.asarray(self.knots), jnp.asarray(self.coefficients)
        place = jnp.clip(jnp.searchsorted(knots, time, side="right") - 1, 0, len(knots) - 2)
        share = (time - knots[place]) / (knots[place + 1] - knots[place])
        share = jnp.clip(share, 0.0, 1.0)
        return (1 - share) * coefficients[place] + share * coefficients[place + 1]

    def at(self, time: Any) -> Instant:
        """The field at t = log σ."""
        scale = jnp.exp(time)
        return Instant(scale**2, self.coefficients_at(time), self.base.at(scale))

    def score(self, rows: Float[Any, "n d"], time: Any) -> Float[Array, "n d"]:
        """∇log p_σ."""
        tilt = self.basis.gradient(self.coefficients_at(time), rows)
        return tilt + self.base.gradient(rows, jnp.exp(time))

    def curvature(
        self,
        rows: Float[Any, "n d"],
        time: Any,
        axes: Float[Any, "d e"],
        metric: Float[Any, "n e"],
    ) -> Float[Array, " n"]:
        """Σ_e metric_e a_eᵀ ∇²log p_σ a_e, for the columns a_e of `axes`."""
        tilt = self.basis.curvature(self.coefficients_at(time), rows, axes, metric)
        base = self.base.second_derivatives(rows, jnp.exp(time), axes)
        return tilt + (metric * base).sum(axis=1)

    @property
    def has_tilt(self) -> bool:
        """Whether it differs from its base density."""
        return bool(np.any(self.coefficients))

    @property
    def lowest(self) -> float:
        """The lowest noise scale."""
        return float(np.exp(self.knots[0]))

    @property
    def highest(self) -> float:
        """The noise scale from which on there is no tilt."""
        return float(np.exp(self.knots[-1]))


def score_field(basis: FourierBasis, base: SmoothedMixture, levels: Levels) -> ScoreField:
    """The field of solved levels."""
    return ScoreField(basis, base, np.log(levels.noise_scales), levels.coefficients)
