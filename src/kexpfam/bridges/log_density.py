"""A fitted model as a plain JAX function: log p(x) at one row, normalized, in the user's units.

    log p(x) = f(z) + log q0(z) − Σ_j log scale_j − log Z,     z = (x − center) / scale

for `KernelExponentialFamily`, and the probability flow's log density for `KernelDiffusion` (see
`kexpfam.bridges.flow_density`). Both can be compiled, mapped over rows and differentiated, so that
they serve as a target or a prior wherever a JAX function does: blackjax, NumPyro, optax.

The rest of the library computes in float64 whatever the user's setting. A function that lives
inside the user's own compiled code cannot: it computes in the precision that is switched on there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float
from sklearn.utils.validation import check_is_fitted

from kexpfam.base.traced import TracedRescaled
from kexpfam.bridges.flow_density import FlowDensity
from kexpfam.model import FlowDensity as FlowDensityRecord
from kexpfam.model import TiltedDensity
from kexpfam.sampling import jax_log_density as unnormalized_log_density

__all__ = ["LogDensityFunction", "fresh_constants", "jax_log_density"]


def fresh_constants(record: Any) -> Any:
    """The same record, with copies of its NumPy arrays as JAX's.

    JAX remembers what it made of a NumPy array that compiled code has captured: float32, where
    float64 is off. The library's own float64 code would be handed that when it meets that array.
    """
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf.copy()) if isinstance(leaf, np.ndarray) else leaf, record
    )


# Compared by identity, as functions are: jax.jit keeps what it compiled by the function's hash.
@register_dataclass
@dataclass(frozen=True, eq=False)
class LogDensityFunction:
    """log p at one row of the user's units: a pure function, and a record of arrays (a pytree).

    As a pytree it can also be an argument of compiled code, which then serves every fit of the
    same shape.
    """

    density: Callable[[Any], Any]
    log_normalizer: Float[Any, ""]
    center: Float[Any, " d"]

    def __call__(self, row: Any) -> Float[Array, ""]:
        """log p(x)."""
        row = jnp.asarray(row, float)
        if row.shape != self.center.shape:
            raise ValueError(
                f"Expected one row, of shape {self.center.shape}; got shape {row.shape}. "
                "For many rows use jax.vmap(function)(rows)."
            )
        return fresh_constants(self.density)(row) - self.log_normalizer


def jax_log_density(model: Any) -> LogDensityFunction:
    """A fitted model as a JAX function of one row: its normalized log density.

    Parameters
    ----------
    model : KernelExponentialFamily or KernelDiffusion
        Fitted. Rows fitted later do not change the function.

    Returns
    -------
    function : callable
        Takes an array of shape (n_features,), in the units of the data, and gives a scalar.
        ``jax.grad``, ``jax.jit`` and ``jax.vmap`` apply.

    Notes
    -----
    It computes in the user's precision. With float64 switched on (``jax.enable_x64(True)``) it
    gives what `score_samples` gives; in float32, the default of JAX, four to six digits of that.
    A column that is large against its spread loses some of them: center it before fitting.

    A base density written by the user is called back in Python and can be differentiated once; all
    else, any number of times.

    For `KernelDiffusion` every evaluation follows the flow, and a gradient takes a few times as
    long. The function takes the steps that `score_samples` takes at most rows; for rows far out,
    `score_samples` takes shorter ones.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from kexpfam import KernelExponentialFamily
    >>> from kexpfam.bridges import jax_log_density
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("ring").sample(300, random_state=0)
    >>> model = KernelExponentialFamily(n_components=64, random_state=0).fit(X)
    >>> log_density = jax_log_density(model)
    >>> with jax.enable_x64(True):
    ...     slopes = jax.vmap(jax.grad(log_density))(X[:5])
    >>> np.allclose(slopes, model.gradient(X[:5]))
    True
    """
    check_is_fitted(model)
    density = getattr(model, "density_", None)
    if isinstance(density, TiltedDensity):
        units = density.standardizer
        inner = unnormalized_log_density(density)
        in_user_units = TracedRescaled(inner, units.center, units.scale)
        return LogDensityFunction(in_user_units, np.float64(density.log_normalizer), units.center)
    if isinstance(density, FlowDensityRecord):
        flow = FlowDensity.from_model(model)
        return LogDensityFunction(flow, np.float64(0.0), flow.coordinates.center)
    raise TypeError(
        "Expected a fitted KernelExponentialFamily or KernelDiffusion; got "
        f"{type(model).__name__}. Of a pipeline, give the last step: pipeline[-1]."
    )
