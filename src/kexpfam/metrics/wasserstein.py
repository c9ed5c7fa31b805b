r"""Wasserstein distances between two samples, exact or sliced.

    W_p(X, Y)^p  = min over couplings π of Σ_ij π_ij |x_i − y_j|^p
    SW_p(X, Y)^p = mean over directions θ of W_p(θ·X, θ·Y)^p        |θ| = 1, uniform

| symbol | name                 | shape                         |
|--------|----------------------|-------------------------------|
| x, y   | X, Y                 | (n, d), (m, d)                |
| π 1    | X_weight, normalized | (n,)                          |
| πᵀ1    | Y_weight, normalized | (m,)                          |
| p      | order                | 1 or 2                        |
| θ      | directions           | (n_projections, d)            |

On a line both are ∫|F⁻¹ − G⁻¹|^p, a matter of sorting. In more dimensions the exact distance is a
linear program in n·m unknowns (POT's network simplex). The sliced distance sorts projections
instead, but it is *another* distance: never larger, and for a shift by c it is |c|/√d (p = 2) or
|c| Γ(d/2) / (√π Γ((d+1)/2)) (p = 1) where the exact one is |c|. Do not compare one with the other.

Directions come in orthonormal frames. Each is uniform still, so the mean is unbiased, and it
varies less (M. Rowland et al., "Orthogonal estimation of Wasserstein distances", AISTATS 2019).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist
from sklearn.utils import check_array

from kexpfam.choices import checked_name, seeded, whole
from kexpfam.data.tables import refuse_what_is_no_table

__all__ = ["wasserstein_distance"]

# 4096 rows against as many: about ten seconds and 0.7 gigabytes.
LARGEST_EXACT = 2**24
_METHODS = ("exact", "sliced", "auto")
# The simplex ends by itself; POT's own limit of 100 000 pivots is for a few thousand rows.
_MOST_PIVOTS = 10**9


def wasserstein_distance(
    X: Any,
    Y: Any,
    *,
    order: int = 1,
    method: str = "exact",
    n_projections: int = 200,
    X_weight: Any = None,
    Y_weight: Any = None,
    random_state: Any = None,
) -> float:
    """Wasserstein distance between the distributions of two samples.

    Parameters
    ----------
    X : array of shape (n_samples_X, n_features)
    Y : array of shape (n_samples_Y, n_features)
    order : {1, 2}, default=1
        1: mean distance moved; 2: root of the mean squared distance.
    method : {'exact', 'sliced', 'auto'}, default='exact'
        'exact' solves the transport problem, in time of order n³ and memory of order n²; with
        more than one column it needs ``pip install 'kexpfam[metrics]'``. 'sliced' averages
        over directions, in time of order n log n. 'auto' is exact up to 2²⁴ pairs of rows and
        sliced beyond, with a warning: the two have different scales.
    n_projections : int, default=200
        Directions of the sliced distance.
    X_weight, Y_weight : arrays of shape (n_samples,), optional
        Weights of the rows; only their proportions matter.
    random_state : int, Generator or None, default=None
        For the directions.

    Returns
    -------
    float

    References
    ----------
    R. Flamary et al., "POT: Python Optimal Transport", JMLR 22 (2021).
    N. Bonneel, J. Rabin, G. Peyré, H. Pfister, "Sliced and Radon Wasserstein barycenters of
    measures", Journal of Mathematical Imaging and Vision 51 (2015).

    Examples
    --------
    >>> from kexpfam.metrics import wasserstein_distance
    >>> wasserstein_distance([[0.0], [1.0]], [[2.0], [3.0]])
    2.0
    >>> X, Y = [[0.0, 0.0], [1.0, 1.0]], [[3.0, 4.0], [4.0, 5.0]]
    >>> round(wasserstein_distance(X, Y, order=2), 6)  # doctest: +SKIP
    5.0
    >>> round(wasserstein_distance(X, Y, order=2, method="sliced", random_state=0), 6)
    3.535534
    """
    X, Y = _checked_rows(X, "X"), _checked_rows(Y, "Y")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            "X and Y must have the same number of columns; "
            f"got {X.shape[1]} in X and {Y.shape[1]} in Y."
        )
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2; got {order!r}.")
    checked_name("method", method, _METHODS)
    masses = _masses(X_weight, len(X), "X_weight"), _masses(Y_weight, len(Y), "Y_weight")
    if X.shape[1] == 1:
        # On a line the exact distance is the cheap one, and the only slice.
        cost = _line_cost(X[:, 0], Y[:, 0], *masses, order)
    elif _is_exact(method, len(X) * len(Y)):
        cost = _exact_cost(X, Y, *masses, order)
    else:
        count = whole("n_projections", n_projections)
        directions = _directions(count, X.shape[1], seeded(random_state))
        cost = float(np.mean([_line_cost(X @ v, Y @ v, *masses, order) for v in directions]))
    return float(cost ** (1 / order))


def _is_exact(method: str, n_pairs: int) -> bool:
    if method == "auto" and n_pairs > LARGEST_EXACT:
        warnings.warn(
            f"{n_pairs} pairs of rows are more than the {LARGEST_EXACT} that method='auto' solves "
            "exactly: this is the sliced distance, whose scale is another. Choose method='exact' "
            "or method='sliced' to compare like with like.",
            stacklevel=3,
        )
        return False
    return method != "sliced"


def _exact_cost(
    X: Float[np.ndarray, "n d"],
    Y: Float[np.ndarray, "m d"],
    X_mass: Float[np.ndarray, " n"],
    Y_mass: Float[np.ndarray, " m"],
    order: int,
) -> float:
    """The least cost of transport, by linear programming."""
    try:
        import ot
    except ImportError as error:
        raise ImportError(
            "The exact Wasserstein distance in more than one dimension needs POT: "
            "pip install 'kexpfam[metrics]'. Or use method='sliced'."
        ) from error
    # Differences first, squares after: POT's own distances expand the square and lose half the
    # digits where rows nearly agree.
    costs = cdist(X, Y, "euclidean" if order == 1 else "sqeuclidean")
    cost, log = ot.emd2(X_mass, Y_mass, costs, numItermax=_MOST_PIVOTS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(
            f"The transport problem was not solved: {log['warning']} Try method='sliced'."
        )
    return float(cost)


def _line_cost(
    x: Float[np.ndarray, " n"],
    y: Float[np.ndarray, " m"],
    x_mass: Float[np.ndarray, " n"],
    y_mass: Float[np.ndarray, " m"],
    order: int,
) -> float:
    """∫|F⁻¹ − G⁻¹|^p, a sum over the levels at which either quantile function steps."""
    x_order, y_order = np.argsort(x), np.argsort(y)
    x_levels, y_levels = np.cumsum(x_mass[x_order]), np.cumsum(y_mass[y_order])
    levels = np.sort(np.concatenate([x_levels, y_levels]))
    # Rounding can leave one last level an ulp above the other's.
    x_steps = np.minimum(np.searchsorted(x_levels, levels), len(x) - 1)
    y_steps = np.minimum(np.searchsorted(y_levels, levels), len(y) - 1)
    moved = np.abs(x[x_order[x_steps]] - y[y_order[y_steps]]) ** order
    return float(np.diff(levels, prepend=0.0) @ moved)


def _directions(
    count: int, n_features: int, generator: np.random.Generator
) -> Float[np.ndarray, "count d"]:
    """Uniform directions, orthogonal to one another within each frame of `n_features`."""
    n_frames = -(-count // n_features)
    frames, _ = np.linalg.qr(generator.standard_normal((n_frames, n_features, n_features)))
    return frames.swapaxes(1, 2).reshape(-1, n_features)[:count]


def _checked_rows(rows: Any, name: str) -> Float[np.ndarray, "n d"]:
    refuse_what_is_no_table(rows, name)
    return check_array(rows, dtype=np.float64, input_name=name)


def _masses(weight: Any, n_rows: int, name: str) -> Float[np.ndarray, " n"]:
    """Weights that sum to one; equal ones for None."""
    if weight is None:
        return np.full(n_rows, 1 / n_rows)
    try:
        weight = np.asarray(weight, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {n_rows} numbers, one per row; got {weight!r}.") from None
    if weight.shape != (n_rows,):
        raise ValueError(
            f"{name} must have shape ({n_rows},), one number per row; got {weight.shape}."
        )
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.sum() > 0:
        raise ValueError(
            f"{name} must be finite and not negative, and not zero for all rows; the smallest is "
            f"{weight.min():g} and the largest {weight.max():g}."
        )
    return weight / weight.sum()
