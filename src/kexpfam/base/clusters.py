"""Clusters of rows from several starts at once: where mixtures begin.

Centers are drawn among the rows, each with a probability in proportion to a row's weight times its
squared distance to the nearest center so far (Arthur and Vassilvitskii 2007), and then moved to the
means of the rows that are nearest to them, a few times. Expectation–maximization continues from
there, so that more would be wasted. All starts share their passes over the rows: of one start alone
the calls would take longer than the arithmetic.

| symbol | name    | shape  |
|--------|---------|--------|
| x      | rows    | (n, d) |
| c      | centers | (k, d) |
|        | nearest | (s, n), squared distances to the nearest center of each start |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Clusters", "Start", "clusters_of"]

_MOVES = 2
# Numbers of distances that are computed together: few enough to stay near the processor.
_BLOCK_NUMBERS = 500_000


class Start(NamedTuple):
    """How many clusters, and a seed for where they begin."""

    n_components: int
    seed: int


class Clusters(NamedTuple):
    """Centers, and to which of them every row belongs."""

    centers: Float[np.ndarray, "k d"]
    labels: Int[np.ndarray, " n"]


def clusters_of(
    rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], starts: Sequence[Start]
) -> list[Clusters]:
    """Clusters of weighted rows, from each start."""
    found = [Clusters(own, np.zeros(len(rows), int)) for own in _drawn(rows, weights, starts)]
    for _ in range(_MOVES):
        found = _labeled(rows, [one.centers for one in found])
        found = [one._replace(centers=_moved(rows, weights, one)) for one in found]
    return _labeled(rows, [one.centers for one in found])


def _drawn(
    rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], starts: Sequence[Start]
) -> list[Float[np.ndarray, "_ d"]]:
    """Rows to begin with, far from each other."""
    # The largest first, so that starts that are complete are the last ones.
    order = sorted(range(len(starts)), key=lambda number: -starts[number].n_components)
    sizes = np.array([starts[number].n_components for number in order])
    uniform = np.ones((len(starts), int(sizes[0])))
    for own, number in zip(uniform, order, strict=True):
        size, seed = starts[number]
        own[:size] = np.random.default_rng(seed % 2**32).random(size)
    chosen = np.zeros(uniform.shape, int)
    nearest = np.ones((len(starts), len(rows)))
    squares = (rows**2).sum(axis=1)
    for step in range(int(sizes[0])):
        count = int((sizes > step).sum())
        sums = np.cumsum(nearest[:count] * weights, axis=1)
        wanted = uniform[:count, step] * sums[:, -1]
        chosen[:count, step] = [
            min(int(np.searchsorted(own, one, "right")), len(rows) - 1)
            for own, one in zip(sums, wanted, strict=True)
        ]
        centers = rows[chosen[:count, step]]
        away = centers @ (-2.0 * rows.T)
        away += squares
        away += (centers**2).sum(axis=1)[:, None]
        np.maximum(away, 0.0, out=away)
        nearest[:count] = np.minimum(nearest[:count], away) if step else away
    picked: list[np.ndarray] = [np.empty(0)] * len(starts)
    for own, size, number in zip(chosen, sizes, order, strict=True):
        picked[number] = rows[own[:size]]
    return picked


def _labeled(
    rows: Float[np.ndarray, "n d"], centers: Sequence[Float[np.ndarray, "_ d"]]
) -> list[Clusters]:
    """The nearest center of each start to every row."""
    together = np.concatenate(centers)
    turned, constants = (-2.0 * together.T), (together**2).sum(axis=1)
    labels = np.empty((len(centers), len(rows)), int)
    ends = np.cumsum([len(own) for own in centers])[:-1]
    size = max(16, _BLOCK_NUMBERS // len(together))
    for first in range(0, len(rows), size):
        away = rows[first : first + size] @ turned
        away += constants
        for own, part in zip(labels, np.split(away, ends, axis=1), strict=True):
            own[first : first + size] = part.argmin(axis=1)
    return [Clusters(own, label) for own, label in zip(centers, labels, strict=True)]


def _moved(
    rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], clusters: Clusters
) -> Float[np.ndarray, "k d"]:
    """The means of the clusters; a center that no row belongs to stays where it is."""
    count, n_columns = clusters.centers.shape
    masses = np.bincount(clusters.labels, weights, minlength=count)
    places = clusters.labels[:, None] * n_columns + np.arange(n_columns)
    weighed = (rows * weights[:, None]).ravel()
    sums = np.bincount(places.ravel(), weighed, minlength=count * n_columns)
    means = sums.reshape(count, n_columns) / np.maximum(masses, 1e-300)[:, None]
    return np.where(masses[:, None] > 0, means, clusters.centers)
