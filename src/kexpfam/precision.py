"""The one place where the library enters float64.

JAX computes in float32 unless told otherwise, and the switch is the user's. Every
jitted function of the library goes through `compiled`, which switches float64 on for
the length of the call and for the calling thread only, takes NumPy arrays in and
hands NumPy arrays out: a float64 JAX array that leaves the switch behind would
silently turn into float32 at its next use.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from kexpfam.compilations import compiling
from kexpfam.threads import note_compiled_work

__all__ = ["compiled", "is_accelerated", "on_host"]

# Arrays from this many bytes on leave an accelerator in so many pieces, as many threads at a time.
_LARGE, _PIECES, _FETCHING = 1 << 25, 16, 8
# Programs of one function, for as many shapes, each of some megabytes; the one that has not been
# called for longest gives way, and comes back from disk. Who fits all day meets hundreds of shapes.
_KEPT = 16
_UNTUNED = {"xla_gpu_autotune_level": "0"}


def is_accelerated() -> bool:
    """Whether compiled code runs on a device that is faster than this processor."""
    return jax.default_backend() != "cpu"


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    static: tuple[str, ...] = (),
    donated: tuple[str, ...] = (),
    on_device: bool = False,
    tuned: bool = True,
) -> Any:
    """Compile `function` and run it in float64: NumPy in, NumPy out.

    Parameters
    ----------
    function : callable
        A pure function of arrays, or of records of arrays (pytrees).
    static : tuple of str
        Names of the arguments that select the computation rather than enter it.
    donated : tuple of str
        Names of the arguments whose memory the result may take over.
    on_device : bool
        Hand out JAX arrays, where they were computed: for results that go straight back into
        compiled functions, and nowhere else.
    tuned : bool
        Whether the compiler of a GPU may try several ways to multiply matrices. It takes ten to
        twenty seconds for a program: too long where many shapes are met for a short time each.
    """
    if function is None:
        return functools.partial(
            compiled, static=static, donated=donated, on_device=on_device, tuned=tuned
        )

    def program() -> Any:
        """Made when it is first called: which device there is must not be asked before."""
        options = None if tuned or jax.default_backend() != "gpu" else _UNTUNED
        # A function of its own for each shape, so that its program can be dropped alone.
        return jax.jit(
            functools.partial(function),
            static_argnames=static,
            donate_argnames=donated,
            compiler_options=options,
        )

    names = list(inspect.signature(function).parameters) if static else []
    places = tuple(names.index(name) for name in static)
    programs: OrderedDict[Any, Any] = OrderedDict()
    lock = threading.Lock()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        note_compiled_work()
        shapes = _shapes(args, kwargs, places)
        with jax.enable_x64(True):
            with lock:
                run = programs.get(shapes)
                if run is not None:
                    programs.move_to_end(shapes)
            if run is not None:
                result = run(*args, **kwargs)
            else:
                run = program()
                with compiling():
                    result = run(*args, **kwargs)
                with lock:
                    programs[shapes] = run
                    dropped = programs.popitem(last=False)[1] if len(programs) > _KEPT else None
                if dropped is not None:
                    dropped.clear_cache()
            return result if on_device else jax.tree.map(np.asarray, result)

    return call


def _shapes(args: tuple[Any, ...], kwargs: dict[str, Any], places: tuple[int, ...]) -> Any:
    """What a program is compiled for: structure, shapes and types, and arguments at some places."""
    leaves, structure = jax.tree.flatten((args, kwargs))
    kinds = [(leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else _kind(leaf) for leaf in leaves]
    return structure, tuple(kinds), tuple(args[place] for place in places if place < len(args))


def _kind(leaf: Any) -> Any:
    """The type of a number; the value of anything else."""
    return type(leaf) if isinstance(leaf, (int, float, complex)) else leaf


def on_host(array: Any, large: float | None = None) -> np.ndarray:
    """An array of compiled code as a NumPy array.

    On the way from an accelerator, a `large` one takes most of its time for fresh memory, which
    threads get in parallel.
    """
    if large is None:
        large = _LARGE if is_accelerated() else math.inf
    if not isinstance(array, jax.Array) or array.nbytes < large or array.ndim == 0:
        return np.asarray(array)
    found = np.empty(array.shape, array.dtype)
    size = -(-len(array) // _PIECES)
    # The last piece begins early enough to be a whole one.
    starts = [min(start, len(array) - size) for start in range(0, len(array), size)]
    pieces = [_piece(array, start, size) for start in starts]

    def fetch(start: int, piece: Any) -> None:
        found[start : start + size] = np.asarray(piece)

    with ThreadPoolExecutor(_FETCHING) as pool:
        list(pool.map(fetch, starts, pieces))
    return found


@functools.partial(compiled, static=("size",), on_device=True)
def _piece(array: Any, start: Any, size: int) -> Any:
    return jax.lax.dynamic_slice_in_dim(array, start, size)
