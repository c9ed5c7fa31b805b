"""Monotone maps of the columns, chosen by the held-out likelihood of a mixture after them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.averaged import held_out_logs
from kexpfam.data.coordinates import Coordinates, fit_coordinates
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.standardize import Standardizer

__all__ = ["choose_coordinates"]

_ROWS = 4000


def choose_coordinates(
    rows: Float[np.ndarray, "k d"],
    weights: Float[np.ndarray, " k"],
    held: Bool[np.ndarray, " k"],
    spread: Standardizer,
    marginals: MarginalKind | Literal["auto"],
    seed: int,
) -> tuple[Coordinates, MarginalKind]:
    """Marginal maps with the best held-out likelihood in the user's units."""
    kinds: tuple[MarginalKind, ...] = (
        (None, "yeo_johnson", "gaussianize") if marginals == "auto" else (marginals,)
    )
    if len(kinds) == 1:
        return fit_coordinates(rows, weights, held, spread, kinds[0]), kinds[0]
    some = slice(0, _ROWS)
    few, judges = weights[some], held[some]
    shares = few[judges] / few[judges].sum()
    best: tuple[Coordinates, MarginalKind] | None = None
    best_logs = np.array([])
    for kind in kinds:
        coordinates = fit_coordinates(rows, weights, held, spread, kind)
        logs = held_out_logs(coordinates.forward(rows[some]), few, judges, seed)
        logs += coordinates.log_jacobian(rows[some][judges])
        if best is not None:
            gain = shares @ (logs - best_logs)
            error = np.sqrt(shares**2 @ (logs - best_logs - gain) ** 2)
        # A map with more to fit must be better beyond doubt.
        if best is None or gain > error:
            best, best_logs = (coordinates, kind), logs
    assert best is not None
    return best
