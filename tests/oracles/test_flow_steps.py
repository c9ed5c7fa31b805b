"""Steps of the flow against an equation whose solution is known: y′ = −y cos t, g′ = y.

y = y₀ exp(−sin t); g is an integral over it, and linear in y₀.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad

from kexpfam.model.flow import _carried
from kexpfam.precision import compiled

END = 4.0
START = np.array([[1.0], [-2.0], [1.5]])


def speed(time, state):
    rows, _ = state
    return -rows * jnp.cos(time), rows[:, 0]


@compiled
def ends(start, times, n_steps):
    """y at the end, the steps' gains and their error estimates, and the first's slopes by y₀."""

    def end(start):
        return _carried(lambda time: time, speed, start, times, n_steps)

    found, slopes = jax.jvp(end, (start,), (jnp.ones_like(start),))
    return *found, slopes[0]


def test_they_are_of_fifth_order_and_their_errors_are_known():
    exact, wrong, claimed = np.exp(-np.sin(END)), [], []
    gain, _ = quad(lambda t: np.exp(-np.sin(t)), 0, END, epsabs=1e-13)
    for n_steps in (8, 16):
        times = np.concatenate([np.linspace(0, END, n_steps + 1), np.full(32 - n_steps, END)])
        found, gains, errors, slopes = ends(START, times, n_steps)
        np.testing.assert_allclose(slopes, found / START, rtol=1e-12)
        assert not gains[n_steps:].any()
        wrong.append(
            [
                np.abs(found - START * exact).max(),
                np.abs(gains.sum(axis=0) - START[:, 0] * gain).max(),
            ]
        )
        claimed.append(errors.sum(axis=0).max())
    # Two to the fifth, up to terms of higher order.
    ratios = np.array(wrong[0]) / wrong[1]
    assert ((ratios > 16) & (ratios < 128)).all()
    # The estimate is that of a method of fourth order, and larger.
    assert wrong[1][1] < claimed[1] < 1e-3
    assert 8 < claimed[0] / claimed[1] < 64


def test_backwards_and_down():
    times = np.linspace(0, END, 33)

    def end(start, times):
        return _carried(lambda time: time, speed, start, times, 32)[0]

    with jax.enable_x64(True):
        there, pulled = jax.jit(lambda y: jax.vjp(lambda y: end(y, times), y))(jnp.asarray(START))
        (slope,) = pulled(jnp.ones_like(there))
        back = jax.jit(lambda y: end(y, times[::-1]))(there)
    np.testing.assert_allclose(slope, np.exp(-np.sin(END)), rtol=1e-6)
    np.testing.assert_allclose(back, START, rtol=1e-6)
