"""Sampling from a fitted density: many chains side by side, in standardized units and float64.

    starts ─▶ burn-in, adapting one step size to all chains ─▶ kept draws ─▶ diagnostics

Unless the number of steps is given, the distance between kept draws doubles (every second draw is
dropped, the chains walk on) until the draws are worth at least half their number, or the largest
distance is reached.

| symbol | name      | shape              |
|--------|-----------|--------------------|
| z      | draws     | (chains, draws, d) |
| ε      | step_size | ()                 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import checked_name, positive_number, seeded, whole
from kexpfam.progress import Progress
from kexpfam.sampling.chains import Chains, diagnose
from kexpfam.sampling.methods import METHODS, Method
from kexpfam.sampling.starts import draw_starts
from kexpfam.sampling.target import Target
from kexpfam.sampling.walk import Walk, Walker, start_chains

__all__ = ["sample_density"]

# Fewer draws of a chain than this say little about whether it has settled.
_FEWEST_DRAWS = 64
# Halves of chains are compared, and the variance of a half takes two draws.
_FEWEST_TO_DIAGNOSE = 4


@dataclass(frozen=True)
class _Plan:
    """How far to walk: steps to forget, draws to keep, steps between them at first and at most."""

    burn_in: int
    n_draws: int
    thinning: int
    most_thinning: int


def _make_plan(
    n_samples: int, n_chains: int, n_steps: int | None, burn_in: int | None, method: Method
) -> _Plan:
    """Numbers of draws are powers of two, so that their diagnostics are compiled for few shapes."""
    needed = max(_FEWEST_DRAWS, -(-n_samples // n_chains))
    n_draws = 1 << (needed - 1).bit_length()
    burn_in = method.burn_in if burn_in is None else burn_in
    if n_steps is None:
        return _Plan(burn_in, n_draws, method.thinning, method.most_thinning)
    left = n_steps - burn_in
    fewest = max(_FEWEST_TO_DIAGNOSE, -(-n_samples // n_chains))
    if left < fewest:
        raise ValueError(
            f"n_steps counts the burn-in: expected at least {burn_in + fewest} steps of each chain "
            f"for burn_in={burn_in} and {n_samples} samples of {n_chains} chains; got {n_steps}. "
            "Raise n_steps or n_chains, or lower burn_in."
        )
    n_draws = min(n_draws, left)
    return _Plan(burn_in, n_draws, left // n_draws, left // n_draws)


def sample_density(
    density: Target,
    n_samples: int,
    random_state: Any = None,
    *,
    method: str = "mala",
    n_chains: int = 64,
    n_steps: int | None = None,
    burn_in: int | None = None,
    step_size: float | None = None,
    jumps: bool = True,
    starts: Any = None,
    progress: Progress | None = None,
) -> Chains:
    """Draw from a fitted density by Markov chain Monte Carlo.

    Parameters
    ----------
    density : kexpfam.model.TiltedDensity, or the like
        Its normalizer is not used.
    n_samples : int
        How many draws are wanted; at least as many are kept, and ``rows(n_samples)`` of the
        result are exactly that many.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same draws.
    method : {"mala", "nuts"}, default="mala"
        The Metropolis-adjusted Langevin algorithm, or the no-U-turn sampler: fewer steps, each of
        many evaluations, for densities along which MALA diffuses too slowly.
    n_chains : int, default=64
        Chains walk side by side.
    n_steps : int, optional
        Steps of each chain, burn-in included, at most. By default as many as it takes to keep
        draws that are worth half their number, within limits.
    burn_in : int, optional
        Steps of each chain that are forgotten. By default 500 (MALA) or 200 (NUTS).
    step_size : float, optional
        In standardized units (see `kexpfam.sampling.methods` for the convention). By default
        adapted during the burn-in to an acceptance of 0.574 (MALA) or 0.8 (NUTS).
    jumps : bool, default=True
        Whether chains are also offered fresh draws of the base density every few steps, which
        carries them between modes. False is the plain method.
    starts : array of shape (n_chains, n_columns), optional
        Where chains start, in the user's units. By default draws of the base density, resampled
        by importance weight.
    progress : Progress, optional
        Where to show progress.

    Returns
    -------
    Chains
        Draws in the user's units, acceptance, step size, R-hat and effective sample sizes. A
        `SamplingWarning` says when they are bad.

    Notes
    -----
    Chains that start from importance-weighted draws occupy separated modes in proportion to their
    mass. Where neither steps nor jumps carry them between modes, R-hat says so; the shares of the
    modes are then as good as `n_chains` starting points make them.

    At the edges of a uniform base density trajectories end: there NUTS is slower than MALA.

    The setting of Tsimboy et al. (one chain, steps of 0.1, 10 000 of them, half forgotten) is
    ``n_samples=5000, n_chains=1, n_steps=10_000, burn_in=5000, step_size=0.1, jumps=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam.base import GaussianMixtureDensity
    >>> from kexpfam.data.standardize import Standardizer
    >>> from kexpfam.features import FourierBasis
    >>> from kexpfam.model import TiltedDensity
    >>> from kexpfam.sampling import sample_density
    >>> density = TiltedDensity(
    ...     basis=FourierBasis(np.ones((1, 2)), np.zeros(1), np.ones(1)),
    ...     coefficients=np.zeros(2),
    ...     base=GaussianMixtureDensity(np.ones(1), np.zeros((1, 2)), np.eye(2)[None]),
    ...     standardizer=Standardizer(np.array([10.0, 0.0]), np.array([1.0, 2.0])),
    ...     log_normalizer=0.0,
    ... )
    >>> chains = sample_density(density, 1000, random_state=0)
    >>> X = chains.rows(1000)
    >>> X.shape, X.mean(axis=0).round().tolist(), X.std(axis=0).round().tolist()
    ((1000, 2), [10.0, 0.0], [1.0, 2.0])
    >>> bool(chains.r_hat.max() < 1.05), round(float(chains.acceptance.mean()), 1)
    (True, 0.6)
    """
    n_samples, n_chains = whole("n_samples", n_samples), whole("n_chains", n_chains)
    n_steps = None if n_steps is None else whole("n_steps", n_steps)
    burn_in = None if burn_in is None else whole("burn_in", burn_in, least=0)
    kernel = _checked_method(method)
    step_size = _checked_step_size(step_size, burn_in)
    plan = _make_plan(n_samples, n_chains, n_steps, burn_in, kernel)

    generator = seeded(random_state)
    drawn = draw_starts(density, n_chains, generator)
    rows = drawn.rows if starts is None else _checked_starts(starts, density, n_chains)
    # Dual averaging first tries ten times what it starts from.
    first_step = step_size or 0.1 * drawn.spread**kernel.step_power
    log_density = density.standardized_function()
    walker = Walker(
        base=density.base,
        log_density=log_density,
        method=kernel,
        generator=generator,
        seed=int(generator.integers(2**62)),
        chains=start_chains(log_density, rows, np.float64(first_step), method=kernel),
        step_size=first_step,
        progress=progress or Progress(),
    )
    if step_size is None:
        walker.adapt(plan.burn_in)
    elif plan.burn_in:
        walker.walk(plan.burn_in, 1, "burn-in")
    chains = _collect(walker, plan, bool(jumps), density)
    chains.warn(stacklevel=2)
    return chains


def _collect(walker: Walker, plan: _Plan, jumping: bool, density: Target) -> Chains:
    """Kept draws, further apart until they are worth half their number."""
    enough = walker.chains.states.position.shape[0] * plan.n_draws / 2
    walk = walker.walk(plan.n_draws, plan.thinning, "sampling", jumping=jumping)
    r_hat, effective = diagnose(walk.draws)
    stride = 1
    while plan.thinning * stride < plan.most_thinning and not effective.min() >= enough:
        stride *= 2
        # As many jumps per step as before.
        more = walker.walk(
            plan.n_draws // 2 * stride,
            plan.thinning,
            "sampling further",
            stride=stride,
            jumping=jumping,
        )
        walk = Walk(
            np.concatenate([walk.draws[:, 1::2], more.draws], axis=1),
            (walk.acceptance + more.acceptance) / 2,
            (walk.jump_acceptance + more.jump_acceptance) / 2,
        )
        r_hat, effective = diagnose(walk.draws)
    rows = density.standardizer.backward(walk.draws.reshape(-1, walk.draws.shape[2]))
    return Chains(
        draws=rows.reshape(walk.draws.shape),
        acceptance=walk.acceptance,
        jump_acceptance=walk.jump_acceptance,
        step_size=walker.step_size,
        r_hat=r_hat,
        effective_sample_size=effective,
        method=walker.method.name,
        thinning=plan.thinning * stride,
    )


def _checked_method(method: Any) -> Method:
    return METHODS[checked_name("method", method, METHODS)]


def _checked_step_size(step_size: Any, burn_in: int | None) -> float | None:
    if step_size is None:
        if burn_in == 0:
            raise ValueError(
                "The step size is adapted during the burn-in: expected burn_in of at least 1 with "
                "step_size=None; got burn_in=0. Give a step_size or a burn_in of some hundreds."
            )
        return None
    return positive_number("step_size", step_size, otherwise="None, which adapts it,")


def _checked_starts(starts: Any, density: Target, n_chains: int) -> Float[np.ndarray, "chains d"]:
    """Given starting points in standardized units, all of positive density."""
    try:
        rows = np.asarray(starts, float)
    except (TypeError, ValueError):
        raise ValueError(
            f"starts must be an array of numbers, a row for each chain; got {starts!r:.60}."
        ) from None
    expected = (n_chains, len(density.standardizer.center))
    if rows.shape != expected:
        raise ValueError(
            f"starts must be one row per chain, of shape {expected}; got {rows.shape}. "
            f"Try n_chains={len(np.atleast_1d(rows))}."
        )
    if not (np.isfinite(rows).all() and np.isfinite(density.log_density(rows)).all()):
        raise ValueError(
            "starts must have positive density, but the log density is not finite at some of "
            "them. Start inside the support of the base density, for instance at training rows."
        )
    return density.standardizer.forward(rows)
