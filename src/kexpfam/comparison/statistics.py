"""From differences of means to p-values: of columns, of pairs of columns, and of the tables.

Single differences z and sums of squares Q = Σ w z² are brought to one scale, minus the logarithm of
a p-value, by the normal distribution and, for Q, by Wilson and Hilferty's cube root with the
moments that Q has over all permutations. This only makes them comparable: every p-value that is
reported is a rank among the same figures of permuted labels, so that approximations cost power,
never the level.

    evidence of a column     E_j = max over its statistics of −log p
    column's p-value         share of labels with  max over all columns of E ≥ E_j
    a group's p-value p_g    the same of the largest evidence in it (columns, pairs, …)
    the tables' p-value      share of labels with  min over groups of p_g / weight_g  as small

The p-value of a column holds for all columns together (the maximum over all of them is what it is
compared with): where nothing moved, none is below 0.05 with probability 0.95.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

__all__ = [
    "category_evidence",
    "combined",
    "corrected",
    "leveled",
    "number_evidence",
    "ranked",
    "squares_evidence",
    "two_sided",
]

# Below the p-value exp(−30), 1 − (1 − p)^m is m p to all digits that matter.
_NEARLY_LINEAR = 30.0


def number_evidence(z: Float[np.ndarray, "B k"]) -> Float[np.ndarray, " B"]:
    """Of a column of numbers: location, spread, both tails, and its distribution function.

    The weights of the last are those of Anderson and Darling's statistic, 1 / (k (k + 1)).
    """
    n_polynomials = z.shape[1] - 3
    orders = np.arange(1, n_polynomials + 1)
    whole = squares_evidence(z[:, :n_polynomials], 1 / (orders * (orders + 1)))
    singles = two_sided(z[:, [0, 1, -3, -2, -1]])
    return leveled(np.maximum(whole, singles.max(axis=1)))


def category_evidence(z: Float[np.ndarray, "B k"]) -> Float[np.ndarray, " B"]:
    """Evidence of a column of levels: one level's share, or all shares."""
    if not z.shape[1]:
        return np.zeros(len(z))
    return leveled(np.maximum(squares_evidence(z), two_sided(z).max(axis=1)))


def two_sided(z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """−log of the probability that a normal number is further from zero."""
    return -log_ndtr(-np.abs(z)) - np.log(2)


def squares_evidence(
    z: Float[np.ndarray, "B k"], weights: Float[np.ndarray, " k"] | float = 1.0
) -> Float[np.ndarray, " B"]:
    """−log p of a weighted sum of squares, as a multiple of a chi-squared variable."""
    sums = (weights * z**2).sum(axis=1)
    middle, spread = sums.mean(), sums.var()
    if not spread > 1e-12 * middle**2:
        return np.zeros(len(z))
    part = spread / (9 * middle**2)
    return -log_ndtr(-(np.cbrt(sums / middle) - 1 + part) / np.sqrt(part))


def leveled(evidence: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
    """Evidence that is a maximum over several statistics, as that of one statistic.

    The smallest of m independent p-values is below p with probability 1 − (1 − p)^m. The m under
    which the evidence of all labels has the right median stands for the number of statistics, and
    makes columns with many and with few comparable.
    """
    middle = np.exp(-np.median(evidence))
    count = max(1.0, float(np.log(0.5) / np.log1p(-np.clip(middle, 1e-6, 0.999))))
    p_values = np.exp(-np.minimum(evidence, _NEARLY_LINEAR))
    exact = -np.log(-np.expm1(count * np.log1p(-np.minimum(p_values, 1 - 1e-12))))
    return np.where(evidence < _NEARLY_LINEAR, exact, evidence - np.log(count))


def ranked(figures: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
    """The share of labels whose figure is at least as large, for all labels."""
    rising = np.sort(figures)
    # Figures that differ in rounding alone are equal.
    slack = 1e-9 * (1 + np.abs(figures))
    return (len(rising) - np.searchsorted(rising, figures - slack, side="left")) / len(rising)


def corrected(evidence: Float[np.ndarray, "B k"]) -> Float[np.ndarray, " k"]:
    """p-values of all parts at the observed labels, by the largest evidence of any (max-T)."""
    largest = evidence.max(axis=1)[:, None]
    return (largest >= evidence[0] - 1e-9 * (1 + np.abs(evidence[0]))).mean(axis=0)


def combined(
    groups: Sequence[Float[np.ndarray, "B k"]], weights: Sequence[float]
) -> tuple[float, list[float]]:
    """The p-value of all groups together, and that of each group alone.

    Of what a level allows for, each group has a share in proportion to its weight.
    """
    alone = [ranked(evidence.max(axis=1)) for evidence in groups]
    smallest = np.min([p / weight for p, weight in zip(alone, weights, strict=True)], axis=0)
    return float(ranked(-smallest)[0]), [float(one[0]) for one in alone]
