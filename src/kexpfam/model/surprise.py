"""How surprising each value of a row is, given the row's other values.

For column j of a row the density of its value given all others, p(t | rest), is found on a grid of
nodes. The *surprise* of the value that is there compares its density with that of all values that
could be there,

    surprise_j = −log P( p(T | rest) ≤ p(x_j | rest) ),       T ~ p(· | rest),

zero for the likeliest value and 4.6 for one in a hundred. What is expected is the central interval
of the same density. Nodes follow the conditional of the base density, which is a one-dimensional
mixture (see `kexpfam.base.conditionals`); with a tilt, the density is that at the nodes.

| symbol       | name        | shape     |
|--------------|-------------|-----------|
| t            | nodes       | (n, d, q), ascending |
| log p        | log_density | (n, d, q), of the nodes' coordinate, normalised |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from kexpfam.base.conditionals import ColumnMixtures

__all__ = ["COARSE", "FINE", "ColumnGrids", "grids_of_mixtures", "grids_on_box", "with_columns"]

# Components of a conditional mixture that are kept.
LIVE = 64

_BOX_NODES = 257


class Nodes(NamedTuple):
    """How many components nodes are laid around, and where, in their standard deviations."""

    n_components: int
    offsets: Float[np.ndarray, " o"]


FINE = Nodes(8, np.concatenate([[-8.0, -6.0, -5.0], np.linspace(-4, 4, 25), [5.0, 6.0, 8.0]]))
COARSE = Nodes(3, np.linspace(-4, 4, 9))


class ColumnGrids(NamedTuple):
    """The density of every column given a row's others, on nodes, and at the value that is there.

    `own_log_tail` bounds what lies beyond the value where the nodes end before it.
    """

    nodes: Float[np.ndarray, "n d q"]
    log_density: Float[np.ndarray, "n d q"]
    own: Float[np.ndarray, "n d"]
    own_log_density: Float[np.ndarray, "n d"]
    own_log_tail: Float[np.ndarray, "n d"]

    @property
    def _log_shares(self) -> Float[np.ndarray, "n d q"]:
        """Of the nodes, by the trapezoidal rule."""
        widths = np.diff(self.nodes, axis=2)
        halves = np.pad(widths, [(0, 0), (0, 0), (1, 1)]) / 2
        with np.errstate(divide="ignore"):
            return np.log(halves[:, :, 1:] + halves[:, :, :-1]) + self.log_density

    def tilted(
        self, tilt: Float[np.ndarray, "n d q"], own_tilt: Float[np.ndarray, "n d"]
    ) -> ColumnGrids:
        """With the logarithm of a factor at the nodes and at the values that are there."""
        raised = self._replace(log_density=self.log_density + tilt)
        total = logsumexp(raised._log_shares, axis=2)
        shift = own_tilt - total
        return raised._replace(
            log_density=raised.log_density - total[:, :, None],
            own_log_density=self.own_log_density + shift,
            own_log_tail=self.own_log_tail + shift,
        )

    def surprise(self) -> Float[np.ndarray, "n d"]:
        """−log of the probability of a value that is no likelier than the one there."""
        shares = self._log_shares
        shares = shares - logsumexp(shares, axis=2, keepdims=True)
        lower = self.log_density <= self.own_log_density[:, :, None]
        with np.errstate(divide="ignore"):
            inside = logsumexp(np.where(lower, shares, -np.inf), axis=2)
        outside = (self.own < self.nodes[:, :, 0]) | (self.own > self.nodes[:, :, -1])
        # Beyond the nodes the tail decides, on both sides alike.
        log_probability = np.where(outside, self.own_log_tail + np.log(2), inside)
        return np.maximum(0.0, -log_probability)

    def interval(
        self, coverage: float
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
        """The central interval that holds so much."""
        low, high = (self._quantile((1 + sign * coverage) / 2) for sign in (-1, 1))
        return low, high

    def _quantile(self, level: float) -> Float[np.ndarray, "n d"]:
        shares = self._log_shares
        shares = np.exp(shares - logsumexp(shares, axis=2, keepdims=True))
        # A node's share lies half below it and half above.
        below = np.cumsum(shares, axis=2) - shares / 2
        place = np.clip((below < level).sum(axis=2) - 1, 0, shares.shape[2] - 2)[:, :, None]
        low, high = (np.take_along_axis(below, place + step, axis=2) for step in (0, 1))
        left, right = (np.take_along_axis(self.nodes, place + step, axis=2) for step in (0, 1))
        rise = np.where(high > low, high - low, 1.0)
        share = np.clip((level - low) / rise, 0.0, 1.0)
        return (left + share * (right - left))[:, :, 0]


def with_columns(
    rows: Float[np.ndarray, "n d"], nodes: Float[np.ndarray, "n d q"]
) -> Float[np.ndarray, "m d"]:
    """Every row with one column after the other put to each of its nodes: n·d·q rows."""
    n_rows, n_columns, n_nodes = nodes.shape
    moved = np.broadcast_to(rows[:, None, None, :], (n_rows, n_columns, n_nodes, n_columns)).copy()
    for column in range(n_columns):
        moved[:, column, :, column] = nodes[:, column]
    return moved.reshape(-1, n_columns)


def grids_of_mixtures(
    mixtures: ColumnMixtures, own: Float[np.ndarray, "n d"], laid: Nodes
) -> ColumnGrids:
    """Nodes around the heaviest components."""
    heaviest = np.argsort(-mixtures.log_weights, axis=2)[:, :, : laid.n_components]
    means, deviations = (
        np.take_along_axis(part, heaviest, axis=2) for part in (mixtures.means, mixtures.deviations)
    )
    nodes = means[:, :, :, None] + deviations[:, :, :, None] * laid.offsets
    nodes = np.sort(nodes.reshape(*means.shape[:2], -1), axis=2)
    return ColumnGrids(
        nodes,
        mixtures.log_density(nodes),
        own,
        mixtures.log_density(own[:, :, None])[:, :, 0],
        mixtures.log_tail(own),
    )


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
