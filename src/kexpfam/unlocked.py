"""Linear algebra that lets other threads continue.

NumPy gives up Python's lock while BLAS and LAPACK work; SciPy's wrappers hold it, and threads that
factor one matrix each would wait for each other. Here SciPy's routines are called by their
addresses (those that it offers to Cython), which gives the lock up. All matrices are in double
precision and written over; of symmetric ones the lower half is read and written, unless it says
otherwise.

| symbol | name   | shape                                  |
|--------|--------|----------------------------------------|
| A      | matrix | (n, n), column by column in memory     |
| L      | factor | the same: A = LLᵀ in its lower half    |
| B      | right  | (n, k), column by column in memory     |
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cython_blas, cython_lapack

__all__ = ["add_products", "factored", "invert_factored", "invert_lower", "solve_lower"]


def _routine(module: Any, name: str, n_arguments: int) -> Callable[..., None]:
    """A routine of Fortran's, all arguments of which are addresses."""
    capsule = module.__pyx_capi__[name]
    interface = ctypes.pythonapi
    interface.PyCapsule_GetName.restype = ctypes.c_char_p
    interface.PyCapsule_GetName.argtypes = [ctypes.py_object]
    interface.PyCapsule_GetPointer.restype = ctypes.c_void_p
    interface.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = interface.PyCapsule_GetPointer(capsule, interface.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


_DSYRK = _routine(cython_blas, "dsyrk", 10)
_DTRSM = _routine(cython_blas, "dtrsm", 11)
_DPOTRF = _routine(cython_lapack, "dpotrf", 5)
_DPOTRI = _routine(cython_lapack, "dpotri", 5)
_DTRTRI = _routine(cython_lapack, "dtrtri", 6)


def _whole(number: int) -> Any:
    return ctypes.byref(ctypes.c_int(number))


def _real(number: float) -> Any:
    return ctypes.byref(ctypes.c_double(number))


def _of(matrix: Float[np.ndarray, "n k"]) -> int:
    """The address of a matrix that lies column by column in memory."""
    assert matrix.flags.f_contiguous
    assert matrix.dtype == np.float64
    return matrix.ctypes.data


def add_products(
    total: Float[np.ndarray, "n n"],
    rows: Float[np.ndarray, "n k"],
    times: float = 1.0,
    *,
    upper: bool = False,
) -> None:
    """RRᵀ + times A in one half of the matrix A."""
    size, count = rows.shape
    by_columns = rows.flags.f_contiguous
    _DSYRK(
        b"U" if upper else b"L",
        b"N" if by_columns else b"T",
        _whole(size),
        _whole(count),
        _real(1.0),
        _of(rows if by_columns else rows.T),
        _whole(size if by_columns else count),
        _real(times),
        _of(total),
        _whole(size),
    )


def factored(matrix: Float[np.ndarray, "n n"]) -> bool:
    """L in the place of A; False where A is not positive."""
    info = ctypes.c_int(0)
    size = _whole(len(matrix))
    _DPOTRF(b"L", size, _of(matrix), size, ctypes.byref(info))
    return info.value == 0


def invert_factored(factor: Float[np.ndarray, "n n"]) -> None:
    """A⁻¹ in the place of L."""
    size = _whole(len(factor))
    _DPOTRI(b"L", size, _of(factor), size, _whole(0))


def invert_lower(factor: Float[np.ndarray, "n n"]) -> None:
    """L⁻¹ in the place of L."""
    size = _whole(len(factor))
    _DTRTRI(b"L", b"N", size, _of(factor), size, _whole(0))


def solve_lower(
    factor: Float[np.ndarray, "n n"], right: Float[np.ndarray, "n k"], *, turned: bool = False
) -> None:
    """L⁻¹B in the place of B, or L⁻ᵀB."""
    size, count = right.shape
    _DTRSM(
        b"L",
        b"L",
        b"T" if turned else b"N",
        b"N",
        _whole(size),
        _whole(count),
        _real(1.0),
        _of(factor),
        _whole(size),
        _of(right),
        _whole(size),
    )
