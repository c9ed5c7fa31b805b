"""Monotone maps of the columns, chosen by the held-out likelihood of a mixture after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.averaged import compared_starts, held_out_logs
from kexpfam.base.monomial_tables import worth_threads
from kexpfam.data.coordinates import Coordinates, fit_coordinates
from kexpfam.data.marginals import MarginalKind
from kexpfam.data.standardize import Standardizer
from kexpfam.threads import in_threads
from kexpfam.tuning.gate import mean_and_error

__all__ = ["COMPARED_ROWS", "HeldOut", "choose_coordinates"]

# Log densities of judges under a mixture of the other rows in some coordinates, per unit of the
# user's; both are among the first rows.
HeldOut = Callable[[Coordinates, Bool[np.ndarray, " k"]], Float[np.ndarray, " j"]]

COMPARED_ROWS = 4000
# With fewer rows a fifth of them says little; with fewer than the second, nothing is chosen.
_MANY_ROWS, _FEWEST_ROWS = 1000, 20
# Standard errors by which a map that is not looked at again is worse than the best.
_FAR_BEHIND = 3.0


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
    all_judges = _judges(folds)

    some = slice(0, COMPARED_ROWS)
    rows_some, few = rows[some], weights[some]

    def trial(pair: tuple[MarginalKind, Bool[np.ndarray, " k"]]) -> Float[np.ndarray, " j"]:
        kind, judges = pair
        # Rows that judge a map have no part in it.
        coordinates = _fitted_to(rows, weights, folds, ~judges, spread, kind)
        here = judges[some]
        if held_out is not None:
            return held_out(coordinates, here)
        logs = held_out_logs(coordinates.forward(rows_some), few, here, seed)
        return logs + coordinates.log_jacobian(rows_some[here])

    n_components = sum(start.n_components for start in compared_starts(len(few), seed))
    worth = worth_threads(len(few), rows.shape[1], n_components)

    def judged(kinds: Sequence[MarginalKind], by: Sequence[Bool[np.ndarray, " k"]]) -> _Judged:
        """Log densities under each kind, of one fold of judges after the other."""
        # The last kind takes the longest, and is begun first.
        later_first = kinds[::-1]
        found = in_threads(trial, product(later_first, by), worth=worth)
        logs = {kind: np.concatenate([next(found) for _ in by]) for kind in later_first}
        return _Judged(
            {kind: logs[kind] for kind in kinds},
            np.concatenate([few[judges[some]] for judges in by]),
        )

    seen = judged(kinds, all_judges[:1])
    left: Sequence[MarginalKind] = kinds
    if len(all_judges) > 1:
        # One fold is enough to see what is far behind.
        left = seen.not_far_behind()
        if len(left) > 1:
            seen = seen.joined(judged(left, all_judges[1:]))
    best = seen.best(left)
    return _fitted_to(rows, weights, folds, everything, spread, best), best


class _Judged(NamedTuple):
    """Log densities of judges under each kind of map, and their weights."""

    logs: dict[MarginalKind, Float[np.ndarray, " j"]]
    weights: Float[np.ndarray, " j"]

    def joined(self, other: _Judged) -> _Judged:
        """With more judges, for the kinds that they looked at."""
        logs = {kind: np.append(self.logs[kind], more) for kind, more in other.logs.items()}
        return _Judged(logs, np.append(self.weights, other.weights))

    def gain(self, kind: MarginalKind, other: MarginalKind) -> tuple[float, float]:
        """By how much one kind is better than another, and the standard error of that."""
        return mean_and_error(self.logs[kind] - self.logs[other], self.weights)

    def not_far_behind(self) -> list[MarginalKind]:
        """Kinds that are not worse than the best one significantly.

        All, where log densities are so extreme that their differences are no numbers.
        """
        top = max(self.logs, key=lambda kind: mean_and_error(self.logs[kind], self.weights)[0])
        behind = {kind: self.gain(top, kind) for kind in self.logs}
        return [kind for kind, (gain, error) in behind.items() if not gain > _FAR_BEHIND * error]

    def best(self, kinds: Sequence[MarginalKind]) -> MarginalKind:
        """The last of the kinds that is better than those before it."""
        best = kinds[0]
        for kind in kinds[1:]:
            gain, error = self.gain(kind, best)
            # A map with more to fit must be better significantly.
            if gain > error:
                best = kind
        return best


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
