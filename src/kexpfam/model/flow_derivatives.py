"""The gain that a flow adds to a log density, with its derivatives.

The gain's derivatives are those of the steps themselves, so that they belong to the log density
that is reported and not only to what both approximate. Beside a row z, a step carries how z depends
on where the row began, J = ∂z/∂z(0), and the gain's gradient; for Σ_e m_e a_eᵀ∇²g a_e along axes
a_e also the sum of second derivatives, w = Σ_e m_e ∂²z/∂a_e², and the gain's curvature c. With
the speeds F and G of rows and gain (see `kexpfam.model.field_derivatives`) and
S = J (Σ_e m_e a_e a_eᵀ) Jᵀ,

    J′ = DF J     (∇g)′ = Jᵀ∇G     w′ = DF w + D²F:S     c′ = ∇G·w + tr S∇²G.

A step is a sum of slopes at its nodes, and so is its derivative: Runge and Kutta's steps of these
equations are the derivatives of those of the flow. One pass up finds the gain, its error and all
derivatives; it takes about four times as long as the gain alone, or with second derivatives six.

| symbol | name      | shape     |
|--------|-----------|-----------|
| g      | gain      | (n,)      |
| J      | jacobian  | (n, d, d) |
| ∇g     | gradient  | (n, d)    |
| w      | bend      | (n, d)    |
| c      | curvature | (n,)      |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kexpfam.data.blocks import padded
from kexpfam.model.field_derivatives import speed_derivatives
from kexpfam.model.flow import flow_times, method_nodes, one_step
from kexpfam.model.score_field import ScoreField
from kexpfam.precision import compiled

__all__ = ["flow_derivatives"]

# Rows of a block, and fewer where no more are asked for.
_BLOCK, _FEW = 64, 16


class _State(NamedTuple):
    """Rows and what is carried beside them; the last two are None for first derivatives alone."""

    rows: Float[Array, "n d"]
    gain: Float[Array, " n"]
    jacobian: Float[Array, "n d d"]
    gradient: Float[Array, "n d"]
    bend: Float[Array, "n d"] | None
    curvature: Float[Array, " n"] | None


def _slopes(field: ScoreField, metric: Float[Any, "n d d"] | None) -> Any:
    """What a state changes by."""

    def slope(instant: Any, state: _State) -> _State:
        jacobian, spread = state.jacobian, None
        if metric is not None:
            spread = jacobian @ metric @ jacobian.swapaxes(1, 2)
        found = speed_derivatives(field.basis, instant, state.rows, spread)
        bend = curvature = None
        if state.bend is not None:
            bend = (found.jacobian * state.bend[:, None, :]).sum(axis=2) + found.bend
            curvature = (found.gain_gradient * state.bend).sum(axis=1) + found.gain_curvature
        return _State(
            found.speed,
            found.gain,
            found.jacobian @ jacobian,
            (jacobian * found.gain_gradient[:, :, None]).sum(axis=1),
            bend,
            curvature,
        )

    return slope


@compiled
def _derivatives(field: ScoreField, rows: Any, metric: Any, times: Any, n_steps: Any) -> Any:
    """The gain, its gradient and, with a metric, its curvature, side by side; and the error."""
    rows, times, nodes = jnp.asarray(rows), jnp.asarray(times), method_nodes()
    slope, second = _slopes(field, metric), metric is not None
    n_rows, n_columns = rows.shape
    start = _State(
        rows,
        jnp.zeros(n_rows),
        jnp.broadcast_to(jnp.eye(n_columns), (n_rows, n_columns, n_columns)),
        jnp.zeros_like(rows),
        jnp.zeros_like(rows) if second else None,
        jnp.zeros(n_rows) if second else None,
    )

    def step(number: Any, carry: Any) -> Any:
        state, slopes, errors = carry
        length = times[number + 1] - times[number]
        instants = jax.lax.map(field.at, times[number] + nodes[1:] * length)
        moved, last, error = one_step(slope, state, slopes, length, instants)
        return moved, last, errors + jnp.abs(error.gain)

    carry = start, slope(field.at(times[0]), start), jnp.zeros(n_rows)
    state, _, errors = jax.lax.fori_loop(0, n_steps, step, carry)
    found = [state.gain[:, None], state.gradient]
    if state.curvature is not None:
        found.append(state.curvature[:, None])
    return jnp.concatenate(found, axis=1), errors


def flow_derivatives(
    field: ScoreField,
    rows: Float[np.ndarray, "n d"],
    steps: Int[np.ndarray, " k"],
    metric: Float[np.ndarray, "n d d"] | None = None,
) -> tuple[Float[np.ndarray, "n c"], Float[np.ndarray, " n"]]:
    """g = log p − log q at rows, ∇g and, with a metric M, tr M∇²g, side by side; g's errors."""
    times, n_steps = flow_times(field.knots, steps), int(steps.sum())
    size = _BLOCK if len(rows) > _FEW else _FEW
    found = []
    for start in range(0, len(rows), size):
        some = slice(start, start + size)
        own = None if metric is None else padded(metric[some], size)
        values, errors = _derivatives(field, padded(rows[some], size), own, times, n_steps)
        count = len(rows[some])
        found.append((values[:count], errors[:count]))
    values, errors = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return values, errors
