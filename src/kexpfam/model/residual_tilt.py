"""A tilt of a distribution on the line, in terms of its own quantiles.

A number that has the share v of its distribution below it has the residual r = Φ⁻¹(v): under that
distribution a standard normal, whatever its shape. The tilted density is the old one times

    ρ(r) = (1 − ε) exp(f(r)) / Z + ε,      f(r) = aᵀb(r),      Z = ∫ φ(r) exp f(r) dr,

with functions b of the residual and ε = 0.01, so that it loses at most 4.6 nats to the old one
anywhere. Z is the trapezoid rule on equal nodes over ±8, which converges faster than any power of
the step; half of the nodes give the error estimate, and rows where that is too large get more. For
masses and draws, with twice as many, the tilt is constant around each node: then masses of cells
add up to one exactly, and the distribution function is inverted in closed form.

| symbol | name   | shape  |
|--------|--------|--------|
| a      | slopes | (n, k) |
| b(n_q) | AT_NODES | (q, k) |
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from kexpfam.features.residual import REACH, residual_functions

__all__ = ["BASE_SHARE", "NODES", "cell_log_ratio", "log_ratio", "normal_masses", "tilted_levels"]

BASE_SHARE = 0.01
NODES = np.linspace(-REACH, REACH, 161)
_AT_NODES = residual_functions(NODES)
# Where the neighborhood of each node ends, as shares of a standard normal below.
_EDGES = np.concatenate([[0.0], ndtr((NODES[1:] + NODES[:-1]) / 2), [1.0]])
_MASSES = np.concatenate([np.diff(_EDGES[:81]), [2 * (_EDGES[81] - 0.5)],
                          np.diff(_EDGES[:81])[::-1]])  # fmt: skip
_TOLERANCE, _MOST_NODES = 1e-6, 1281
_EVERY_OTHER = slice(None, None, 2)
# Cells with less mass than this, which rounding would spoil, take the tilt at their middle.
_THIN = 1e-10
_TINY = 1e-300


def normal_masses(nodes: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
    """Masses of the nodes of a trapezoid rule for a standard normal."""
    return np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi) * (nodes[1] - nodes[0])


def log_ratio(
    slopes: Float[np.ndarray, "n k"], residuals: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """log ρ at a residual for each row, and an estimate of the quadrature's error in it."""
    log_normalizers, errors = _log_normalizers(slopes)
    tilt = (slopes * residual_functions(residuals)).sum(axis=1) - log_normalizers
    return np.logaddexp(np.log1p(-BASE_SHARE) + tilt, np.log(BASE_SHARE)), errors


def _log_normalizers(
    slopes: Float[np.ndarray, "n k"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    nodes = NODES[_EVERY_OTHER]
    totals, errors = _integrated(slopes, nodes, _AT_NODES[_EVERY_OTHER])
    poor = np.flatnonzero(errors > _TOLERANCE)
    while len(poor) and 2 * len(nodes) - 1 <= _MOST_NODES:
        nodes = np.linspace(-REACH, REACH, 2 * len(nodes) - 1)
        totals[poor], errors[poor] = _integrated(slopes[poor], nodes, residual_functions(nodes))
        poor = poor[errors[poor] > _TOLERANCE]
    return totals, errors


def _integrated(
    slopes: Float[np.ndarray, "n k"],
    nodes: Float[np.ndarray, " q"],
    at_nodes: Float[np.ndarray, "q k"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """log Z, and its difference from that with half of the nodes."""
    logs = slopes @ at_nodes.T
    top = logs.max(axis=1)
    values = np.exp(logs - top[:, None])
    fine, coarse = (
        top + np.log(values[:, ::every] @ normal_masses(nodes[::every])) for every in (1, 2)
    )
    return fine, np.abs(fine - coarse)


def _cell_factors(slopes: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n q"]:
    """ρ around each node; with the nodes' masses they add up to one."""
    logs = slopes @ _AT_NODES.T
    values = np.exp(logs - logs.max(axis=1, keepdims=True))
    values /= (values @ _MASSES)[:, None]
    return (1 - BASE_SHARE) * values + BASE_SHARE


def cell_log_ratio(
    slopes: Float[np.ndarray, "n k"],
    below: Float[np.ndarray, " n"],
    above: Float[np.ndarray, " n"],
    middles: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """log of the mean of ρ over a cell with these shares below and above it."""
    factors = _cell_factors(slopes)
    start, end = below[:, None], 1 - above[:, None]
    overlap = np.clip(np.minimum(end, _EDGES[1:]) - np.maximum(start, _EDGES[:-1]), 0.0, None)
    width = overlap.sum(axis=1)
    mean = (overlap * factors).sum(axis=1) / np.maximum(width, _TINY)
    node = np.clip(np.rint((middles + REACH) / (NODES[1] - NODES[0])), 0, len(NODES) - 1)
    at_middle = np.take_along_axis(factors, node.astype(int)[:, None], axis=1)[:, 0]
    return np.log(np.where(width > _THIN, mean, at_middle))


def tilted_levels(
    slopes: Float[np.ndarray, "n k"], uniform: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Shares of the untilted distribution below numbers with so much of the tilted one below."""
    masses = _cell_factors(slopes) * _MASSES
    sums = np.concatenate([np.zeros((len(slopes), 1)), np.cumsum(masses, axis=1)], axis=1)
    sums /= sums[:, -1:]
    cell = np.clip((sums <= uniform[:, None]).sum(axis=1) - 1, 0, len(NODES) - 1)
    start, end = (np.take_along_axis(sums, cell[:, None] + step, axis=1)[:, 0] for step in (0, 1))
    along = (uniform - start) / np.maximum(end - start, _TINY)
    return _EDGES[cell] + np.clip(along, 0.0, 1.0) * (_EDGES[cell + 1] - _EDGES[cell])
