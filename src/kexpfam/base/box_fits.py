"""Mixtures of soft boxes fitted to rows.

The likeliest centers, half widths and softnesses by L-BFGS, from clusters of rows: a component's
first box holds most of its cluster. Softness is ς + 2h k/n with ς > 0, so that an edge is no
sharper than n rows among k components can know (see `kexpfam.base.boxes`). The number of
components is chosen on held-out rows.

| symbol     | name     | shape         |
|------------|----------|---------------|
| log weights, c, log h, log ς | parameters | (k + 3kd,) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from scipy.special import logsumexp

from kexpfam.base.boxes import BoxMixtureDensity, log_cosh, log_sinh
from kexpfam.base.density import require_rows
from kexpfam.choices import whole
from kexpfam.data.sketch import Sketch
from kexpfam.threads import one_blas_thread

__all__ = ["BoxBase", "BoxSearch", "choose_boxes"]

_MOST_COMPONENTS = 4
# One of this many rows is held out; rows that a fit looks at, and that a component needs.
_ONE_HELD_OUT_OF, _MOST_ROWS, _ROWS_PER_COMPONENT = 4, 4000, 25
_STEPS = 300
# A component's first box: between these shares of its cluster, with such a softness.
_FIRST_SHARES, _FIRST_SOFTNESS = (0.02, 0.98), 0.25
# Smallest half width and softness, in standard deviations of the columns.
_LEAST_WIDTH, _LEAST_SOFTNESS = 0.02, 1e-5


@dataclass(frozen=True)
class BoxBase:
    """A mixture of boxes with soft edges, for data that are flat and end abruptly.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of boxes; None chooses up to four on held-out rows.

    Examples
    --------
    >>> from kexpfam import BoxBase, KernelExponentialFamily
    >>> model = KernelExponentialFamily(base=BoxBase(n_components=2))
    """

    n_components: int | None = None

    def __post_init__(self) -> None:
        if self.n_components is not None:
            whole("n_components", self.n_components, otherwise="None")

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> BoxMixtureDensity:
        """Fit to rows of the sketch, whose order is random."""
        require_rows(
            len(sketch.rows),
            max(4, self.n_components or 0),
            "A base density of boxes",
            "Use base='gaussian'.",
        )
        seed = int(generator.integers(2**31))
        count = self.n_components
        if count is None:
            held = np.arange(len(sketch.rows)) % _ONE_HELD_OUT_OF == 0
            count = choose_boxes(sketch, held, seed).n_components
        some = _first_rows(sketch)
        return _fitted(some.rows, some.weights, count, seed)


class BoxSearch(NamedTuple):
    """How many boxes suit held-out rows best, and the log densities of these rows."""

    n_components: int
    held_out: Float[np.ndarray, " j"]


def choose_boxes(sketch: Sketch, held: Bool[np.ndarray, " n"], seed: int) -> BoxSearch:
    """More boxes, as long as held-out rows gain by them."""
    others, judges = _first_rows(sketch.where(~held)), sketch.where(held)
    best, highest = BoxSearch(1, np.zeros(0)), -np.inf
    for count in range(1, _MOST_COMPONENTS + 1):
        if count > 1 and len(others.rows) < count * _ROWS_PER_COMPONENT:
            break
        logs = _fitted(others.rows, others.weights, count, seed).log_density(judges.rows)
        mean = float(np.average(logs, weights=judges.weights))
        if mean < highest:
            break
        best, highest = BoxSearch(count, logs), mean
    return best


def _first_rows(sketch: Sketch) -> Sketch:
    return sketch.where(np.arange(len(sketch.rows)) < _MOST_ROWS)


def _fitted(
    rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], count: int, seed: int
) -> BoxMixtureDensity:
    """The likeliest boxes, from clusters."""
    labels = np.zeros(len(rows), int)
    if count > 1:
        # Imported where it is needed: it takes as long as a small fit.
        from sklearn.cluster import KMeans

        clusters = KMeans(count, n_init=3, random_state=seed)
        with one_blas_thread():
            labels = clusters.fit(rows, sample_weight=weights).labels_
    ends = np.stack(
        [np.quantile(rows[labels == number], _FIRST_SHARES, axis=0) for number in range(count)]
    )
    half_widths = np.maximum((ends[:, 1] - ends[:, 0]) / 2, _LEAST_WIDTH)
    shares = np.bincount(labels, weights, minlength=count) / weights.sum()
    start = _Parameters(
        np.log(shares),
        ends.mean(axis=1),
        np.log(half_widths),
        np.log(_FIRST_SOFTNESS * half_widths),
    )
    least = _Parameters(
        np.full(count, -np.inf),
        np.full_like(half_widths, -np.inf),
        np.full_like(half_widths, np.log(_LEAST_WIDTH)),
        np.full_like(half_widths, np.log(_LEAST_SOFTNESS)),
    )
    sharpest = 2 * count / len(rows)
    found = minimize(
        _loss,
        start.flat(),
        (rows, weights / weights.sum(), count, sharpest),
        jac=True,
        method="L-BFGS-B",
        bounds=[(low, None) for low in least.flat()],
        options={"maxiter": _STEPS},
    )
    return _Parameters.of(found.x, count).density(sharpest)


class _Parameters(NamedTuple):
    log_weights: Float[np.ndarray, " k"]
    centers: Float[np.ndarray, "k d"]
    log_half_widths: Float[np.ndarray, "k d"]
    log_extra: Float[np.ndarray, "k d"]

    def flat(self) -> Float[np.ndarray, " p"]:
        return np.concatenate([one.ravel() for one in self])

    @classmethod
    def of(cls, flat: Float[np.ndarray, " p"], count: int) -> _Parameters:
        return cls(flat[:count], *flat[count:].reshape(3, count, -1))

    def density(self, sharpest: float) -> BoxMixtureDensity:
        half_widths = np.exp(self.log_half_widths)
        return BoxMixtureDensity(
            np.exp(self.log_weights - logsumexp(self.log_weights)),
            self.centers,
            half_widths,
            np.exp(self.log_extra) + sharpest * half_widths,
        )


def _loss(
    flat: Float[np.ndarray, " p"],
    rows: Float[np.ndarray, "n d"],
    row_shares: Float[np.ndarray, " n"],
    count: int,
    sharpest: float,
) -> tuple[float, Float[np.ndarray, " p"]]:
    """The mean negative log density, and its derivative."""
    parameters = _Parameters.of(flat, count)
    boxes = parameters.density(sharpest)
    half_widths, softness = boxes.half_widths, boxes.softness
    flatness = half_widths / softness
    places = (rows[:, None] - boxes.centers) / softness
    log_flat, log_even = log_cosh(flatness), log_cosh(places)
    log_sum = np.logaddexp(log_flat, log_even)
    heights = log_sinh(flatness) - np.log(2 * half_widths)
    logs = (heights - log_sum).sum(axis=2) + np.log(boxes.weights)
    totals = logsumexp(logs, axis=1)
    shares = np.exp(logs - totals[:, None]) * row_shares[:, None]
    in_total = shares.sum(axis=0)
    by_place = -np.exp(log_even - log_sum) * np.tanh(places)
    by_flatness = 1 / np.tanh(flatness) - np.exp(log_flat - log_sum) * np.tanh(flatness)
    slope = np.einsum("nk,nkd->kd", shares, by_place)
    stretch = np.einsum("nk,nkd->kd", shares, by_place * places)
    swell = np.einsum("nk,nkd->kd", shares, by_flatness)
    by_softness = -(stretch + swell * flatness) / softness
    by_half_width = swell / softness - in_total[:, None] / half_widths + sharpest * by_softness
    derivative = _Parameters(
        in_total - boxes.weights,
        -slope / softness,
        by_half_width * half_widths,
        by_softness * np.exp(parameters.log_extra),
    )
    return -float(row_shares @ totals), -derivative.flat()
