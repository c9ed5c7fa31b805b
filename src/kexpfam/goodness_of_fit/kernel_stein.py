"""The kernel Stein discrepancy test, quadratic in the number of rows.

With s = ∇log p, the Stein kernel of a radial kernel k = φ(u), u = |x − y|² / width², is

    h(x, y) = s(x)·s(y) k + s(x)·∇_y k + s(y)·∇_x k + tr ∇_x∇_y k
            = s(x)·s(y) φ + 2 φ′ (s(y) − s(x))·(x − y) − 2 d φ′ − 4 u φ″      (lengths in widths)

and E h(x, y) = 0 for independent rows of the model. The statistic and its draws under the model
are, with independent random signs ε_i (the wild bootstrap),

    n KSD² = 1/(n − 1) Σ_{i≠j} h(x_i, x_j),        draw = 1/(n − 1) Σ_{i≠j} ε_i ε_j h(x_i, x_j).

This is the U-statistic. Because ε_i² = 1, the V-statistic adds the same diagonal Σ_i h(x_i, x_i)
to the statistic and to every draw, and its p-value is the same to the last digit: nothing is lost
by the choice, and the U-statistic has mean zero under the model.

| symbol | name      | shape        |
|--------|-----------|--------------|
| x      | rows      | (n, d)       |
| s(x)   | gradients | (n, d)       |
| h      | kernel_matrix | (b, b), one pair of blocks at a time |
| ε      | signs     | (n, 1 + draws), the first column all ones: the statistic itself |

Qiang Liu, Jason Lee and Michael Jordan, "A kernelized Stein discrepancy for goodness-of-fit
tests", and Kacper Chwialkowski, Heiko Strathmann and Arthur Gretton, "A kernel test of goodness
of fit", both ICML 2016.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int8

from kexpfam.choices import renamed, seeded, whole
from kexpfam.data.blocks import block_size_for, padded
from kexpfam.goodness_of_fit.kernels import RadialKernel, checked_kernel
from kexpfam.goodness_of_fit.observed import Observed, observe
from kexpfam.goodness_of_fit.p_value import checked_statistic, tail_share
from kexpfam.goodness_of_fit.width import resolve_width
from kexpfam.precision import compiled

__all__ = ["SteinResult", "stein_kernel", "stein_test"]

_LARGEST_BLOCK = 1024


class SteinResult(NamedTuple):
    """The result of the kernel Stein discrepancy test.

    Attributes
    ----------
    statistic : float
        n·KSD².
    p_value : float
    null_draws : ndarray of shape (n_null_draws,)
        Draws of the statistic's distribution under the model.
    width : float
        Of the kernel.
    """

    statistic: float
    p_value: float
    null_draws: Float[np.ndarray, " draws"]
    width: float

    def __repr__(self) -> str:
        return (
            f"SteinResult(statistic={self.statistic:.6g}, p_value={self.p_value:.6g}, "
            f"width={self.width:.6g}, {len(self.null_draws)} null draws)"
        )


@renamed(n_bootstrap="n_null_draws")
def stein_test(
    model: Any,
    X: Any,
    *,
    width: Any = "median",
    kernel: Any = "rbf",
    n_null_draws: int = 1000,
    random_state: Any = None,
) -> SteinResult:
    """Test whether rows come from a model, by the kernel Stein discrepancy.

    Parameters
    ----------
    model : object with a method ``gradient(X)``, or a function
        Gives ∇log p of the model at rows (n, d), in the same shape.
    X : array or data frame of shape (n_samples, n_features)
        Independent rows that took no part in fitting the model. More rows than columns, and
        at least 10.
    width : "median" or float, default="median"
        Width of the kernel. "median" is the median distance between two rows.
    kernel : {"rbf", "inverse_multiquadric"} or callable, default="rbf"
        A callable maps squared distances over width² to a `Profile`, by JAX operations.
    n_null_draws : int, default=1000
        Draws of the statistic's distribution under the model.
    random_state : int, RandomState, Generator or None, default=None
        Decides the signs of the bootstrap.

    Returns
    -------
    SteinResult
        ``statistic`` n·KSD², ``p_value``, ``null_draws`` and ``width``. The p-value is
        (1 + number of draws ≥ statistic) / (1 + number of draws).

    Notes
    -----
    The cost is n²·(3d + n_null_draws)/2 multiply-adds. The kernel matrix is never held: memory
    is about ten arrays of 1024 × max(1024, n_null_draws) numbers (under 100 MB with the default)
    and one byte for each of n·n_null_draws signs. From some ten thousand rows on, `fssd_test`
    is the better choice.

    The kernel treats all columns alike: bring columns of different units to one scale, rows
    and gradient together. The model must be smooth on all of ℝᵈ, as for `fssd_test`.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam.goodness_of_fit import stein_test
    >>> def standard_normal(rows):
    ...     return -rows
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> stein_test(standard_normal, X, random_state=0).p_value > 0.05
    True
    >>> stein_test(standard_normal, 1.5 * X, random_state=0).p_value < 0.01
    True
    """
    n_null_draws = whole("n_null_draws", n_null_draws)
    profile = checked_kernel(kernel)
    observed, generator = observe(model, X), seeded(random_state)
    scale = resolve_width(width, observed.rows, generator)
    signs = _random_signs(len(observed.rows), n_null_draws, generator)
    # Squared distances come from inner products, which lose digits far from the origin.
    rows = (observed.rows - observed.rows.mean(axis=0)) / scale
    sums = _signed_sums(Observed(rows, observed.gradients * scale), signs, profile)
    statistic = checked_statistic(float(sums[0]), observed)
    p_value = tail_share(statistic, sums[1:])
    # Divided twice, because the square of a width of 1e200 overflows.
    sums = sums / (len(rows) - 1) / scale / scale
    return SteinResult(float(sums[0]), p_value, sums[1:], scale)


def _random_signs(
    n_rows: int, n_draws: int, generator: np.random.Generator
) -> Int8[np.ndarray, "n columns"]:
    """Signs ±1, and ones in the first column."""
    signs = generator.integers(0, 2, (n_rows, 1 + n_draws), dtype=np.int8) * np.int8(2)
    signs -= np.int8(1)
    signs[:, 0] = 1
    return signs


def stein_kernel(
    rows: Any, gradients: Any, others: Any, other_gradients: Any, kernel: RadialKernel
) -> Any:
    """h between all pairs of two sets of rows, lengths in widths, inside compiled code."""
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * rows @ others.T
    squares = jnp.maximum(squares, 0.0)
    value, slope, curvature = kernel(squares)
    own, other = (rows * gradients).sum(axis=1), (others * other_gradients).sum(axis=1)
    facing = rows @ other_gradients.T + gradients @ others.T - own[:, None] - other
    return (
        gradients @ other_gradients.T * value
        + 2 * slope * (facing - rows.shape[1])
        - 4 * squares * curvature
    )


@compiled(static=("kernel",))
def _pair_sums(
    block: Observed, other: Observed, signs: Any, other_signs: Any, same: Any, kernel: RadialKernel
) -> Any:
    """Σ_ij ε_i h_ij ε_j over two blocks, without the diagonal where they are the same."""
    kernel_matrix = stein_kernel(*block, *other, kernel)
    kernel_matrix = jnp.where(same & jnp.eye(len(kernel_matrix), dtype=bool), 0.0, kernel_matrix)
    products = kernel_matrix @ other_signs.astype(float)
    return (signs * products).sum(axis=0)


def _signed_sums(
    observed: Observed, signs: Int8[np.ndarray, "n columns"], kernel: RadialKernel
) -> Float[np.ndarray, " columns"]:
    """Σ_{i≠j} ε_i h_ij ε_j for every column of signs; padding has sign zero."""
    n_rows = len(signs)
    # Pairs of rows are many: less is filled up.
    size = block_size_for(n_rows, _LARGEST_BLOCK, factor=2)

    def cut(start: int) -> tuple[Observed, Int8[np.ndarray, "b columns"]]:
        piece = slice(start, start + size)
        rows, gradients = observed.take(piece)
        return Observed(padded(rows, size), padded(gradients, size)), padded(signs[piece], size)

    sums = np.zeros(signs.shape[1])
    for start in range(0, n_rows, size):
        block, block_signs = cut(start)
        for other_start in range(start, n_rows, size):
            other, other_signs = cut(other_start)
            same = start == other_start
            added = _pair_sums(block, other, block_signs, other_signs, same, kernel=kernel)
            sums += added if same else 2 * added
    return sums
