"""Markov kernels, from blackjax, with the numbers that suit them.

The Metropolis-adjusted Langevin algorithm (MALA) proposes, with step size ε and normal ξ,

    z' = z + ε ∇log p(z) + √(2ε) ξ

and accepts with probability min(1, p(z') r(z | z') / p(z) r(z' | z)), r the distribution of the
proposal. This is blackjax's convention. Roberts and Tweedie write z + (h/2) ∇log p + √h ξ: their
step h is ε = h/2 here. The paper of Tsimboy et al. reports a step of 0.1 without saying which is
meant.

The no-U-turn sampler (NUTS) follows a Hamiltonian trajectory in leapfrog steps of size ε, with
unit masses (columns are standardized), until it turns back.

| symbol | name      | shape  |
|--------|-----------|--------|
| z      | position  | (d,)   |
| ε      | step_size | ()     |

References
----------
G. O. Roberts and R. L. Tweedie, "Exponential convergence of Langevin distributions and their
discrete approximations", Bernoulli 1996. G. O. Roberts and J. S. Rosenthal, "Optimal scaling of
discrete approximations to Langevin diffusions", JRSS B 1998 (acceptance 0.574). M. D. Hoffman and
A. Gelman, "The no-U-turn sampler", JMLR 2014 (acceptance 0.8, dual averaging).

Here and elsewhere blackjax is imported where it is called: most programs never sample, and it would
make all of them start later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

__all__ = ["METHODS", "Method"]


@dataclass(frozen=True)
class Method:
    """A Markov kernel and how it wants to be run.

    Parameters
    ----------
    name : str
    init : callable
        ``init(row, log_density)`` is a state with a `position`.
    step : callable
        ``step(key, state, log_density, step_size)`` is the next state and the probability with
        which a proposal was accepted.
    target_acceptance : float
        What the step size is adapted to.
    sane_acceptance : pair of float
        Outside of this range something is wrong.
    step_power : int
        How the step size grows with the unit of length: 1 for a length, 2 for a variance.
    burn_in, thinning, most_thinning : int
        Steps to forget, and steps from one kept draw to the next, at first and at most.
    """

    name: str
    init: Callable[..., Any]
    step: Callable[..., Any]
    target_acceptance: float
    sane_acceptance: tuple[float, float]
    step_power: int
    burn_in: int
    thinning: int
    most_thinning: int


def _mala_init(row: Any, log_density: Any) -> Any:
    from blackjax.mcmc import mala

    return mala.init(row, log_density)


def _mala_step(key: Any, state: Any, log_density: Any, step_size: Any) -> tuple[Any, Any]:
    from blackjax.mcmc import mala

    state, info = mala.build_kernel()(key, state, log_density, step_size)
    return state, info.acceptance_rate


def _nuts_init(row: Any, log_density: Any) -> Any:
    from blackjax.mcmc import hmc

    return hmc.init(row, log_density)


def _nuts_step(key: Any, state: Any, log_density: Any, step_size: Any) -> tuple[Any, Any]:
    from blackjax.mcmc import nuts

    masses = jnp.ones_like(state.position)
    state, info = nuts.build_kernel()(key, state, log_density, step_size, masses)
    return state, info.acceptance_rate


METHODS: dict[str, Method] = {
    "mala": Method(
        name="mala",
        init=_mala_init,
        step=_mala_step,
        target_acceptance=0.574,
        sane_acceptance=(0.2, 0.999),
        step_power=2,
        burn_in=500,
        thinning=8,
        most_thinning=64,
    ),
    "nuts": Method(
        name="nuts",
        init=_nuts_init,
        step=_nuts_step,
        target_acceptance=0.8,
        # Small steps cost NUTS time, not quality: no acceptance is too high.
        sane_acceptance=(0.4, 1.0),
        step_power=1,
        burn_in=200,
        thinning=1,
        most_thinning=8,
    ),
}
