"""Radial kernels k(x, y) = φ(u) of the squared distance u = |x − y|² / width².

| symbol | name      | Gaussian        | inverse multiquadric |
|--------|-----------|-----------------|----------------------|
| φ(u)   | value     | exp(−u/2)       | (1 + u)^(−1/2)       |
| φ′(u)  | slope     | −½ exp(−u/2)    | −½ (1 + u)^(−3/2)    |
| φ″(u)  | curvature | ¼ exp(−u/2)     | ¾ (1 + u)^(−5/2)     |

All of them have the shape of u. The inverse multiquadric's tails are heavy: from three columns on,
the discrepancy of a Gaussian kernel can vanish along distributions that do not approach the model,
and that of the inverse multiquadric cannot (Gorham and Mackey, "Measuring sample quality with
kernels", ICML 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from kexpfam.choices import listed, resolve

__all__ = ["KERNELS", "Profile", "RadialKernel", "checked_kernel", "gaussian"]


class Profile(NamedTuple):
    """A radial kernel and its first two derivatives with respect to u.

    Parameters
    ----------
    value, slope, curvature : arrays in the shape of u
        φ(u), φ′(u) and φ″(u).

    Examples
    --------
    A kernel of one's own for `stein_test`, exp(−u):

    >>> import jax.numpy as jnp
    >>> from kexpfam.goodness_of_fit import Profile
    >>> def narrow(squares):
    ...     value = jnp.exp(-squares)
    ...     return Profile(value, -value, value)
    """

    value: Any
    slope: Any
    curvature: Any


RadialKernel = Callable[[Any], Profile]


def gaussian(squares: Any) -> Profile:
    """The Gaussian kernel."""
    value = jnp.exp(-squares / 2)
    return Profile(value, -value / 2, value / 4)


def inverse_multiquadric(squares: Any) -> Profile:
    """The inverse multiquadric kernel with exponent −½."""
    stretch = 1 + squares
    value = 1 / jnp.sqrt(stretch)
    return Profile(value, -value / (2 * stretch), 3 * value / (4 * stretch**2))


KERNELS: dict[str, RadialKernel] = {
    "rbf": gaussian,
    "inverse_multiquadric": inverse_multiquadric,
}


def checked_kernel(kernel: Any) -> RadialKernel:
    """The kernel that a name stands for, or the user's own function."""
    otherwise = "a function of squared distances that returns a Profile"
    resolved: RadialKernel = resolve("kernel", kernel, KERNELS, otherwise)
    if not callable(resolved):
        allowed = listed([*map(repr, KERNELS), otherwise])
        raise ValueError(f"kernel must be {allowed}; got {kernel!r}.")
    if resolved not in KERNELS.values():
        found = resolved(jnp.zeros(1))
        if not isinstance(found, Profile):
            raise ValueError(
                "A kernel of one's own must return a Profile(value, slope, curvature), each in the "
                f"shape of the squared distances; got an object of type {type(found).__name__}."
            )
    return resolved
