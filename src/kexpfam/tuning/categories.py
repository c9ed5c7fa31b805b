"""The categories of a chain: shares of the levels, and how they depend on the columns before.

A softmax over the levels with functions of the columns before is a tilt of the levels' shares: the
convex problem of `kexpfam.solve.conditional` with levels as nodes and indicators as functions of
them. Held-out rows choose the penalty, or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.features.inputs import InputFunctions
from kexpfam.model.chain_terms import CategoryTerm
from kexpfam.solve.conditional import TiltProblem
from kexpfam.tuning.chain import (
    FEWEST_ROWS,
    FUNCTIONS,
    MOST_ROWS,
    best_tilt,
    functions_for,
)
from kexpfam.tuning.number_choices import TiltChoice
from kexpfam.tuning.table_rows import TableRows

__all__ = ["CategoryChoice", "choose_category", "chosen_category", "fit_category"]


class CategoryChoice(NamedTuple):
    """What was found to pay for a category, if anything."""

    tilt: TiltChoice | None


def _category_problem(
    table: TableRows,
    place: int,
    members: Bool[np.ndarray, " n"],
    functions: InputFunctions | None = None,
) -> tuple[InputFunctions, TiltProblem, Int[np.ndarray, " j"]]:
    """The softmax of a category's levels as a tilt of their shares."""
    codes = table.parts.codes[:, place]
    there = np.flatnonzero(members & ~np.isnan(codes))[:MOST_ROWS]
    indicators = table.layout.indicators(table.parts)[there, : table.layout.offsets[place]]
    if functions is None:
        functions = functions_for(indicators, None, FUNCTIONS)
    levels = np.eye(table.layout.level_counts[place])
    shares = _level_shares(table, place, members)
    weights = table.weights[there]
    problem = TiltProblem(
        functions(indicators),
        levels[codes[there].astype(int)],
        levels,
        np.log(shares)[None],
        weights / weights.sum(),
    ).single()
    return functions, problem, there


def _level_shares(
    table: TableRows, place: int, members: Bool[np.ndarray, " n"]
) -> Float[np.ndarray, " k"]:
    """How frequent the levels are, with half a row more for each."""
    codes = table.parts.codes[:, place]
    there = members & ~np.isnan(codes)
    count = table.layout.level_counts[place]
    masses = np.bincount(codes[there].astype(int), table.weights[there], minlength=count)
    # Rows may have weights below one, but a row that occurs often is not a large row.
    smooth = masses + 0.5 * min(1.0, float(table.weights.mean()))
    return smooth / smooth.sum()


def choose_category(
    table: TableRows, place: int, members: Bool[np.ndarray, " n"], held: Bool[np.ndarray, " n"]
) -> CategoryChoice:
    """A penalty, where functions of the columns before pay."""
    n_there = int((members & ~np.isnan(table.parts.codes[:, place])).sum())
    if table.layout.offsets[place] == 0 or n_there < FEWEST_ROWS:
        return CategoryChoice(None)
    functions, problem, places = _category_problem(table, place, members)
    return CategoryChoice(best_tilt(functions, problem, held[places]))


def fit_category(
    table: TableRows, place: int, members: Bool[np.ndarray, " n"], choice: CategoryChoice
) -> CategoryTerm:
    """The term of a category with what was chosen."""
    term = chosen_category(table, place, members, choice)
    if choice.tilt is None:
        return term
    _, problem, _ = _category_problem(table, place, members, choice.tilt.functions)
    return term._replace(coefficients=choice.tilt.fitted_to(problem))


def chosen_category(
    table: TableRows, place: int, members: Bool[np.ndarray, " n"], choice: CategoryChoice
) -> CategoryTerm:
    """The same, with the tilt of the rows that were not held out."""
    shares = np.log(_level_shares(table, place, members))
    if choice.tilt is None:
        return CategoryTerm(shares, None, None)
    return CategoryTerm(shares, choice.tilt.functions, choice.tilt.coefficients)
