"""One formula for NumPy's arrays and for those that JAX traces.

`namespace` gives the module whose functions an array wants, `numpy` or `jax.numpy`; `special` the
functions of the normal distribution for either. JAX has no Φ⁻¹(exp l); it is found by Newton's
method here:

    g(t) = log Φ(t) − l = 0,     t ← t − g(t) Φ(t)/φ(t),     dt/dl = Φ(t)/φ(t).

log Φ is concave, so that steps from the left of the root approach it without passing it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from kexpfam.logarithms import log_sum_exp

__all__ = ["Special", "namespace", "normal_quantile", "outer_products", "special"]

_NEWTON_STEPS = 8


def namespace(*arrays: Any) -> Any:
    """`jax.numpy` if one of the arrays is JAX's, else `numpy`."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


def outer_products(first: Float[Any, "n k d"], second: Float[Any, "n k e"]) -> Float[Any, "n d e"]:
    """Σ_k a_k b_kᵀ in every row."""
    if namespace(first, second) is np:
        return first.swapaxes(1, 2) @ second
    # As sums of products: XLA's product of many small matrices is slow on a CPU.
    return (first[:, :, :, None] * second[:, :, None, :]).sum(axis=1)


@jax.custom_jvp
def normal_quantile(log_share: Float[Any, "*shape"]) -> Float[Array, "*shape"]:
    """Φ⁻¹(exp l) for l ≤ log ½, however far out."""
    # From log Φ(t) ≤ −t²/2 + log ½ for t ≤ 0: never to the right of the root.
    value = -jnp.sqrt(jnp.maximum(-2 * (log_share + jnp.log(2.0)), 0.0))
    for _ in range(_NEWTON_STEPS):
        below = jax.scipy.special.log_ndtr(value)
        value = value - (below - log_share) * jnp.exp(below - norm.logpdf(value))
    return value


@normal_quantile.defjvp
def _quantile_slope(primals: Any, tangents: Any) -> Any:
    value = normal_quantile(*primals)
    return value, jnp.exp(primals[0] - norm.logpdf(value)) * tangents[0]


class Special(NamedTuple):
    """log Σ exp, log Φ and Φ⁻¹(exp l) for l ≤ log ½."""

    logsumexp: Callable[..., Any]
    log_ndtr: Callable[..., Any]
    ndtri_exp: Callable[..., Any]


_SPECIAL = {
    np: Special(log_sum_exp, scipy.special.log_ndtr, scipy.special.ndtri_exp),
    jnp: Special(jax.scipy.special.logsumexp, jax.scipy.special.log_ndtr, normal_quantile),
}


def special(*arrays: Any) -> Special:
    """Special functions for arrays of NumPy's, or for those of JAX's."""
    return _SPECIAL[namespace(*arrays)]
