"""The finite set Stein discrepancy test, linear in the number of rows.

The Stein features τ of the locations have mean zero under the model. The statistic estimates
n |E τ|² without bias, so it can be negative:

    n FSSD² = 1/(n − 1) Σ_{i≠j} τ(x_i)·τ(x_j),

and follows Σ_i λ_i (Z_i² − 1) under the model as n grows, with Z_i independent standard normal
and λ_i the eigenvalues of cov τ. The covariance is taken about the mean over the observed rows:
under any other distribution it stays bounded while the statistic grows with n.

| symbol | name        | shape    |
|--------|-------------|----------|
| x      | X           | (n, d)   |
| v      | locations   | (J, d)   |
| λ      | eigenvalues | (dJ,)    |
| null   | null_draws  | (draws,) |

Wittawat Jitkrittum, Wenkai Xu, Zoltán Szabó, Kenji Fukumizu and Arthur Gretton, "A linear-time
kernel goodness-of-fit test", NeurIPS 2017.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.choices import nearest, seeded, share, whole
from kexpfam.goodness_of_fit.kernels import RadialKernel, checked_kernel
from kexpfam.goodness_of_fit.locations import (
    MOST_TRAINING_ROWS,
    gaussian_locations,
    optimized_locations,
)
from kexpfam.goodness_of_fit.observed import LEAST_ROWS, Observed, observe
from kexpfam.goodness_of_fit.p_value import checked_statistic, tail_share
from kexpfam.goodness_of_fit.stein_features import feature_sums, unbiased_square
from kexpfam.goodness_of_fit.width import resolve_width

__all__ = ["FiniteSetResult", "fssd_test", "weighted_chi_squares"]

# Numbers drawn at once for the null distribution: 32 MB.
_DRAWN_AT_ONCE = 2**22


class FiniteSetResult(NamedTuple):
    """What the finite set Stein discrepancy test found.

    Attributes
    ----------
    statistic : float
        n·FSSD².
    p_value : float
    null_draws : ndarray of shape (n_null_draws,)
        Draws of the statistic's distribution under the model.
    locations : ndarray of shape (n_locations, n_features)
    width : float
        Of the kernel.
    n_tested : int
        Number of rows in the statistic.
    """

    statistic: float
    p_value: float
    null_draws: Float[np.ndarray, " draws"]
    locations: Float[np.ndarray, "j d"]
    width: float
    n_tested: int

    def __repr__(self) -> str:
        return (
            f"FiniteSetResult(statistic={self.statistic:.6g}, p_value={self.p_value:.6g}, "
            f"width={self.width:.6g}, {len(self.null_draws)} null draws, "
            f"{len(self.locations)} locations, n_tested={self.n_tested})"
        )


def fssd_test(
    model: Any,
    X: Any,
    *,
    n_locations: int = 5,
    locations: Any = "gaussian",
    width: Any = "median",
    kernel: Any = "rbf",
    n_null_draws: int = 5000,
    train_fraction: float = 0.2,
    n_steps: int = 100,
    random_state: Any = None,
) -> FiniteSetResult:
    """Test whether rows come from a model, by Stein features at a few locations.

    Parameters
    ----------
    model : object with a method ``gradient(X)``, or a function
        Gives ∇log p of the model at rows (n, d), in the same shape.
    X : array or data frame of shape (n_samples, n_features)
        Independent rows that took no part in fitting the model. More rows than columns, and
        at least 10.
    n_locations : int, default=5
        Number of locations J, where they are not given.
    locations : {"gaussian", "optimized"} or array of shape (n_locations, n_features), \
            default="gaussian"
        "gaussian" draws them from a Gaussian fitted to the rows. "optimized" seeks those of
        greatest power on a random part of the rows and tests on the others.
    width : "median" or float, default="median"
        Width of the kernel. "median" is the median distance between two rows, and only the
        starting value where locations are optimized.
    kernel : {"rbf", "inverse_multiquadric"} or callable, default="rbf"
        A callable maps squared distances over width² to a `Profile`, by JAX operations.
    n_null_draws : int, default=5000
        Draws of the statistic's distribution under the model.
    train_fraction : float, default=0.2
        Share of the rows (at most 8192 of them) that chooses optimized locations.
    n_steps : int, default=100
        Steps of the optimization.
    random_state : int, RandomState, Generator or None, default=None
        Decides locations, split and draws.

    Returns
    -------
    FiniteSetResult
        ``statistic`` n·FSSD², ``p_value``, ``null_draws``, ``locations``, ``width`` and
        ``n_tested``, the number of rows that the statistic is made of. The p-value is
        (1 + number of draws ≥ statistic) / (1 + number of draws).

    Notes
    -----
    The cost is n·(dJ)² and memory (dJ)² numbers, whatever n. The kernel treats all columns
    alike: bring columns of different units to one scale, rows and gradient together.

    Optimizing pays where the difference is confined to a place or a direction that random
    locations miss; a difference that shows everywhere, like a shift of the mean, is better
    tested on all rows.

    The model must be smooth on all of ℝᵈ. On bounded support with a jump at the edge the
    features do not have mean zero under the model, and the test rejects it.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam.goodness_of_fit import fssd_test
    >>> def standard_normal(rows):
    ...     return -rows
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> fssd_test(standard_normal, X, random_state=0).p_value > 0.05
    True
    >>> fssd_test(standard_normal, X + [0.5, 0], random_state=0).p_value < 0.01
    True
    """
    n_locations = whole("n_locations", n_locations)
    n_null_draws = whole("n_null_draws", n_null_draws)
    n_steps = whole("n_steps", n_steps)
    profile = checked_kernel(kernel)
    _check_locations_name(locations)
    observed, generator = observe(model, X), seeded(random_state)
    if isinstance(locations, str) and locations == "optimized":
        train, observed = _split(observed, train_fraction, generator)
        scale = resolve_width(width, train.rows, generator)
        places, scale = optimized_locations(
            train, n_locations, scale, isinstance(width, str), profile, n_steps, generator
        )
    else:
        scale = resolve_width(width, observed.rows, generator)
        places = (
            gaussian_locations(observed.rows, n_locations, generator)
            if isinstance(locations, str)
            else _checked_locations(locations, observed.rows.shape[1])
        )
    statistic, eigenvalues = _statistic(observed, places, scale, profile)
    null_draws = weighted_chi_squares(eigenvalues, n_null_draws, generator)
    return FiniteSetResult(
        # Divided twice, because the square of a width of 1e200 overflows.
        statistic=statistic / scale / scale,
        p_value=tail_share(statistic, null_draws),
        null_draws=null_draws / scale / scale,
        locations=places,
        width=scale,
        n_tested=len(observed.rows),
    )


def _statistic(
    observed: Observed, locations: Float[np.ndarray, "j d"], width: float, kernel: RadialKernel
) -> tuple[float, Float[np.ndarray, " m"]]:
    """n·FSSD² and the eigenvalues of the features' covariance, where the width is the unit."""
    in_widths = Observed(observed.rows / width, observed.gradients * width)
    count, total, products = feature_sums(in_widths, locations / width, kernel)
    square = unbiased_square(count, total, np.trace(products))
    statistic = checked_statistic(float(count * square), observed)
    covariance = (products - np.outer(total, total) / count) / (count - 1)
    # Rounding can leave eigenvalues a little below zero.
    return statistic, np.maximum(np.linalg.eigvalsh(covariance), 0.0)


def weighted_chi_squares(
    eigenvalues: Float[np.ndarray, " m"], n_draws: int, generator: np.random.Generator
) -> Float[np.ndarray, " draws"]:
    """Draws of Σ_i λ_i (Z_i² − 1)."""
    at_once = max(1, _DRAWN_AT_ONCE // len(eigenvalues))
    pieces = [
        (generator.standard_normal((min(at_once, n_draws - start), len(eigenvalues))) ** 2 - 1)
        @ eigenvalues
        for start in range(0, n_draws, at_once)
    ]
    return np.concatenate(pieces)


def _split(
    observed: Observed, train_fraction: Any, generator: np.random.Generator
) -> tuple[Observed, Observed]:
    """A random part of the rows to choose locations by, and the others."""
    train_fraction = share("train_fraction", train_fraction)
    n_rows, n_columns = observed.rows.shape
    n_train = min(round(train_fraction * n_rows), MOST_TRAINING_ROWS)
    least = max(LEAST_ROWS, n_columns + 1)
    if min(n_train, n_rows - n_train) < least:
        raise ValueError(
            f"locations='optimized' expects at least {least} rows to choose locations by and as "
            f"many to test on; got {n_train} and {n_rows - n_train} of {n_rows} rows with "
            f"train_fraction={train_fraction:g}. Bring more rows, change train_fraction, or use "
            "locations='gaussian'."
        )
    order = generator.permutation(n_rows)
    return observed.take(order[:n_train]), observed.take(order[n_train:])


def _check_locations_name(locations: Any) -> None:
    if locations is None or (
        isinstance(locations, str) and locations not in {"gaussian", "optimized"}
    ):
        raise ValueError(
            "locations must be 'gaussian', 'optimized', or an array with one location in each "
            f"row; got {locations!r}.{nearest(locations, ('gaussian', 'optimized'))}"
        )


def _checked_locations(locations: Any, n_columns: int) -> Float[np.ndarray, "j d"]:
    try:
        places = np.asarray(locations, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"locations must be an array of numbers, one location in each row; got "
            f"{locations!r:.60}."
        ) from None
    if places.ndim != 2 or places.shape[1] != n_columns or not places.size:
        raise ValueError(
            f"locations must have shape (n_locations, {n_columns}), one location in each row; "
            f"got shape {np.shape(locations)}."
        )
    if not np.isfinite(places).all():
        raise ValueError("locations must be finite; got NaN or infinity among them.")
    return places
