"""The log density of the probability flow inside compiled code.

    log p(x) = log q(z) + log((1 − ε) e^gain + ε) + log |dz/dx|,      z = A⁻¹(t(x) − shift)

with the same code as `kexpfam.data.marginals` and `kexpfam.model.flow`.

| symbol | name       | shape  |
|--------|------------|--------|
| A⁻¹    | whitening  | (d, d) |
| ε      | base_share | ()     |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.data.marginals import Marginals
from kexpfam.model.flow import traced_gain
from kexpfam.model.score_field import ScoreField

__all__ = ["TracedFlow"]


@register_dataclass
@dataclass(frozen=True)
class TracedFlow:
    """log p by the probability flow; no steps stand for the base density alone.

    Its arrays must be JAX's when it is called: NumPy's cannot be looked up at a traced place.
    """

    marginals: Marginals
    shift: Float[Any, " d"]
    whitening: Float[Any, "d d"]
    log_volume: Float[Any, ""]
    scores: ScoreField
    base_share: float | Float[Any, ""]
    times: Float[Any, " s"]
    n_steps: int = field(metadata={"static": True})

    def log_density(self, rows: Float[Any, "n d"]) -> Float[Array, " n"]:
        """log p."""
        curve = self.marginals.block_curve(rows)
        whitened = (curve.values - self.shift) @ self.whitening.T
        logs = self.scores.base.log_density(whitened, jnp.exp(self.scores.knots[0]))
        if self.n_steps > 0:
            # A number of steps that is known beforehand is what reverse differentiation needs.
            gain = traced_gain(self.scores, whitened, self.times, self.n_steps)
            logs += jnp.logaddexp(jnp.log1p(-self.base_share) + gain, jnp.log(self.base_share))
        return logs + curve.log_slopes.sum(axis=1) + self.log_volume
