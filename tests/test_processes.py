"""Fits in threads and in other processes are the fit of one."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kexpfam import (
    ConditionalKernelExponentialFamily,
    KernelChain,
    KernelDiffusion,
    KernelExponentialFamily,
)
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


def test_any_thread_may_limit_blas():
    """Not only the first that did, as it is with threadpoolctl from version 3.8 on."""
    before = blas_threads()
    with one_blas_thread():
        pass
    begun, limit = one_blas_thread(), []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            pool.submit(begun.__enter__).result()
            limit += [set(blas_threads()), set(pool.submit(blas_threads).result())]
            # The last to be done may be another one than the first to begin.
            begun.__exit__(None, None, None)
            assert blas_threads() == before
            begun = one_blas_thread()
    assert limit == [{1}] * 4


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


def _interpreted(name: str) -> np.ndarray:
    """Log densities of an estimator whose fit compiles nothing."""
    kind, given = KernelChain, (ROWS[:120],)
    if name == "conditional":
        kind, given = ConditionalKernelExponentialFamily, (ROWS[:120, :1], ROWS[:120, 1])
    with one_blas_thread():
        return kind(random_state=0).fit(*given).score_samples(*given)


@pytest.mark.parametrize("name", ["chain", "conditional"])
def test_fits_without_compiled_code_are_the_same_in_threads_and_in_every_process(
    name, users_mixtures
):
    """A spawned process does not have the sizes of `conftest.py`."""
    fitted(0)
    here = _interpreted(name)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(_interpreted, [name] * 2))
    # Forked after JAX has worked, too: nothing here waits for its threads.
    for method in ("spawn", "fork") if hasattr(os, "fork") else ("spawn",):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with multiprocessing.get_context(method).Pool(1) as pool:
                found.append(pool.apply_async(_interpreted, (name,)).get(timeout=60))
    for one in found:
        np.testing.assert_array_equal(one, here)


def _diffusion(seed: int) -> None:
    KernelDiffusion(n_components=16, n_levels=2, random_state=seed).fit(ROWS[:60])


def _said(fit: Callable[[int], object]) -> str:
    try:
        fit(0)
    except RuntimeError as error:
        return str(error)
    return "nothing"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Only POSIX systems fork.")
@pytest.mark.parametrize("fit", [fitted, _diffusion])
def test_a_process_that_was_forked_too_late_says_so(fit):
    fitted(0)
    with warnings.catch_warnings():
        # JAX and Python warn of forking as such.
        warnings.simplefilter("ignore")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            said = pool.apply_async(_said, (fit,)).get(timeout=60)
    assert "forked after JAX had begun to work" in said
