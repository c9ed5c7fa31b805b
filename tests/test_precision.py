"""Float64 inside, whatever the user's JAX setting, which stays as it was."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from kexpfam import KernelExponentialFamily, Tuning, precision
from kexpfam.compilations import CLOCK
from kexpfam.precision import compiled, on_host

ROWS = np.random.default_rng(0).standard_normal((120, 2)) ** 3


def fitted():
    return KernelExponentialFamily(n_components=32, tuning=Tuning(n_steps=2), random_state=0).fit(
        ROWS
    )


def use_everything():
    model = fitted()
    outputs = [
        model.score_samples(ROWS),
        model.gradient(ROWS),
        model.laplacian(ROWS),
        model.coefficients_,
        model.frequencies_,
        model.length_scale_,
    ]
    assert all(isinstance(output, np.ndarray) for output in outputs)
    assert {output.dtype for output in outputs} == {np.dtype("float64")}
    return outputs


@pytest.mark.parametrize("enabled", [False, True])
def test_the_users_setting_changes_nothing_and_is_not_changed(enabled):
    reference = use_everything()
    with jax.enable_x64(enabled):
        before = dict(jax.config.values)
        outputs = use_everything()
        assert dict(jax.config.values) == before
        assert jax.numpy.ones(1).dtype == ("float64" if enabled else "float32")
    for output, expected in zip(outputs, reference, strict=True):
        np.testing.assert_array_equal(output, expected)


def test_importing_leaves_jax_alone():
    code = (
        "import jax; before = dict(jax.config.values); import kexpfam;"
        "assert dict(jax.config.values) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_get_float64_too():
    expected = fitted().score_samples(ROWS)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: fitted().score_samples(ROWS), range(2)):
            np.testing.assert_array_equal(found, expected)


def test_float32_rows_are_lifted():
    single = ROWS.astype(np.float32)
    model = fitted()
    assert model.score_samples(single).dtype == np.float64


@pytest.mark.parametrize("length", [1, 16, 37])
def test_arrays_that_leave_a_device_in_pieces_are_whole(length, generator):
    numbers = generator.standard_normal((length, 3))
    array = compiled(lambda one: one + 1.0, on_device=True)(numbers)
    np.testing.assert_array_equal(on_host(array, large=1), numbers + 1.0)
    np.testing.assert_array_equal(on_host(array), numbers + 1.0)


def test_few_programs_of_a_function_are_kept(monkeypatch):
    monkeypatch.setattr(precision, "_KEPT", 2)
    doubled = precision.compiled(lambda x: 2 * x)
    before = CLOCK.programs
    for size, programs in ((3, 1), (4, 2), (3, 2), (5, 3), (3, 3), (4, 4)):
        np.testing.assert_array_equal(doubled(np.arange(size)), 2 * np.arange(size))
        assert CLOCK.programs - before == programs
