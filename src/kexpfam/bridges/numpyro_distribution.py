"""A fitted model as a NumPyro distribution of one row.

Its log density is the model's. NumPyro draws from every distribution of a program while it sets the
program up, and inside compiled code, where the model's own sampler cannot run: rows are drawn once,
with that sampler, and `sample` picks among them.

| name  | shape  | meaning                          |
|-------|--------|----------------------------------|
| draws | (k, d) | rows that `sample` picks from    |
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kexpfam.bridges.log_density import fresh_constants, jax_log_density
from kexpfam.choices import whole

__all__ = ["as_numpyro"]


def as_numpyro(model: Any, *, n_draws: int = 4096, random_state: Any = None) -> Any:
    """A fitted model as a NumPyro distribution: a prior, or a likelihood of rows.

    Parameters
    ----------
    model : KernelExponentialFamily or KernelDiffusion
        Fitted.
    n_draws : int, default=4096
        Rows drawn now, from which `sample` picks with replacement. Ask the model itself for draws
        of its far tails.
    random_state : int, RandomState, Generator or None, default=None
        Seed of these rows.

    Returns
    -------
    distribution : numpyro.distributions.Distribution
        With event shape (n_features,) and support on all real rows; on the training rows' box for
        a uniform base density.

    Notes
    -----
    It computes in the user's precision, as `jax_log_density` does. NumPyro starts chains near zero
    by default: for columns far from there use ``init_strategy=numpyro.infer.init_to_sample``.

    Examples
    --------
    >>> import jax, numpyro
    >>> from kexpfam import KernelExponentialFamily
    >>> from kexpfam.bridges import as_numpyro
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("ring").sample(300, random_state=0)
    >>> model = KernelExponentialFamily(n_components=32, random_state=0).fit(X)
    >>> prior = as_numpyro(model, random_state=0)
    >>> prior.event_shape, prior.sample(jax.random.key(0), (3,)).shape
    ((2,), (3, 2))
    """
    n_draws = whole("n_draws", n_draws)
    family = _distribution_class()
    log_density = jax_log_density(model)
    draws = np.asarray(model.sample(n_draws, random_state=random_state))
    return family(log_density, draws, model.density_.support_box())


@functools.cache
def _distribution_class() -> Any:
    """The class of the distributions, made once NumPyro is there."""
    try:
        distributions: Any = importlib.import_module("numpyro.distributions")
    except ImportError as error:
        raise ImportError(
            "as_numpyro needs NumPyro, which is not installed: pip install 'kexpfam[numpyro]'. "
            "jax_log_density does without it."
        ) from error
    constraints = distributions.constraints

    class KernelDistribution(distributions.Distribution):
        """The distribution of a row under a fitted model."""

        pytree_data_fields = ("log_density", "draws", "box")

        def __init__(
            self, log_density: Any, draws: Any, box: Any, *, validate_args: bool | None = None
        ) -> None:
            self.log_density, self.draws, self.box = log_density, draws, box
            super().__init__(event_shape=draws.shape[1:], validate_args=validate_args)

        @constraints.dependent_property(is_discrete=False, event_dim=1)
        def support(self) -> Any:
            if self.box is None:
                return constraints.real_vector
            return constraints.independent(constraints.interval(*self.box), 1)

        def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
            places = jax.random.randint(key, sample_shape, 0, len(self.draws))
            return fresh_constants(self.draws)[places]

        def log_prob(self, value: Any) -> Any:
            return jnp.vectorize(self.log_density, signature="(d)->()")(value)

    return KernelDistribution
