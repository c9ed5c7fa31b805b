"""Ranks of rows among draws, and how far their counts stray by chance.

With r_i the number of draws whose figure is above that of row i, and both from one distribution,
r_i is uniform on {0, …, m}. The number of rows with fewer than j draws above them,

    N_j = #{i : r_i < j},   is   BetaBinomial(n, j, m + 1 − j),   E N_j / n = j / (m + 1):

the j-th highest of m draws cuts off a share of the distribution with a Beta(j, m + 1 − j)
distribution. A
*simultaneous* band holds the whole path (N_j)_j with the given probability. It is made of pointwise
intervals of one level γ, and γ is found from simulated paths (T. Säilynoja, P.-C. Bürkner,
A. Vehtari, "Graphical test for discrete uniformity and its applications in goodness-of-fit
evaluation and multiple sample comparison", Statistics and Computing 32, 2022). A path needs no
sorting: the shares between chosen draws are Dirichlet, the counts in them multinomial.

| symbol | name    | shape |
|--------|---------|-------|
| n, m   | n_rows, n_draws | |
| j      | places  | (k,)  |
| r      | ranks   | (n,)  |
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaln, gammaln

__all__ = ["count_band", "ranks_among", "spread_places"]

_N_PATHS = 2000


def ranks_among(
    values: Float[np.ndarray, " n"],
    others: Float[np.ndarray, " m"],
    generator: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """For each value the number of others above it, ties broken at random."""
    rising = np.sort(others)
    above = len(rising) - np.searchsorted(rising, values, side="right")
    tied = len(rising) - np.searchsorted(rising, values, side="left") - above
    return above + generator.integers(0, tied, endpoint=True)


def spread_places(n_draws: int, most: int) -> Int[np.ndarray, " k"]:
    """At most `most` of the places 1, …, n_draws, evenly spread."""
    return np.unique(np.linspace(1, n_draws, min(n_draws, most)).round().astype(int))


def count_band(
    n_rows: int,
    n_draws: int,
    places: Int[np.ndarray, " k"],
    coverage: float,
    generator: np.random.Generator,
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """Least and largest counts N_j at the places j that hold a whole path with `coverage`."""
    below = _cumulative(n_rows, n_draws, places)
    shares = generator.dirichlet(np.diff(places, prepend=0, append=n_draws + 1), _N_PATHS)
    paths = generator.multinomial(n_rows, shares)[:, :-1].cumsum(axis=1)
    lines = np.arange(len(places))
    # P(N ≤ path) and P(N ≥ path): the less likely of the two is how far out a path is.
    tails = np.minimum(below[lines, paths + 1], 1 - below[lines, paths])
    tail = float(np.quantile(tails.min(axis=1), 1 - coverage, method="lower"))
    least = (below[:, 1:] < tail).sum(axis=1)
    largest = n_rows - (1 - below[:, :-1] < tail).sum(axis=1)
    return least, largest


def _cumulative(
    n_rows: int, n_draws: int, places: Int[np.ndarray, " k"]
) -> Float[np.ndarray, "k c"]:
    """P(N_j < c) for c = 0, …, n + 1."""
    counts = np.arange(n_rows + 1)
    choices = gammaln(n_rows + 1) - gammaln(counts + 1) - gammaln(n_rows - counts + 1)
    first, second = places[:, None], n_draws + 1 - places[:, None]
    logs = choices + betaln(counts + first, n_rows - counts + second) - betaln(first, second)
    cumulative = np.cumsum(np.exp(logs), axis=1)
    return np.concatenate([np.zeros((len(places), 1)), cumulative / cumulative[:, -1:]], axis=1)
