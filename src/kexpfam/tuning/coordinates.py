"""Monotone maps of the columns, chosen by the held-out likelihood of a mixture after them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.averaged import held_out_logs
from kexpfam.data.coordinates import Coordinates, fit_coordinates
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.standardize import Standardizer
from kexpfam.threads import in_threads

__all__ = ["COMPARED_ROWS", "HeldOut", "choose_coordinates"]

# Log densities of judges under a mixture of the other rows in some coordinates, per unit of the
# user's; both are among the first rows.
HeldOut = Callable[[Coordinates, Bool[np.ndarray, " k"]], Float[np.ndarray, " j"]]

COMPARED_ROWS = 4000
# With fewer rows a fifth of them says little; with fewer than the second, nothing is chosen.
_MANY_ROWS, _FEWEST_ROWS = 1000, 20


def choose_coordinates(
    rows: Float[np.ndarray, "k d"],
    weights: Float[np.ndarray, " k"],
    folds: Int[np.ndarray, " k"],
    spread: Standardizer,
    marginals: MarginalKind | Literal["auto"],
    seed: int,
    held_out: HeldOut | None = None,
) -> tuple[Coordinates, MarginalKind]:
    """Marginal maps with the best held-out likelihood in the user's units.

    That of complete rows, unless it is given as a function of coordinates and judges.
    """
    kinds: tuple[MarginalKind, ...] = (
        (None, "yeo_johnson", "gaussianize") if marginals == "auto" else (marginals,)
    )
    if marginals == "auto" and len(rows) < _FEWEST_ROWS:
        kinds = (None,)
    everything = np.ones(len(rows), bool)
    if len(kinds) == 1:
        return _fitted_to(rows, weights, folds, everything, spread, kinds[0]), kinds[0]
    some = slice(0, COMPARED_ROWS)
    rows_some, few = rows[some], weights[some]
    best: MarginalKind = None
    best_logs = np.array([])
    all_judges = _judges(folds)

    def trial(pair: tuple[MarginalKind, Bool[np.ndarray, " k"]]) -> Float[np.ndarray, " j"]:
        kind, judges = pair
        # Rows that judge a map have no part in it.
        coordinates = _fitted_to(rows, weights, folds, ~judges, spread, kind)
        here = judges[some]
        if held_out is not None:
            return held_out(coordinates, here)
        logs = held_out_logs(coordinates.forward(rows_some), few, here, seed)
        return logs + coordinates.log_jacobian(rows_some[here])

    trials = iter(list(in_threads(trial, product(kinds, all_judges))))
    judged = np.any(all_judges, axis=0)[some]
    shares = few * judged / (few @ judged)
    for kind in kinds:
        logs = np.zeros(len(few))
        for judges in all_judges:
            logs[judges[some]] = next(trials)
        if len(best_logs):
            gain = shares @ (logs - best_logs)
            error = np.sqrt(shares**2 @ (logs - best_logs - gain) ** 2)
        # A map with more to fit must be better beyond doubt.
        if not len(best_logs) or gain > error:
            best, best_logs = kind, logs
    return _fitted_to(rows, weights, folds, everything, spread, best), best


def _fitted_to(
    rows: Float[np.ndarray, "k d"],
    weights: Float[np.ndarray, " k"],
    folds: Int[np.ndarray, " k"],
    members: Bool[np.ndarray, " k"],
    spread: Standardizer,
    kind: MarginalKind,
) -> Coordinates:
    """Coordinates of some rows, the first fold of which says how much a map may bend."""
    held = folds[members] == folds[members].min()
    return fit_coordinates(rows[members], weights[members], held, spread, kind)


def _judges(folds: Int[np.ndarray, " k"]) -> list[Bool[np.ndarray, " k"]]:
    """The first fold; where rows are few, every fold in its turn."""
    numbers = np.unique(folds)
    return [folds == number for number in numbers[: 1 if len(folds) >= _MANY_ROWS else None]]
