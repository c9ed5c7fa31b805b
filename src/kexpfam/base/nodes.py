"""Panels of Gauss–Legendre nodes on a box of one or two columns.

Every panel has eight nodes per column, which integrate polynomials of degree fifteen exactly. Where
a density has edges (it is a `HasEdges`), panels end there, so that no panel holds a jump.

`base_nodes` gives one rule for many tilts of the same base density: nodes x_i with shares
u_i ∝ weight_i q0(x_i) that sum to one, so that E_q0[g] ≈ Σ_i u_i g(x_i).

| symbol | name            | shape        |
|--------|-----------------|--------------|
|        | low, high       | (p, d)       |
| x_i    | rows            | (n, d)       |
| log u  | log_proportions | (n,)         |
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from kexpfam.base.defensive import BaseDraws
from kexpfam.base.density import BaseDensity
from kexpfam.base.rescaled import RescaledDensity

__all__ = ["NODES", "HasEdges", "Panels", "base_nodes", "box_of_mass", "panels_on_box"]

# Per panel and column.
NODES = 8
# Nodes whose share is below the largest by more than this many nats are left out of a rule. There a
# tilt is held by its penalty alone, so that mass must be out of its reach: with 18 nats it was not.
_NEGLIGIBLE = 30.0
# Points per column that show where the mass is.
_LOOKED_AT = 65


@runtime_checkable
class HasEdges(Protocol):
    """A density that falls steeply at some places of each column."""

    def edges(self) -> list[np.ndarray]:
        """Those places."""
        ...


class Panels(NamedTuple):
    """Boxes side by side."""

    low: Float[np.ndarray, "p d"]
    high: Float[np.ndarray, "p d"]

    def nodes(self) -> tuple[Float[np.ndarray, "p k d"], Float[np.ndarray, "p k"]]:
        """The nodes of every panel, and the logs of their weights."""
        n_columns = self.low.shape[1]
        points, weights = np.polynomial.legendre.leggauss(NODES)
        mesh = np.meshgrid(*[(points + 1) / 2] * n_columns, indexing="ij")
        unit = np.stack(mesh, axis=-1).reshape(-1, n_columns)
        log_weights = np.log(weights / 2)
        for _ in range(n_columns - 1):
            log_weights = np.add.outer(log_weights, np.log(weights / 2)).ravel()
        width = self.high - self.low
        rows = self.low[:, None] + width[:, None] * unit
        return rows, np.log(width).sum(axis=1)[:, None] + log_weights

    def halved(self) -> Panels:
        """Every panel halved in every column; parts of one panel stand side by side."""
        middle = (self.low + self.high) / 2
        lows, highs = [], []
        for upper in itertools.product((False, True), repeat=self.low.shape[1]):
            lows.append(np.where(upper, middle, self.low))
            highs.append(np.where(upper, self.high, middle))
        n_columns = self.low.shape[1]
        return Panels(
            np.stack(lows, axis=1).reshape(-1, n_columns),
            np.stack(highs, axis=1).reshape(-1, n_columns),
        )


def panels_on_box(
    base: BaseDensity,
    low: Float[np.ndarray, " d"],
    high: Float[np.ndarray, " d"],
    counts: Sequence[int],
) -> Panels:
    """About this many panels per column; they end where the density has edges."""
    ends = []
    for start, stop, count, edges in zip(low, high, counts, _edges_of(base, len(low)), strict=True):
        places = np.linspace(start, stop, count + 1)
        inner = edges[(edges > start) & (edges < stop)]
        # An end that is near an edge gives way to it: panels stay of about one size.
        step = (stop - start) / count
        near = np.abs(places[:, None] - inner).min(axis=1, initial=np.inf) < step / 4
        near[[0, -1]] = False
        ends.append(np.unique(np.concatenate([places[~near], inner])))
    corners = [
        np.stack(np.meshgrid(*side, indexing="ij"), axis=-1).reshape(-1, len(low))
        for side in ([one[:-1] for one in ends], [one[1:] for one in ends])
    ]
    return Panels(*corners)


def base_nodes(base: BaseDensity, counts: Sequence[int]) -> BaseDraws:
    """Nodes of about this many panels per column that stand for the base density."""
    low, high = box_of_mass(base)
    rows, log_weights = panels_on_box(base, low, high, counts).nodes()
    rows, logs = rows.reshape(-1, len(low)), log_weights.ravel()
    logs = logs + base.log_density(rows)
    kept = logs > logs.max() - _NEGLIGIBLE
    return BaseDraws(rows[kept], logs[kept] - logsumexp(logs[kept]))


def box_of_mass(base: BaseDensity) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """The part of the base density's box where it is not negligible."""
    low, high = base.box()
    axes = [np.linspace(*ends, _LOOKED_AT) for ends in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
    logs = base.log_density(grid)
    inside = grid[logs > logs.max() - _NEGLIGIBLE]
    step = (high - low) / (_LOOKED_AT - 1)
    return np.maximum(inside.min(axis=0) - step, low), np.minimum(inside.max(axis=0) + step, high)


def _edges_of(base: BaseDensity, n_columns: int) -> list[Float[np.ndarray, " e"]]:
    if isinstance(base, RescaledDensity):
        inner = _edges_of(base.density, n_columns)
        units = zip(inner, base.center, base.scale, strict=True)
        return [center + scale * edges for edges, center, scale in units]
    if isinstance(base, HasEdges):
        return base.edges()
    return [np.zeros(0)] * n_columns
