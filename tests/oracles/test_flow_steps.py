"""Steps of the flow against an equation whose solution is known: y′ = −y cos t.

y = y₀ exp(−sin t).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from kexpfam.model.flow import _carried
from kexpfam.precision import compiled

END = 4.0


@compiled
def ends_and_slopes(start, times, n_steps):
    """y at the end, the steps' error estimates, and the derivative of the first by y₀."""

    def end(start):
        return _carried(lambda time, y: -y * jnp.cos(time), start, times, n_steps)

    (found, errors), (slopes, _) = jax.jvp(end, (start,), (jnp.ones_like(start),))
    return found, errors, slopes


def test_they_are_of_eighth_order_and_their_errors_are_known():
    start = np.array([[1.0], [-2.0]])
    exact, wrong, claimed = np.exp(-np.sin(END)), [], []
    for n_steps in (4, 8):
        times = np.concatenate([np.linspace(0, END, n_steps + 1), np.full(16 - n_steps, END)])
        found, errors, slopes = ends_and_slopes(start, times, n_steps)
        np.testing.assert_allclose(slopes, found / start, rtol=1e-12)
        wrong.append(np.abs(found - start * exact).max())
        claimed.append(errors.sum(axis=0).max())
    # Two to the eighth, up to terms of higher order.
    assert 128 < wrong[0] / wrong[1] < 1024
    # The estimate is that of a method of lower order, and larger.
    assert wrong[1] < claimed[1] < 1e-3
    assert 16 < claimed[0] / claimed[1] < 512


def test_backwards_and_down():
    start, times = np.array([[1.5]]), np.linspace(0, END, 9)

    def end(start, down):
        speed = lambda time, y: -y * jnp.cos(time)  # noqa: E731
        return _carried(speed, start, times, 8, down=down)[0].sum()

    with jax.enable_x64(True):
        there, slope = jax.jit(jax.value_and_grad(lambda y: end(y, False)))(jnp.asarray(start))
        back = jax.jit(lambda y: end(y, True))(jnp.full((1, 1), there))
    np.testing.assert_allclose(slope, np.exp(-np.sin(END)), rtol=1e-7)
    np.testing.assert_allclose(back, 1.5, rtol=1e-7)
