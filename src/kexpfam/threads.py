"""Fits in threads and in forked processes.

BLAS has one number of threads for the whole process, and sums of several threads differ from those
of one in their last digits. So fits of one process take turns, each with all cores; where a fit
gives each of its own threads a piece of work, BLAS is limited to one thread for as long as any of
them needs it, and has its old number again afterwards.

JAX keeps threads of its own, which a forked process does not inherit: compiled code would wait for
them for ever. A process that was forked after JAX had begun to work says so instead.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

__all__ = ["in_threads", "in_turn", "note_compiled_work", "one_ahead", "one_blas_thread"]

F = TypeVar("F", bound=Callable[..., Any])
Item = TypeVar("Item")
Result = TypeVar("Result")

_TURN = threading.RLock()


def in_turn(function: F) -> F:
    """One call at a time in this process; calls within a call are part of it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _TURN:
            return function(*args, **kwargs)

    return cast(F, call)


class _BlasLimit:
    """How many need BLAS to have one thread, and what it had before."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.limits: Any = None
        self.threads = 1
        self._found: tuple[int, Any] = (0, None)

    def libraries(self) -> Any:
        """All libraries with threads.

        Looking for them takes longer than many a solve: they are looked for again only when
        modules have been imported, which may bring others.
        """
        if self._found[0] != len(sys.modules):
            self._found = len(sys.modules), ThreadpoolController()
        return self._found[1]

    def set_to_one(self) -> None:
        self.threads = self.most_threads()
        self._be_heard()
        self.limits = self.libraries().limit(limits=1)

    def restore(self) -> None:
        self._be_heard()
        self.limits.restore_original_limits()
        # Whoever comes next may set limits.
        self._be_heard()

    def _be_heard(self) -> None:
        """From version 3.8 on, threadpoolctl obeys the first thread that sets a limit, and does
        nothing, silently, for others. Here threads agree on one limit for all of them.
        """
        for kind in {type(one) for one in self.libraries().lib_controllers}:
            if hasattr(kind, "clear_controlling_thread"):
                kind.clear_controlling_thread(force=True)

    def most_threads(self) -> int:
        """How many threads BLAS has now."""
        libraries = self.libraries().lib_controllers
        return max((one.num_threads for one in libraries if one.user_api == "blas"), default=1)


_LIMIT = _BlasLimit()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS and OpenMP with one thread, until the last of those who want it is done."""
    with _LIMIT.lock:
        if _LIMIT.users == 0:
            _LIMIT.set_to_one()
        _LIMIT.users += 1
    try:
        yield
    finally:
        with _LIMIT.lock:
            _LIMIT.users -= 1
            if _LIMIT.users == 0:
                _LIMIT.restore()


class _Worker(threading.local):
    """Whether this thread is one of several that share the cores already."""

    is_busy = False


_WORKER = _Worker()


def _be_busy() -> None:
    _WORKER.is_busy = True


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], *, worth: bool = True
) -> Iterator[Result]:
    """Results for all items, in their order, by as many threads as BLAS would have.

    By one, where they are not worth more: operations on small arrays take less time than threads
    wait for Python's lock between them.

    BLAS has one thread meanwhile, however many there are here, so that every result is the same to
    the last digit on any number of cores. Within one of these threads there are no others. Items
    are asked for a little ahead of their results, so that there may be more than memory holds.
    """
    items = iter(items)
    first = list(islice(items, 2))
    with one_blas_thread():
        alone = not worth or _WORKER.is_busy or len(first) < 2
        count = 1 if alone else _LIMIT.threads
        if count < 2:
            yield from map(function, chain(first, items))
            return
        with ThreadPoolExecutor(count, initializer=_be_busy) as pool:
            # Each in a copy of the context, which says what NumPy does about overflow.
            futures = (
                pool.submit(contextvars.copy_context().run, function, item)
                for item in chain(first, items)
            )
            waiting = deque(islice(futures, 2 * count))
            try:
                while waiting:
                    found = waiting.popleft().result()
                    waiting.extend(islice(futures, 1))
                    yield found
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def one_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results for all items, in their order; the next is made while the last is made use of.

    Not ahead where BLAS has one thread, nor within one of the threads of `in_threads`.
    """
    items = iter(items)
    first = list(islice(items, 2))
    with _LIMIT.lock:
        count = _LIMIT.threads if _LIMIT.users else _LIMIT.most_threads()
    if _WORKER.is_busy or len(first) < 2 or count < 2:
        yield from map(function, chain(first, items))
        return
    with ThreadPoolExecutor(1) as pool:
        futures = (
            pool.submit(contextvars.copy_context().run, function, item)
            for item in chain(first, items)
        )
        waiting = next(futures)
        for following in futures:
            found, waiting = waiting.result(), following
            yield found
        yield waiting.result()


class _Fork:
    """Whether compiled code has run here, and whether it ran before this process was forked."""

    has_worked = False
    is_late = False


def note_compiled_work() -> None:
    """Raise where compiled code cannot run any more; else remember that it did."""
    if _Fork.is_late:
        raise RuntimeError(
            "This process was forked after JAX had begun to work, and compiled code would never "
            "return here. Start processes with multiprocessing's 'spawn' or 'forkserver' method, "
            "or with joblib's default, loky; or fork before the first fit."
        )
    _Fork.has_worked = True


def _forked() -> None:
    _Fork.is_late = _Fork.has_worked
    # Whoever held these did so in the other process.
    global _TURN
    _TURN = threading.RLock()
    _LIMIT.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
