"""Derivatives of a chain's log density in the numbers that have one, by JAX.

The same formulas as in `kexpfam.model.chain`, for one row, as a function of its mapped numbers t
with densities; categories and whole numbers come before them and depend on none of them. With the
logarithm ℓ of the slope t′ of a column's map,

    ∂_j log p = t′_j ∂L/∂t_j + ℓ′_j        ∂²_j log p = t′_j² ∂²L/∂t_j² + ℓ′_j t′_j ∂L/∂t_j + ℓ″_j.

Rows that lack the same columns are compiled and evaluated together; what is not there has no
derivative.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr, ndtri
from jaxtyping import Float

from kexpfam.base.bell import BELL
from kexpfam.base.ordered import patterns_of
from kexpfam.data.blocks import padded
from kexpfam.features.residual import REACH, residual_functions
from kexpfam.features.traced_inputs import (
    TracedFunctions,
    TracedLocation,
    traced_functions,
    traced_location,
    traced_residual_functions,
)
from kexpfam.model.chain_slices import Chain
from kexpfam.model.residual_tilt import BASE_SHARE, NODES, normal_masses
from kexpfam.precision import compiled

__all__ = ["chain_derivatives"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
_BLOCK, _FEW = 256, 16
_TINY = 1e-300


class _Term(NamedTuple):
    """A number's terms as JAX sees them."""

    location: TracedLocation | None
    factor: Any
    share: Any
    functions: TracedFunctions | None
    coefficients: Any


class _Plan(NamedTuple):
    """What selects the computation: kernels, which ends there are, and how many columns."""

    n_scores: int
    n_before: int
    kinds: tuple[tuple[str | None, str | None], ...]
    ended: tuple[tuple[bool, bool], ...]


class _Row(NamedTuple):
    """One row; `head` are scores and whole numbers, `known` and `familiar` as in `Inputs`."""

    head: Any
    mapped: Any
    indicators: Any
    there: Any
    known: Any
    familiar: Any


def chain_derivatives(
    chain: Chain, rows: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """∂_j log p and ∂²_j log p; NaN where a column has none."""
    first, second = np.full(rows.shape, np.nan), np.full(rows.shape, np.nan)
    parts, layout = chain.layout.split(rows), chain.layout
    smooth = np.flatnonzero(~layout.is_lattice)
    if chain.marginals is None or chain.mixture is None or not len(smooth):
        return first, second
    inputs = chain.inputs(parts)
    plan, terms = _planned(chain, smooth)
    mapped = np.concatenate([chain.scores(inputs.indicators), inputs.mapped], axis=1)
    slopes = np.zeros((2, len(rows), len(smooth)))
    for there, members in patterns_of(~np.isnan(mapped)):
        factors = chain.mixture.factors(there)
        arrays = factors.log_weights, factors.turns, factors.shifts, factors.deviations
        whole = np.where(there, mapped, 0.0)
        split = mapped.shape[1] - len(smooth)
        row = _Row(
            whole[:, :split],
            whole[:, split:],
            inputs.indicators,
            np.broadcast_to(there[split:], (len(rows), len(smooth))).astype(float),
            inputs.known[:, smooth].astype(float),
            inputs.familiar[:, smooth].astype(float),
        )
        size = _BLOCK if len(members) > _FEW else _FEW
        for start in range(0, len(members), size):
            some = members[start : start + size]
            block = _Row(*(padded(np.asarray(part[some], float), size) for part in row))
            found = _derivatives(block, arrays, terms, chain.support[:, smooth], plan)
            slopes[:, some] = np.stack(found)[:, : len(some)]
    numbers = np.where(np.isnan(parts.numbers), chain.marginals.standardizer.center, parts.numbers)
    curve = chain.marginals.curve(numbers)
    steep, bend, turn = (
        part[:, smooth] for part in (np.exp(curve.log_slopes), curve.first, curve.second)
    )
    gradient = steep * slopes[0] + bend
    bent = steep**2 * slopes[1] + bend * steep * slopes[0] + turn
    gone = np.isnan(parts.numbers[:, smooth]) | parts.outside[:, None]
    columns = np.array(layout.numerics)[smooth]
    first[:, columns] = np.where(gone, np.nan, gradient)
    second[:, columns] = np.where(gone, np.nan, bent)
    return first, second


def _planned(chain: Chain, smooth: np.ndarray) -> tuple[_Plan, tuple[_Term, ...]]:
    terms, kinds = [], []
    for number in smooth:
        term = chain.number_terms[number]
        terms.append(
            _Term(
                None if term.location is None else traced_location(term.location),
                term.factor,
                term.share,
                None if term.functions is None else traced_functions(term.functions),
                term.coefficients,
            )
        )
        kinds.append(
            (
                None if term.location is None else term.location.covariance.kind,
                None if term.functions is None else term.functions.kind,
            )
        )
    ends = np.isfinite(chain.support[:, smooth]).T.tolist()
    ended = tuple((bool(low), bool(high)) for low, high in ends)
    n_scores = chain.scores.directions.shape[1]
    n_before = n_scores + len(chain.layout.numerics) - len(smooth)
    return _Plan(n_scores, n_before, tuple(kinds), ended), tuple(terms)


@compiled(static=("plan",))
def _derivatives(rows: Any, factors: Any, terms: Any, support: Any, plan: Any) -> Any:
    def log_density(mapped: Any, row: Any) -> Any:
        return _log_density(row._replace(mapped=mapped), factors, terms, support, plan)

    def both(row: Any) -> Any:
        slope = jax.grad(log_density)
        units = jnp.eye(row.mapped.shape[0])

        # The second derivative along each column.
        def bent(unit: Any) -> Any:
            change: Any = jax.jvp(lambda t: slope(t, row), (row.mapped,), (unit,))[1]
            return change @ unit

        return slope(row.mapped, row), jax.vmap(bent)(units)

    return jax.vmap(both)(rows)


def _log_density(row: Any, factors: Any, terms: Any, support: Any, plan: _Plan) -> Any:
    """The terms of numbers with densities, in mapped coordinates."""
    log_weights, turns, shifts, deviations = factors
    whole = jnp.concatenate([row.head, row.mapped])
    residuals = jnp.einsum("i,ijk->jk", whole, turns) - shifts
    steps = -(residuals**2) / 2 - jnp.log(deviations) - _HALF_LOG_TWO_PI
    logs = jnp.concatenate([log_weights[None], log_weights + jnp.cumsum(steps, axis=0)])
    totals = logsumexp(logs, axis=1)
    found = 0.0
    for number, term in enumerate(terms):
        place = plan.n_before + number
        simple = term.location is None and term.functions is None and not any(plan.ended[number])
        if simple:
            own = totals[place + 1] - totals[place]
        else:
            mixture = (
                logs[place] - totals[place],
                row.mapped[number] - deviations[place] * residuals[place],
                deviations[place],
            )
            own = _term(row, number, term, mixture, support[:, number], plan)
        found = found + row.there[number] * own
    return found


def _term(row: Any, number: int, term: _Term, mixture: Any, support: Any, plan: _Plan) -> Any:
    inputs = jnp.concatenate([row.indicators, row.head[plan.n_scores :], row.mapped[:number]])
    at, ended = row.mapped[number], plan.ended[number]
    kinds = plan.kinds[number]
    density, below, above = _on_line(mixture, at, support, ended)
    if term.location is not None:
        mean, variance = term.location.predict(inputs, kinds[0])
        scale = term.factor * jnp.sqrt(variance + term.location.noise)
        shares, widths = BELL
        bell = _on_line((jnp.log(shares), mean, scale * widths), at, support, ended)
        share = term.share * row.known[number]
        safe = jnp.where(share > 0, share, 0.5)
        stacked = jnp.logaddexp(density + jnp.log1p(-safe), bell[0] + jnp.log(safe))
        density = jnp.where(share > 0, stacked, density)
        below = (1 - share) * below + share * bell[1]
        above = (1 - share) * above + share * bell[2]
    found = density - jnp.log(below + above)
    if term.functions is None:
        return found
    slopes = term.functions(inputs, kinds[1]) @ term.coefficients * row.familiar[number]
    nearer = jnp.clip(jnp.minimum(below, above) / (below + above), _TINY, 0.5)
    residual = jnp.where(below < above, 1.0, -1.0) * ndtri(nearer)
    at_nodes, masses = residual_functions(NODES), normal_masses(NODES)
    log_normalizer = logsumexp(at_nodes @ slopes + jnp.log(masses))
    inside = jnp.clip(residual, -REACH, REACH)
    tilt = traced_residual_functions(inside) @ slopes - log_normalizer
    return found + jnp.logaddexp(np.log1p(-BASE_SHARE) + tilt, np.log(BASE_SHARE))


def _on_line(mixture: Any, at: Any, support: Any, ended: tuple[bool, bool]) -> Any:
    """log density, and masses below and above, as in `kexpfam.base.line`."""
    log_weights, centers, deviations = mixture
    weights, places = jnp.exp(log_weights), (at - centers) / deviations
    density = logsumexp(log_weights - places**2 / 2 - jnp.log(deviations) - _HALF_LOG_TWO_PI)
    below, above = ndtr(places), ndtr(-places)
    if ended[0]:
        below = _between((support[0] - centers) / deviations, places)
    if ended[1]:
        above = _between(places, (support[1] - centers) / deviations)
    return density, weights @ below, weights @ above


def _between(low: Any, high: Any) -> Any:
    return jnp.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
