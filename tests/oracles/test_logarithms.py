"""Sums of exponentials against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from kexpfam.logarithms import log_sum_exp, shares_of


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_against_scipy(axis, keepdims, generator):
    logs = 300 * generator.standard_normal((4, 5, 6))
    logs[0, 0] = -np.inf
    logs[1, :, 2] = -np.inf
    logs[:, 3, 3] = -np.inf
    logs[2] -= 1e6
    given = logs.copy()
    found = log_sum_exp(logs, axis, keepdims)
    np.testing.assert_allclose(found, logsumexp(logs, axis=axis, keepdims=keepdims), rtol=1e-14)
    np.testing.assert_array_equal(logs, given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shares_are_exponentials_and_never_subnormal(dtype):
    logs = np.linspace(-200, 0, 401, dtype=dtype)
    found = shares_of(logs.copy())
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.exp(logs.astype(float)), rtol=1e-5, atol=1e-26)
    assert found.min() > np.finfo(np.float32).tiny / 1e-9
