"""A fitted model as a plain JAX function: log p(x) at one row, normalized, in the user's units.

It can be compiled, mapped over rows and differentiated, so that it serves as a target or a prior
wherever a JAX function does: blackjax, NumPyro, optax.

The rest of the library computes in float64 whatever the user's setting. A function that lives
inside the user's own compiled code cannot: it computes in the precision that is switched on there.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from kexpfam.model import RealDensity
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.traced import LogDensityFunction, fresh_constants
from kexpfam.model.traced_conditional import ConditionalFunction

__all__ = ["LogDensityFunction", "fresh_constants", "jax_log_density"]


def jax_log_density(model: Any) -> LogDensityFunction | ConditionalFunction:
    """A fitted model as a JAX function of one row: its normalized log density.

    Parameters
    ----------
    model : KernelExponentialFamily, KernelDiffusion or ConditionalKernelExponentialFamily
        The fitted model. Rows that are added later do not change the function.

    Returns
    -------
    function : callable
        Takes an array of shape (n_features,), in the units of the data, and returns a scalar. For a
        conditional density, the target is the second argument. ``jax.grad``, ``jax.jit`` and
        ``jax.vmap`` apply.

    Notes
    -----
    It computes in the user's precision. With float64 (``jax.enable_x64(True)``) the result is that
    of `score_samples`; in float32, the default of JAX, four to six digits agree. A column whose
    values are large compared with its spread loses some of them: center it before fitting.

    A base density written by the user is called in Python and can be differentiated once;
    everything else can be differentiated any number of times.

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
    >>> model = KernelExponentialFamily(n_components=32, random_state=0).fit(X)
    >>> log_density = jax_log_density(model)
    >>> with jax.enable_x64(True):
    ...     slopes = jax.vmap(jax.grad(log_density))(X[:5])
    >>> np.allclose(slopes, model.gradient(X[:5]))
    True
    """
    density = getattr(model, "density_", None)
    if not isinstance(density, (RealDensity, ConditionalDensity)):
        check_is_fitted(model)
        raise TypeError(
            "Expected a fitted KernelExponentialFamily, KernelDiffusion or "
            f"ConditionalKernelExponentialFamily; got {type(model).__name__}. Of a pipeline, give "
            "the last step: pipeline[-1]."
        )
    return density.jax_function()
