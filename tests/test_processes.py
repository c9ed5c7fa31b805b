"""Fits in threads and in other processes are the fit of one."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kexpfam import KernelChain, KernelExponentialFamily
from kexpfam.datasets import make_density
from kexpfam.threads import in_threads, one_ahead, one_blas_thread

ROWS = make_density("ring").sample(400, random_state=0)


def fitted(seed: int) -> np.ndarray:
    model = KernelExponentialFamily(n_components=32, base="gaussian", random_state=seed)
    return model.set_params(tuning="folds").fit(ROWS).coefficients_


def blas_threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_fits_in_threads_are_those_of_one_after_the_other():
    before, alone = blas_threads(), [fitted(seed) for seed in (0, 1)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fitted, (0, 1, 0, 1)))
    for one, other in zip(found, alone * 2, strict=True):
        np.testing.assert_array_equal(one, other)
    assert blas_threads() == before


def test_blas_has_its_threads_again_when_the_last_is_done():
    before = blas_threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_results_of_threads_come_in_order_and_threads_within_threads_do_not_wait():
    def table(number: int) -> list[int]:
        return list(in_threads(lambda other: number * other, range(3)))

    with threadpool_limits(2):
        assert list(in_threads(table, range(4))) == [[0, n, 2 * n] for n in range(4)]
        here = in_threads(lambda _: threading.get_ident(), range(4), worth=False)
        assert set(here) == {threading.get_ident()}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_what_is_made_one_ahead_comes_in_order(threads, count):
    asked = []

    def items():
        for number in range(count):
            asked.append(number)
            yield number

    with threadpool_limits(threads):
        found = []
        for square in one_ahead(lambda number: number**2, items()):
            found.append(square)
            # No more waits in memory than the next one, and the one that is being asked for.
            assert len(asked) <= len(found) + 2
    assert found == [number**2 for number in range(count)]


def test_an_error_ahead_is_raised():
    with threadpool_limits(2), pytest.raises(ZeroDivisionError):
        list(one_ahead(lambda number: 1 / number, [2, 1, 0]))


def test_the_number_of_threads_changes_no_digit_of_a_chain():
    found = []
    for count in (1, 2):
        with threadpool_limits(count):
            model = KernelChain(random_state=0).fit(ROWS[:120])
        with one_blas_thread():
            found.append(model.score_samples(ROWS))
    np.testing.assert_array_equal(*found)


def test_a_fit_in_another_process_is_the_same():
    # One BLAS thread there as well: sums of several differ in their last digits.
    with one_blas_thread():
        here = fitted(0)
    (there,) = joblib.Parallel(n_jobs=2, backend="loky")([joblib.delayed(_alone)(0)])
    np.testing.assert_array_equal(here, there)


def _alone(seed: int) -> np.ndarray:
    with one_blas_thread():
        return fitted(seed)


def _said(seed: int) -> str:
    try:
        fitted(seed)
    except RuntimeError as error:
        return str(error)
    return "nothing"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Only POSIX systems fork.")
def test_a_process_that_was_forked_too_late_says_so():
    fitted(0)
    with warnings.catch_warnings():
        # JAX and Python warn of forking as such.
        warnings.simplefilter("ignore")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            said = pool.apply_async(_said, (0,)).get(timeout=60)
    assert "forked after JAX had begun to work" in said
