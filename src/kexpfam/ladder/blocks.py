"""Flow, walk and derivatives at any number of rows, block by block.

Blocks have two sizes, so that everything is compiled once and a few rows do not pay for many. A
row's result does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.data.blocks import padded
from kexpfam.ladder.flow import ScoreField, flow_down, flow_up
from kexpfam.ladder.reverse import walk_down
from kexpfam.precision import compiled

__all__ = ["derivatives", "flow_draws", "log_densities", "walk_draws"]

_BLOCK, _FEW = 512, 64
# Times the tolerance, an error of the flow is worth steps so many times shorter.
_ROUGH, _SHORTER = 10.0, 4
# Of the walk: ancestral steps, corrections after each, and their size.
_WALK_STEPS, _CORRECTIONS, _CORRECTION = 200, 1, 0.1


def log_densities(
    field: ScoreField, rows: Float[np.ndarray, "n d"], n_steps: int, tolerance: float
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """log p at rows, with error estimates."""

    def carried(steps: int, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        return _in_blocks(lambda _, piece: flow_up(field, piece, steps), rows)

    logs, errors = carried(n_steps, rows)
    # Rows far out move fast: for some the common steps are too long.
    rough = np.flatnonzero(~(errors <= _ROUGH * tolerance))
    if n_steps > 0 and len(rough):
        logs[rough], errors[rough] = carried(_SHORTER * n_steps, rows[rough])
    return logs, errors


def derivatives(
    field: ScoreField,
    rows: Float[np.ndarray, "n d"],
    time: float,
    axes: Float[np.ndarray, "d e"],
    metric: Float[np.ndarray, "n e"],
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """∇log p at rows, and Σ_e metric_e a_eᵀ ∇²log p a_e for the columns a_e of `axes`."""
    score, curvature = _in_blocks(
        lambda _, piece, weights: _derivatives_at(field, piece, time, axes, weights), rows, metric
    )
    return score, curvature


@compiled
def _derivatives_at(field: Any, rows: Any, time: Any, axes: Any, metric: Any) -> Any:
    return field.score(rows, time), field.curvature(rows, time, axes, metric)


def flow_draws(
    field: ScoreField, start: Float[np.ndarray, "n d"], n_steps: int
) -> Float[np.ndarray, "n d"]:
    """Draws of the highest level carried to the lowest by the flow."""
    ends, _ = _in_blocks(lambda _, piece: flow_down(field, piece, n_steps), start)
    return ends


def walk_draws(
    field: ScoreField, start: Float[np.ndarray, "n d"], seed: int
) -> Float[np.ndarray, "n d"]:
    """Draws of the highest level walked to the lowest, with noise."""

    def walked(number: int, piece: np.ndarray) -> tuple[np.ndarray]:
        return (walk_down(field, piece, seed + number, _WALK_STEPS, _CORRECTIONS, _CORRECTION),)

    (ends,) = _in_blocks(walked, start)
    return ends


def _in_blocks(
    function: Callable[..., tuple[np.ndarray, ...]], *arrays: Float[np.ndarray, "n ..."]
) -> tuple[np.ndarray, ...]:
    """Results of a function of a block's number and padded arrays, whole again."""
    found = []
    for number, start in enumerate(range(0, len(arrays[0]), _BLOCK)):
        pieces = [array[start : start + _BLOCK] for array in arrays]
        count = len(pieces[0])
        size = _BLOCK if count > _FEW else _FEW
        results = function(number, *(padded(piece, size) for piece in pieces))
        found.append([result[:count] for result in results])
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
