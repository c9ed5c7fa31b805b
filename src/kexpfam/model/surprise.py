"""How surprising each value of a row is, given the row's other values.

For column j of a row the density of its value given all others, p(t | rest), is found on a grid of
nodes. The *surprise* of the value that is present compares its density with that of all values that
could be there,

    surprise_j = −log P( p(T | rest) ≤ p(x_j | rest) ),       T ~ p(· | rest),

zero for the likeliest value and 4.6 for one in a hundred. What is expected is the central interval
of the same density. Nodes follow the conditional of the base density, which is a one-dimensional
mixture (see `kexpfam.base.conditionals`); a tilt is added to it, and where it takes a flow to know
it, it is known at some quantiles and goes along straight lines between them. Between two nodes the
logarithm of the density is a straight line, whose integrals are closed form.

Densities are those of a column after its monotone map to something like a normal distribution, if
it has one: a price and its logarithm have about the same surprise.

| symbol       | name        | shape     |
|--------------|-------------|-----------|
| t            | nodes       | (n, d, q), ascending |
| log p        | log_density | (n, d, q), of the nodes' coordinate, normalized |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from kexpfam.base.conditionals import column_mixtures
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.logarithms import log_sum_exp

__all__ = [
    "QUANTILE_LEVELS",
    "ColumnGrids",
    "grids_of_mixture",
    "grids_on_box",
    "with_columns",
]

# Nodes lie around components, at so many of their standard deviations: close together around the
# heaviest ones, so many of them, and a few around the others.
_HEAVIEST = 8
_CLOSE = np.concatenate([[-8.0, -6.0, -5.0], np.linspace(-4, 4, 33), [5.0, 6.0, 8.0]])
_FEW = np.array([-4.0, -2.0, -0.7, 0.7, 2.0, 4.0])
# Components of averaged mixtures lie close together, and so would their nodes: some are enough.
_MOST_LIGHT = 256
# Levels of the quantiles at which a tilt that is dear to evaluate is looked at.
QUANTILE_LEVELS = ndtr(np.linspace(-4, 4, 25))

_BOX_NODES = 257


class ColumnGrids(NamedTuple):
    """The density of every column given a row's others, on nodes, and at the value that is present.

    `own_log_tail` bounds what lies beyond the value where the nodes end before it.
    """

    nodes: Float[np.ndarray, "n d q"]
    log_density: Float[np.ndarray, "n d q"]
    own: Float[np.ndarray, "n d"]
    own_log_density: Float[np.ndarray, "n d"]
    own_log_tail: Float[np.ndarray, "n d"]

    @property
    def _log_masses(self) -> Float[np.ndarray, "n d p"]:
        """Log masses of the pieces between nodes."""
        low, high = self._ends
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.diff(self.nodes, axis=2)) + _log_mean_exp(low, high)

    @property
    def _ends(self) -> tuple[Float[np.ndarray, "n d p"], Float[np.ndarray, "n d p"]]:
        """The lower and the higher log density of each piece's two ends."""
        left, right = self.log_density[:, :, :-1], self.log_density[:, :, 1:]
        return np.minimum(left, right), np.maximum(left, right)

    def tilted(
        self, tilt: Float[np.ndarray, "n d q"], own_tilt: Float[np.ndarray, "n d"]
    ) -> ColumnGrids:
        """With the logarithm of a factor at the nodes and at the values that are present."""
        raised = self._replace(log_density=self.log_density + tilt)
        total = log_sum_exp(raised._log_masses, axis=2)
        shift = own_tilt - total
        return raised._replace(
            log_density=raised.log_density - total[:, :, None],
            own_log_density=self.own_log_density + shift,
            own_log_tail=self.own_log_tail + shift,
        )

    def tilted_between(
        self,
        places: Float[np.ndarray, "n d c"],
        tilt: Float[np.ndarray, "n d c"],
        own_tilt: Float[np.ndarray, "n d"],
    ) -> ColumnGrids:
        """With the logarithm of a factor that is known at some places and at the values there."""
        places = np.concatenate([places, self.own[:, :, None]], axis=2)
        tilt = np.concatenate([tilt, own_tilt[:, :, None]], axis=2)
        order = np.argsort(places, axis=2)
        places, tilt = (np.take_along_axis(part, order, axis=2) for part in (places, tilt))
        flat = (part.reshape(-1, part.shape[2]) for part in (self.nodes, places, tilt))
        between = np.stack([np.interp(*lines) for lines in zip(*flat, strict=True)])
        return self.tilted(between.reshape(self.nodes.shape), own_tilt)

    def surprise(self) -> Float[np.ndarray, "n d"]:
        """−log of the probability of a value that is no likelier than the one there."""
        masses, (low, high) = self._log_masses, self._ends
        own = np.broadcast_to(self.own_log_density[:, :, None], low.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            # The part of a piece in which the log density rises from the lower end to the own one.
            share = np.log(own - low) - np.log(high - low)
            part = np.log(np.diff(self.nodes, axis=2)) + share + _log_mean_exp(low, own)
            rising = (own > low) & np.isfinite(low)
            lower = np.where(own >= high, masses, np.where(rising, part, -np.inf))
            inside = log_sum_exp(lower, axis=2) - log_sum_exp(masses, axis=2)
        # Where not even a node is less likely, there is hardly more than nothing.
        width = np.log(self.nodes[:, :, -1] - self.nodes[:, :, 0])
        inside = np.where(np.isfinite(inside), inside, self.own_log_density + width)
        outside = (self.own < self.nodes[:, :, 0]) | (self.own > self.nodes[:, :, -1])
        # Beyond the nodes the tail decides, on both sides alike.
        log_probability = np.where(outside, self.own_log_tail + np.log(2), inside)
        return np.maximum(0.0, -log_probability)

    def interval(
        self, coverage: float
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
        """The central interval that holds so much."""
        low, high = np.moveaxis(self.quantiles(np.array([1 - coverage, 1 + coverage]) / 2), 2, 0)
        return low, high

    def quantiles(self, levels: Float[np.ndarray, " c"]) -> Float[np.ndarray, "n d c"]:
        """Values with so much probability below them."""
        masses = self._log_masses
        masses = np.exp(masses - log_sum_exp(masses, axis=2, keepdims=True))
        below = np.cumsum(np.pad(masses, [(0, 0), (0, 0), (1, 0)]), axis=2)
        flat = (part.reshape(-1, part.shape[2]) for part in (below, self.nodes))
        found = np.stack([np.interp(levels, *lines) for lines in zip(*flat, strict=True)])
        return found.reshape(*self.own.shape, len(levels))


def _log_mean_exp(
    low: Float[np.ndarray, "..."], high: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """log of the mean of e^t over low ≤ t ≤ high; −∞ where one of them is."""
    finite = np.isfinite(low) & np.isfinite(high)
    rise = np.where(finite, high - low, 1.0)
    flat = rise < 1e-8
    safe = np.where(flat, 1.0, rise)
    found = np.where(flat, high, high + np.log(-np.expm1(-safe) / safe))
    return np.where(finite, found, -np.inf)


def with_columns(
    rows: Float[np.ndarray, "n d"], nodes: Float[np.ndarray, "n d q"]
) -> Float[np.ndarray, "m d"]:
    """Every row with one column after the other put to each of its nodes: n·d·q rows."""
    n_rows, n_columns, n_nodes = nodes.shape
    moved = np.broadcast_to(rows[:, None, None, :], (n_rows, n_columns, n_nodes, n_columns)).copy()
    for column in range(n_columns):
        moved[:, column, :, column] = nodes[:, column]
    return moved.reshape(-1, n_columns)


def grids_of_mixture(
    mixture: GaussianMixtureDensity, rows: Float[np.ndarray, "n d"]
) -> ColumnGrids:
    """Grids of a Gaussian mixture, with nodes around its components."""
    columns = column_mixtures(mixture, rows)
    own, heavy, light = rows[:, :, None], slice(0, _HEAVIEST), slice(_HEAVIEST, None)
    pieces = [
        columns.means[:, :, part, None] + columns.deviations[:, :, part, None] * offsets
        for part, offsets in ((heavy, _CLOSE), (light, _FEW))
    ]
    close, few = (piece.reshape(*rows.shape, -1) for piece in pieces)
    if few.shape[2] > _MOST_LIGHT:
        few = _some_of(few, len(_FEW) * np.isfinite(columns.log_weights[:, :, light]).sum(axis=2))
    nodes = np.concatenate([close, few], axis=2)
    # The value itself is a node if it is among them: what is likelier than it begins there.
    ends = nodes.min(axis=2, keepdims=True), nodes.max(axis=2, keepdims=True)
    nodes = np.sort(np.concatenate([nodes, np.clip(own, *ends)], axis=2), axis=2)
    own_log_density, tail = columns.own_log_density(rows), columns.log_tail(rows)
    return ColumnGrids(nodes, columns.log_density(nodes), rows, own_log_density, tail)


def _some_of(
    nodes: Float[np.ndarray, "n d q"], counts: Int[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d r"]:
    """Nodes at even places among the first ones of each row, in order; all where they are few."""
    counts = counts[:, :, None]
    ordered = np.sort(np.where(np.arange(nodes.shape[2]) < counts, nodes, np.inf), axis=2)
    last, places = np.maximum(counts - 1, 0), np.arange(_MOST_LIGHT)
    even = (places * last / (_MOST_LIGHT - 1)).round().astype(int)
    kept = np.where(counts > _MOST_LIGHT, even, np.minimum(places, last))
    return np.where(counts > 0, np.take_along_axis(ordered, kept, axis=2), nodes[:, :, :1])


def grids_on_box(
    own: Float[np.ndarray, "n d"], low: Float[np.ndarray, " d"], high: Float[np.ndarray, " d"]
) -> ColumnGrids:
    """Equal nodes over a box, with an even density there."""
    nodes = np.linspace(low, high, _BOX_NODES).T
    nodes = np.broadcast_to(nodes, (len(own), *nodes.shape)).copy()
    even = -np.log(high - low)
    logs = np.broadcast_to(even, own.shape)
    return ColumnGrids(
        nodes,
        np.broadcast_to(even[None, :, None], nodes.shape).copy(),
        own,
        logs.copy(),
        logs - 745,
    )
