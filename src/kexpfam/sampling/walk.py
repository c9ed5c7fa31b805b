"""Chains under way: compiled legs of steps and jumps, and the step size learned on the way.

Local steps do not travel between separated modes. The base density usually covers them all, and
p ∝ q0 exp f: so every few steps each chain is offered a jump to a fresh draw z' of q0, accepted
with probability min(1, exp(f(z') − f(z))). This is Metropolis with independent proposals (Tierney,
"Markov chains for exploring posterior distributions", 1994), and alternating it with MALA or NUTS
leaves p invariant.

A leg is a compiled run of up to `_LEG` kept draws of all chains. Numbers of steps are arguments of
it, not constants in it: burn-in and sampling, long and short, share one compilation per method
and shape.

While adapting, dual averaging (Hoffman and Gelman 2014) moves log ε until the acceptance, averaged
over the chains, is the method's target; the average of log ε is used from then on.

| symbol | name      | shape              |
|--------|-----------|--------------------|
| z      | draws     | (chains, draws, d) |
| z'     | fresh     | (draws, chains, d) |
| ε      | step_size | ()                 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kexpfam.base import BaseDensity
from kexpfam.precision import compiled
from kexpfam.progress import Progress
from kexpfam.sampling.methods import Method

__all__ = ["ChainStates", "Walk", "Walker", "start_chains"]

_LEG = 64


class ChainStates(NamedTuple):
    """Where the chains are, what was learned about the step size, and how many legs have run."""

    states: Any
    adaptation: Any
    leg: Any


@compiled(static=("method",))
def start_chains(log_density: Any, rows: Any, step_size: Any, method: Method) -> ChainStates:
    """Chains at their starting points, `rows`, and the first step size to try."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    states = jax.vmap(lambda row: method.init(row, log_density))(rows)
    start, _, _ = dual_averaging_adaptation(method.target_acceptance)
    return ChainStates(states, start(step_size), 0)


def _jump(key: Any, state: Any, fresh: Any, log_density: Any, method: Method) -> tuple[Any, Any]:
    """Metropolis with a fresh draw of the base density for a proposal."""
    gain = log_density.tilt(fresh) - log_density.tilt(state.position)
    acceptance = jnp.exp(jnp.minimum(gain, 0.0))
    accepted = jax.random.bernoulli(key, acceptance)
    there = method.init(fresh, log_density)
    return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), there, state), acceptance


@compiled(static=("method",))
def _run_leg(
    log_density: Any,
    chains: ChainStates,
    seed: Any,
    step_size: Any,
    adapting: Any,
    fresh: Any,
    jumping: Any,
    n_kept: Any,
    thinning: Any,
    method: Method,
) -> tuple[ChainStates, Any, Any, Any]:
    """One leg: the chains after it, a buffer of draws, summed acceptance of steps and jumps."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    _, update, _ = dual_averaging_adaptation(method.target_acceptance)
    n_chains, n_columns = chains.states.position.shape
    # Named, so that the user's choice of a default generator does not change the draws.
    key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), chains.leg)

    def step(index: Any, carry: Any) -> Any:
        states, adaptation, kept, accepted, jumped = carry
        jump_key, step_key = jax.random.split(jax.random.fold_in(key, index))
        states, jumps = jax.lax.cond(
            jumping & (index % thinning == 0),
            lambda states: jax.vmap(lambda k, s, z: _jump(k, s, z, log_density, method))(
                jax.random.split(jump_key, n_chains), states, fresh[index // thinning]
            ),
            lambda states: (states, jnp.zeros(n_chains)),
            states,
        )
        size = jnp.where(adapting, jnp.exp(adaptation.log_step_size), step_size)
        states, acceptance = jax.vmap(lambda k, s: method.step(k, s, log_density, size))(
            jax.random.split(step_key, n_chains), states
        )
        updated = update(adaptation, acceptance.mean())
        adaptation = jax.tree.map(
            lambda new, old: jnp.where(adapting, new, old), updated, adaptation
        )
        # Each draw is overwritten by the next until the last of its `thinning` steps.
        kept = kept.at[index // thinning].set(states.position)
        return states, adaptation, kept, accepted + acceptance, jumped + jumps

    empty = jnp.zeros((_LEG, n_chains, n_columns)), jnp.zeros(n_chains), jnp.zeros(n_chains)
    carry = (chains.states, chains.adaptation, *empty)
    states, adaptation, *found = jax.lax.fori_loop(0, n_kept * thinning, step, carry)
    return ChainStates(states, adaptation, chains.leg + 1), *found


class Walk(NamedTuple):
    """Kept draws, and the mean acceptance of each chain's steps and jumps."""

    draws: Float[np.ndarray, "chains draws d"]
    acceptance: Float[np.ndarray, " chains"]
    jump_acceptance: Float[np.ndarray, " chains"]


@dataclass
class Walker:
    """Chains under way."""

    base: BaseDensity
    log_density: Any
    method: Method
    generator: np.random.Generator
    seed: int
    chains: ChainStates
    step_size: float
    progress: Progress

    def walk(
        self,
        n_kept: int,
        thinning: int,
        label: str,
        *,
        stride: int = 1,
        adapting: bool = False,
        jumping: bool = False,
    ) -> Walk:
        """Walk on, and keep one of `stride` draws; `stride` divides `_LEG` and `n_kept`."""
        n_chains, n_columns = self.chains.states.position.shape
        fresh = np.zeros((_LEG, n_chains, n_columns))
        pieces, accepted, jumped = [], np.zeros(n_chains), np.zeros(n_chains)
        for start in self.progress.track(range(0, n_kept, _LEG), label):
            count = min(_LEG, n_kept - start)
            if jumping:
                fresh = self.base.sample(_LEG * n_chains, self.generator).reshape(fresh.shape)
            self.chains, kept, steps, jumps = _run_leg(
                self.log_density,
                self.chains,
                np.int64(self.seed),
                np.float64(self.step_size),
                np.bool_(adapting),
                fresh,
                np.bool_(jumping),
                np.int64(count),
                np.int64(thinning),
                method=self.method,
            )
            pieces.append(kept[stride - 1 : count : stride])
            accepted += steps
            jumped += jumps
        draws = np.concatenate(pieces).transpose(1, 0, 2)
        return Walk(draws, accepted / (n_kept * thinning), jumped / n_kept)

    def adapt(self, n_steps: int) -> None:
        """Walk on, and take the step size that brings about the wanted acceptance."""
        self.walk(n_steps, 1, "burn-in", adapting=True)
        self.step_size = float(np.exp(self.chains.adaptation.log_step_size_avg))
