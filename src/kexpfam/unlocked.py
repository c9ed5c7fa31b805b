"""Linear algebra that lets other threads continue.

NumPy gives up Python's lock while BLAS and LAPACK work; SciPy's wrappers hold it, and threads that
factor one matrix each would wait for each other. Here SciPy's routines are called by their
addresses (those that it offers to Cython), which gives the lock up. All matrices are written over;
of symmetric ones the lower half is read and written, unless it says otherwise. Inverses may be in
single precision, the others are in double precision.

LAPACK inverts a triangle column by column. By halves it is products of matrices,

    (A 0; C B)⁻¹ = (A⁻¹ 0; −B⁻¹CA⁻¹ B⁻¹),

which take half of the time. Stacks of small triangles are inverted one by one without giving up the
lock, which would take longer than the inverse; NumPy's inverse of a stack takes four times as long.

| symbol | name   | shape                                  |
|--------|--------|----------------------------------------|
| A      | matrix | (n, n), column by column in memory     |
| L      | factor | the same: A = LLᵀ in its lower half    |
| B      | right  | (n, k), column by column in memory     |
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cython_blas, cython_lapack

__all__ = [
    "add_products",
    "factored",
    "factored_with_pivots",
    "invert_factored",
    "invert_lower",
    "inverted_triangles",
    "solve_lower",
]


def _routine(
    module: Any, name: str, n_arguments: int, *, keeps_lock: bool = False
) -> Callable[..., None]:
    """A routine of Fortran's, all arguments of which are addresses."""
    capsule = module.__pyx_capi__[name]
    interface = ctypes.pythonapi
    interface.PyCapsule_GetName.restype = ctypes.c_char_p
    interface.PyCapsule_GetName.argtypes = [ctypes.py_object]
    interface.PyCapsule_GetPointer.restype = ctypes.c_void_p
    interface.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = interface.PyCapsule_GetPointer(capsule, interface.PyCapsule_GetName(capsule))
    kind = ctypes.PYFUNCTYPE if keeps_lock else ctypes.CFUNCTYPE
    return kind(None, *[ctypes.c_void_p] * n_arguments)(address)


_DSYRK = _routine(cython_blas, "dsyrk", 10)
_DTRSM = _routine(cython_blas, "dtrsm", 11)
_DPOTRF = _routine(cython_lapack, "dpotrf", 5)
_DPSTRF = _routine(cython_lapack, "dpstrf", 9)
_DTRTRI = _routine(cython_lapack, "dtrtri", 6)
_SMALL_DTRTRI = _routine(cython_lapack, "dtrtri", 6, keeps_lock=True)
# Triangles of so many rows are left to LAPACK.
_SMALL_TRIANGLE = 48
# In a stack, triangles of so many rows are inverted without giving up the lock.
_TINY_TRIANGLE = 64


class _Inverting(NamedTuple):
    """What an inverse takes, in one precision."""

    number: Any
    invert_triangle: Callable[..., None]
    multiply_by_triangle: Callable[..., None]
    square_triangle: Callable[..., None]

    @classmethod
    def of(cls, letter: str, number: Any) -> _Inverting:
        """By the letter that the routines' names begin with."""
        return cls(
            number,
            _routine(cython_lapack, f"{letter}trtri", 6),
            _routine(cython_blas, f"{letter}trmm", 11),
            _routine(cython_lapack, f"{letter}lauum", 5),
        )


_INVERTING = {
    np.dtype(np.float64): _Inverting.of("d", ctypes.c_double),
    np.dtype(np.float32): _Inverting.of("s", ctypes.c_float),
}


def _whole(number: int) -> Any:
    return ctypes.byref(ctypes.c_int(number))


def _real(number: float) -> Any:
    return ctypes.byref(ctypes.c_double(number))


def _of(matrix: Float[np.ndarray, "n k"]) -> int:
    """The address of a matrix that lies column by column in memory."""
    assert matrix.dtype == np.float64
    return _start(matrix)


def _start(matrix: Float[np.ndarray, "n k"]) -> int:
    """The same in any precision."""
    assert matrix.flags.f_contiguous
    return matrix.ctypes.data


def add_products(total: Float[np.ndarray, "n n"], rows: Float[np.ndarray, "n k"]) -> None:
    """RRᵀ + A in the upper half of the matrix A."""
    size, count = rows.shape
    by_columns = rows.flags.f_contiguous
    _DSYRK(
        b"U",
        b"N" if by_columns else b"T",
        _whole(size),
        _whole(count),
        _real(1.0),
        _of(rows if by_columns else rows.T),
        _whole(size if by_columns else count),
        _real(1.0),
        _of(total),
        _whole(size),
    )


def factored(matrix: Float[np.ndarray, "n n"]) -> bool:
    """L in the place of A; False where A is not positive."""
    info = ctypes.c_int(0)
    size = _whole(len(matrix))
    _DPOTRF(b"L", size, _of(matrix), size, ctypes.byref(info))
    return info.value == 0


def factored_with_pivots(matrix: Float[np.ndarray, "n n"], least: float) -> Int[np.ndarray, " r"]:
    """L in the place of A, of the rows and columns in the order that is returned.

    Each pivot is the largest that is left; those of at most `least` are left out with all after
    them.
    """
    n_rows = len(matrix)
    info, rank, size = ctypes.c_int(0), ctypes.c_int(0), _whole(n_rows)
    pivots, work = np.zeros(n_rows, np.intc), np.empty(2 * n_rows)
    _DPSTRF(
        b"L",
        size,
        _of(matrix),
        size,
        pivots.ctypes.data,
        ctypes.byref(rank),
        _real(least),
        work.ctypes.data,
        ctypes.byref(info),
    )
    return pivots[: rank.value].astype(int) - 1


def invert_factored(factor: Float[np.ndarray, "n n"]) -> None:
    """A⁻¹ in the place of L."""
    invert_lower(factor)
    size = _whole(len(factor))
    _INVERTING[factor.dtype].square_triangle(b"L", size, _start(factor), size, _whole(0))


def invert_lower(factor: Float[np.ndarray, "n n"]) -> None:
    """L⁻¹ in the place of L."""
    routines, start, size = _INVERTING[factor.dtype], _start(factor), len(factor)
    length, step = _whole(size), factor.itemsize
    one, minus_one = (ctypes.byref(routines.number(number)) for number in (1.0, -1.0))

    def invert(first: int, count: int) -> None:
        corner = start + step * first * (size + 1)
        if count <= _SMALL_TRIANGLE:
            routines.invert_triangle(b"L", b"N", _whole(count), corner, length, _whole(0))
            return
        upper = count // 2
        lower = count - upper
        invert(first, upper)
        invert(first + upper, lower)
        beside = corner + step * upper, length
        shape = b"L", b"N", b"N", _whole(lower), _whole(upper)
        other = corner + step * upper * (size + 1)
        routines.multiply_by_triangle(b"R", *shape, one, corner, length, *beside)
        routines.multiply_by_triangle(b"L", *shape, minus_one, other, length, *beside)

    invert(0, size)


def inverted_triangles(factors: Float[np.ndarray, "k n n"]) -> Float[np.ndarray, "k n n"]:
    """L⁻¹ of each lower triangle of a stack; above the diagonals are zeros, as in NumPy's factors.

    Raises LinAlgError where a diagonal has a zero.
    """
    # Line by line in memory: for LAPACK, which reads columns, these are upper triangles.
    found = np.array(factors, float, order="C")
    if not found.size:
        return found
    size = found.shape[1]
    routine = _SMALL_DTRTRI if size <= _TINY_TRIANGLE else _DTRTRI
    info, length, step = ctypes.c_int(0), _whole(size), found.itemsize * size**2
    for start in range(found.ctypes.data, found.ctypes.data + found.nbytes, step):
        routine(b"U", b"N", length, start, length, ctypes.byref(info))
        if info.value:
            raise np.linalg.LinAlgError("A triangle with a zero on its diagonal has no inverse.")
    return found


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
